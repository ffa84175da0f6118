// Kubernetes Events: what the cluster itself notes about objects. The newest warnings beside the cause of an
// application that is not well, and those of one resource in its panel.
import {useEffect, useState} from 'preact/hooks';
import {request} from '../api.ts';
import {Age} from '../parts.tsx';
import type {TreeNode} from '../why.ts';

export interface KubernetesEvent {
    uid: string;
    type: 'NORMAL' | 'WARNING';
    kind: string;
    name: string;
    reason: string | null;
    message: string | null;
    count: number;
    lastAt: string;
}

export const eventFields = 'uid type kind name reason message count lastAt';

const warningsShown = 3;
const listQuery = `query Events($filters: KubernetesEventFilterArgs) {
  kubernetesEvents(pagination: {first: 20}, filters: $filters) { edges { node { ${eventFields} } } }
}`;

function Line({event, withObject}: {event: KubernetesEvent; withObject: boolean}) {
    return (
        <li>
            <b>{event.reason ?? (event.type === 'WARNING' ? 'Warning' : 'Note')}</b>
            {event.type === 'WARNING' && <span class="quiet"> warning</span>}
            {withObject && <> {event.kind} {event.name}</>}
            <span class="quiet"> · {event.count > 1 && `${event.count} times, last `}<Age time={event.lastAt} /></span>
            {event.message && <span class="block breaks">{event.message}</span>}
        </li>
    );
}

export function Warnings({events}: {events: KubernetesEvent[]}) {
    const shown = events.filter((event) => event.type === 'WARNING').slice(0, warningsShown);
    if (!shown.length) return null;
    return <ul class="kubernetes-events" aria-label="Latest warnings of the cluster">{shown.map((event) => <Line key={event.uid} event={event} withObject />)}</ul>;
}

// Of one resource; asked for once while its panel is open, and again when its state was reported anew.
export function ResourceEvents({node, runtime, seen}: {node: TreeNode; runtime: string; seen: string}) {
    const filters = {runtime, cluster: node.cluster, group: node.group ?? '', kind: node.kind, namespace: node.namespace ?? '', name: node.name};
    const key = JSON.stringify(filters);
    const [held, setHeld] = useState<{key: string; events: KubernetesEvent[]}>({key: '', events: []});
    useEffect(() => {
        const cancel = new AbortController();
        const show = async () => {
            const answer = await request<{kubernetesEvents: {edges: {node: KubernetesEvent}[]}}>(listQuery, {filters}, cancel.signal);
            setHeld({key, events: answer.data.kubernetesEvents.edges.map((edge) => edge.node)});
        };
        show().catch(() => undefined); // the panel shows the rest
        return () => cancel.abort();
    }, [key, seen]);
    if (held.key !== key || !held.events.length) return null;
    return (
        <section aria-label="Kubernetes Events">
            <h3>Kubernetes Events</h3>
            <ul class="kubernetes-events">{held.events.map((event) => <Line key={event.uid} event={event} withObject={false} />)}</ul>
        </section>
    );
}
