// What is asked of the cluster for a log, and what its answer is made of (docs/agent.md, "Logs of pods").
export interface LogLine {
    number: number; // in the order of arrival
    time: string;
    origin: string; // pod/container
    text: string;
    notice: boolean; // not of a log: why one is missing
}

export interface LogTarget {
    runtime: string;
    group: string;
    kind: string;
    namespace: string;
    name: string;
}

export interface LogOptions {
    previous: boolean;
    follow: boolean;
    sinceSeconds: number; // 0: all
    tailLines: number;
}

const logKinds = ['Pod', 'Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'ReplicationController', 'Job', 'Rollout'];

// Of an object in another cluster there is no log: the agent reads those of its own cluster alone.
export function hasLogs(node: {kind: string | null; presence: string}, isElsewhere: boolean): boolean {
    return !isElsewhere && node.kind !== null && logKinds.includes(node.kind) && node.presence === 'PRESENT';
}

export function logPath(target: LogTarget, options: LogOptions, since: string): string {
    const query = new URLSearchParams({namespace: target.namespace, kind: target.kind, group: target.group, name: target.name});
    if (options.previous) query.set('previous', 'true');
    else if (options.follow) query.set('follow', 'true');
    if (since) query.set('sinceTime', since);
    else if (options.sinceSeconds) query.set('sinceSeconds', String(options.sinceSeconds));
    if (!since) query.set('tailLines', String(options.tailLines));
    return `runtimes/${encodeURIComponent(target.runtime)}/proxy/app-proxy/api/applications/logs?${query}`;
}

// One line of the answer as a line to show; null: it is for the program alone, `ended` when the answer is whole.
export function readEvent(text: string): {line: Omit<LogLine, 'number'> | null; ended: boolean} {
    let event: Record<string, unknown>;
    try {
        event = JSON.parse(text) as Record<string, unknown>;
    } catch {
        return {line: {time: '', origin: '', text: 'a part of the answer is not readable', notice: true}, ended: false};
    }
    const member = (name: string) => (typeof event[name] === 'string' ? (event[name] as string) : '');
    const origin = member('pod') + (member('container') ? `/${member('container')}` : '');
    if (typeof event.line === 'string') return {line: {time: member('time'), origin, text: event.line, notice: false}, ended: false};
    if (member('event') === 'notice') return {line: {time: '', origin, text: member('message') || member('code'), notice: true}, ended: false};
    return {line: null, ended: member('event') === 'end'};
}
