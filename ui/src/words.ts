// Texts for what the API names by a constant.
import type {Freshness} from './tone.ts';

const states: Record<string, string> = {
    HEALTHY: 'Healthy', PROGRESSING: 'Progressing', DEGRADED: 'Degraded', SUSPENDED: 'Suspended', MISSING: 'Missing', TERMINATED: 'Terminated', UNKNOWN: 'Unknown',
    SYNCED: 'In sync', OUT_OF_SYNC: 'Out of sync', SYNCING: 'Syncing',
    SUCCEEDED: 'Succeeded', FAILED: 'Failed', ERROR: 'Error', RUNNING: 'Running', TERMINATING: 'Terminating', ONLINE: 'Connected',
};

export function stateWord(state: string | null | undefined): string {
    const upper = (state ?? 'UNKNOWN').toUpperCase();
    return states[upper] ?? upper.charAt(0) + upper.slice(1).toLowerCase().replaceAll('_', ' ');
}

export const healthStates = ['DEGRADED', 'MISSING', 'PROGRESSING', 'SUSPENDED', 'UNKNOWN', 'HEALTHY'];
export const syncStates = ['OUT_OF_SYNC', 'SYNCED', 'UNKNOWN'];

export const freshnessWords: Record<Freshness, string> = {
    live: 'Live', lagging: 'Lagging', stale: 'Stale', disconnected: 'Disconnected',
};

// docs/freshness.md, "Why a runtime is not connected".
const causes: Record<string, {what: string; next: string}> = {
    NEVER_CONNECTED: {what: 'no agent has connected with the token of this runtime yet', next: 'Install the agent with that token, and check that it reaches the tunnel listener.'},
    PINGS_MISSED: {what: 'the agent sent nothing for 15 s: it, its node or the network hangs', next: 'Check the agent’s Pod and its node, and the network between cluster and Culvert.'},
    CONNECTION_LOST: {what: 'the connection broke without a close: the agent was killed, or an intermediary closed it', next: 'Look at the agent’s Pod: restarts, memory limit, log. Then at proxies on the path.'},
    CLOSED_BY_AGENT: {what: 'the agent closed the connection: it was stopped', next: 'Start the agent again, or remove the runtime if it is gone for good.'},
    SUPERSEDED: {what: 'a newer connection of the same runtime took over', next: 'It should be back within seconds. If not, two agents use one token.'},
    REPLICA_DIED: {what: 'the Culvert replica that held the connection was lost', next: 'The agent connects to another replica by itself within seconds.'},
    REPLICA_STOPPED: {what: 'the Culvert replica that held the connection was stopped', next: 'The agent connects to another replica by itself within seconds.'},
    REVOKED: {what: 'the runtime’s token was revoked or has expired', next: 'Create a token for the runtime and give it to the agent.'},
    PROTOCOL_ERROR: {what: 'the agent broke the protocol', next: 'Check that the agent’s version fits this Culvert; its log has the reason.'},
    UNKNOWN: {what: 'the cause was not recorded', next: 'Look at the agent’s log.'},
};

export function causeOf(cause: string | null | undefined): {what: string; next: string} {
    return causes[cause ?? 'UNKNOWN'] ?? causes.UNKNOWN!;
}

// A commit's id as people write it.
export function shortRevision(revision: string | null | undefined): string {
    return /^[0-9a-f]{40,64}$/.test(revision ?? '') ? revision!.slice(0, 7) : (revision ?? '');
}

export function firstLine(text: string | null | undefined): string {
    return (text ?? '').split('\n', 1)[0] ?? '';
}

// Only http and https become links.
export function safeUrl(text: string | null | undefined): string | null {
    try {
        const url = new URL(text ?? '');
        return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
    } catch {
        return null;
    }
}

export function repositoryName(url: string | null | undefined): string {
    return (url ?? '').replace(/^[a-z+]+:\/\//, '').replace(/^[^/@]*@/, '').replace(/\.git$/, '').split('/').slice(1).join('/') || (url ?? '');
}

// Argo CD's name of the cluster that it runs in.
export function clusterName(cluster: string | null | undefined): string {
    return cluster === 'https://kubernetes.default.svc' ? 'in-cluster' : (cluster ?? '');
}

export function count(n: number, one: string, many = `${one}s`): string {
    return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}
