// Why an application is not well: the first cause that holds, with one next step.
import {type Freshness, isKnown, type Link, severity} from './tone.ts';
import {causeOf, firstLine, stateWord} from './words.ts';

export interface TreeNode {
    group: string | null;
    kind: string | null;
    namespace: string | null;
    name: string | null;
    uid: string | null;
    cluster: string | null;
    parentRefs: ({uid: string} | null)[] | null;
    createdAt: string | null;
    images: (string | null)[] | null;
    health: {status: string | null; message: string | null} | null;
    status: string | null;
    presence: 'PRESENT' | 'MISSING' | 'UNREADABLE' | 'UNKNOWN_KIND';
    missingRight: {message: string} | null;
    requiresPruning: boolean;
    freshness: Freshness | null;
}

export interface SyncedResource {
    kind: string;
    name: string;
    namespace: string | null;
    message: string | null;
    status: string | null;
    hookPhase: string | null;
}

export interface WhyInput {
    healthStatus: string | null;
    healthMessage: string | null;
    syncStatus: string;
    freshness: Freshness;
    errors: ({level: string; title: string; message: string; suggestion: string | null} | null)[];
    operationState: {phase: string; message: string | null; syncResult: {resources: (SyncedResource | null)[] | null} | null} | null;
    syncPolicy: string | null;
}

export interface Why {
    state: string; // for its colour
    title: string;
    detail: string;
    next: string;
}

export function depthsOf(nodes: TreeNode[]): Map<TreeNode, number> {
    const byUid = new Map(nodes.filter((node) => node.uid).map((node) => [node.uid, node]));
    const depths = new Map<TreeNode, number>();
    const depth = (node: TreeNode, guard: number): number => {
        const held = depths.get(node);
        if (held !== undefined) return held;
        const parent = byUid.get(node.parentRefs?.[0]?.uid ?? '');
        const found = parent && parent !== node && guard < 64 ? depth(parent, guard + 1) + 1 : 0;
        depths.set(node, found);
        return found;
    };
    nodes.forEach((node) => depth(node, 0));
    return depths;
}

function failedOperation(app: WhyInput): Why | null {
    const operation = app.operationState;
    if (!operation || !['Failed', 'Error'].includes(operation.phase)) return null;
    const resources = (operation.syncResult?.resources ?? []).filter((one): one is SyncedResource => one !== null);
    const failed = resources.find((one) => one.status === 'SyncFailed' || ['Failed', 'Error'].includes(one.hookPhase ?? ''));
    const where = failed ? `${failed.kind} ${failed.name}: ${failed.message ?? 'failed without a message'}` : (operation.message ?? 'no message was reported');
    return {state: 'FAILED', title: 'The last operation failed', detail: where, next: 'Correct this in Git; Argo CD compares again within minutes.'};
}

function degradedResource(nodes: TreeNode[]): Why | null {
    const depths = depthsOf(nodes);
    const bad = nodes
        .filter((node) => ['DEGRADED', 'MISSING'].includes((node.health?.status ?? '').toUpperCase()) && node.kind !== 'Application')
        .sort((a, b) => severity(a.health?.status) - severity(b.health?.status) || (depths.get(b) ?? 0) - (depths.get(a) ?? 0) || Number(Boolean(b.health?.message)) - Number(Boolean(a.health?.message)));
    const first = bad[0];
    if (!first) return null;
    return {
        state: first.health?.status ?? 'DEGRADED',
        title: `${first.kind} ${first.name} is ${stateWord(first.health?.status).toLowerCase()}`,
        detail: first.health?.message || 'no reason was reported',
        next: bad.length > 1 ? `${bad.length - 1} more below, worst first.` : 'It stands first in the list below.',
    };
}

export function why(app: WhyInput, nodes: TreeNode[], runtime: {name: string; disconnectCause: string | null} | null, link: Link): Why | null {
    if (app.freshness === 'disconnected' && link === 'live') {
        const cause = causeOf(runtime?.disconnectCause);
        return {state: 'UNKNOWN', title: `Runtime ${runtime?.name ?? ''} is not connected`, detail: `What is shown is the last known state: ${cause.what}.`, next: cause.next};
    }
    const failed = failedOperation(app);
    if (failed) return failed;
    if (app.healthStatus !== 'HEALTHY') {
        const bad = degradedResource(nodes);
        if (bad) return bad;
    }
    const error = app.errors[0];
    if (error) return {state: error.level, title: error.title, detail: error.message, next: error.suggestion ?? ''};
    if (app.healthStatus === 'DEGRADED' || app.healthStatus === 'MISSING')
        return {state: app.healthStatus, title: `The application is ${stateWord(app.healthStatus).toLowerCase()}`, detail: firstLine(app.healthMessage) || 'no resource that Culvert sees has a reason', next: ''};
    if (app.syncStatus === 'OUT_OF_SYNC' && isKnown(app.freshness, link)) {
        const differ = nodes.filter((node) => node.status === 'OUT_OF_SYNC').length;
        return {
            state: 'OUT_OF_SYNC',
            title: differ ? `${differ} ${differ === 1 ? 'resource differs' : 'resources differ'} from Git` : 'The cluster differs from Git',
            detail: nodes.filter((node) => node.status === 'OUT_OF_SYNC').slice(0, 5).map((node) => `${node.kind} ${node.name}`).join(', '),
            next: app.syncPolicy === 'Automated' ? 'Argo CD syncs this application by itself.' : 'Auto-sync is off: sync it in Argo CD.',
        };
    }
    return null;
}
