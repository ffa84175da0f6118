// What may be done to an object: each button tells before it is pressed whether its user may, and why not.
import {signal} from '@preact/signals';
import {useEffect, useState} from 'preact/hooks';
import {link, request} from './api.ts';
import {useDialog} from './dialog.ts';
import {Icon, stateIcons} from './icons.tsx';
import {dismiss, isOpen, type Operation, operations, run, type Target} from './operations.ts';
import {toneOfOperation} from './tone.ts';

interface Action {
    id: string; // of the button
    action: string;
    name: string;
    rules: string[]; // the actions of rules that it needs, all of them (docs/security.md)
    options?: object;
    asks?: string; // what cannot be undone is confirmed
    isTyped?: boolean; // by typing the name
}

const rolloutActions: Action[] = [
    {id: 'ROLLOUT_RESUME', action: 'ROLLOUT_RESUME', name: 'Resume', rules: ['ROLLOUT_RESUME']},
    {id: 'ROLLOUT_PROMOTE', action: 'ROLLOUT_PROMOTE', name: 'Promote', rules: ['ROLLOUT_RESUME', 'ROLLOUT_SKIP_CURRENT_STEP']},
    {id: 'ROLLOUT_PROMOTE_FULL', action: 'ROLLOUT_PROMOTE_FULL', name: 'Promote fully', rules: ['ROLLOUT_PROMOTE_FULL'], asks: 'All traffic goes to the new version at once; the steps and analyses that are left are skipped.'},
    {id: 'ROLLOUT_PAUSE', action: 'ROLLOUT_PAUSE', name: 'Pause', rules: ['ROLLOUT_PAUSE']},
    {id: 'ROLLOUT_ABORT', action: 'ROLLOUT_ABORT', name: 'Abort', rules: ['ROLLOUT_ABORT'], asks: 'All traffic goes back to the stable version.'},
    {id: 'ROLLOUT_RETRY', action: 'ROLLOUT_RETRY', name: 'Retry', rules: ['ROLLOUT_RETRY']},
    {id: 'RESTART', action: 'RESTART', name: 'Restart', rules: ['RESTART'], asks: 'Its pods are replaced one after the other.'},
];

const actions: Record<string, Action[]> = {
    Application: [
        {id: 'SYNC', action: 'SYNC', name: 'Sync', rules: ['SYNC']},
        {id: 'REFRESH', action: 'REFRESH', name: 'Refresh', rules: ['REFRESH']},
        {id: 'HARD_REFRESH', action: 'HARD_REFRESH', name: 'Hard refresh', rules: ['REFRESH']},
        {id: 'SYNC_PRUNE', action: 'SYNC', name: 'Sync with prune', rules: ['SYNC'], options: {sync: {prune: true}}, asks: 'Resources that are no longer in Git are deleted from the cluster.'},
        {id: 'TERMINATE_SYNC', action: 'TERMINATE_SYNC', name: 'Terminate', rules: ['TERMINATE_SYNC'], asks: 'The sync that runs now ends where it is; what it applied stays.'},
        {id: 'DELETE', action: 'DELETE', name: 'Delete', rules: ['DELETE_RESOURCE'], options: {delete: {cascade: true}}, asks: 'The application and all of its resources are deleted from the cluster.', isTyped: true},
    ],
    Rollout: rolloutActions,
    Workflow: [
        {id: 'WORKFLOW_SUSPEND', action: 'WORKFLOW_SUSPEND', name: 'Suspend', rules: ['STOP']},
        {id: 'WORKFLOW_RESUME', action: 'WORKFLOW_RESUME', name: 'Resume', rules: ['STOP']},
        {id: 'WORKFLOW_STOP', action: 'WORKFLOW_STOP', name: 'Stop', rules: ['STOP'], asks: 'No further step begins; exit handlers run.'},
        {id: 'WORKFLOW_TERMINATE', action: 'WORKFLOW_TERMINATE', name: 'Terminate', rules: ['TERMINATE'], asks: 'Its pods are ended at once; exit handlers do not run.'},
    ],
    Pod: [{id: 'DELETE', action: 'DELETE', name: 'Delete', rules: ['DELETE_RESOURCE'], asks: 'The pod is deleted; its owner makes another one.'}],
};
for (const kind of ['Deployment', 'StatefulSet', 'DaemonSet']) actions[kind] = [rolloutActions.find((one) => one.id === 'RESTART')!];

const argoKinds = ['Application', 'Rollout', 'Workflow'];

// A Deployment of another API group is not what these actions are for.
export function actionsOf(target: Target): Action[] {
    const group = argoKinds.includes(target.kind) ? 'argoproj.io' : target.kind === 'Pod' ? '' : 'apps';
    return target.group === group ? (actions[target.kind] ?? []) : [];
}

// ---- permissions ---------------------------------------------------------------------------

interface Permit {
    action: string;
    allowed: boolean;
    reason: string;
    rule: string | null;
}

const permitsQuery = `query Permits($objects: [PermissionObject!]!, $actions: [AbacActionNames!]!) {
  permissions(objects: $objects, actions: $actions) { action allowed reason rule }
}`;

const reasons: Record<string, string> = {
    ROLE: 'your role or API key only reads',
    DEFAULT_DENY: 'no rule of your teams allows it',
    NOT_FOUND: 'it is not known here, or you may not see it',
};

// Why this may not be done; empty: it may.
export function refusal(action: Action, permits: Permit[]): string {
    for (const rule of action.rules) {
        const permit = permits.find((one) => one.action === rule);
        if (!permit) return 'it is not known yet whether you may';
        if (!permit.allowed) return permit.reason === 'DENY_RULE' ? `rule ${permit.rule ?? ''} denies it` : (reasons[permit.reason] ?? permit.reason);
    }
    return '';
}

function usePermits(target: Target, list: Action[]): Permit[] {
    const [permits, setPermits] = useState<Permit[]>([]);
    const key = JSON.stringify(target);
    useEffect(() => {
        const cancel = new AbortController();
        const names = [...new Set(list.flatMap((one) => one.rules))];
        request<{permissions: Permit[]}>(permitsQuery, {objects: [target], actions: names}, cancel.signal).then(({data}) => setPermits(data.permissions), () => undefined);
        return () => cancel.abort();
    }, [key]);
    return permits;
}

// ---- buttons and their confirmation --------------------------------------------------------

interface Asked {
    action: Action;
    target: Target;
}
const asked = signal<Asked | null>(null);
const problem = signal('');

async function start(action: Action, target: Target): Promise<void> {
    problem.value = await run(action.action, target, action.options);
}

export function Actions({target, only, extra = []}: {target: Target; only?: (id: string) => boolean; extra?: Action[]}) {
    const list = [...actionsOf(target), ...extra].filter((one) => !only || only(one.id));
    const permits = usePermits(target, list);
    if (!list.length) return null;
    const refused = new Map<string, string[]>();
    const known = permits.length > 0;
    for (const one of list) {
        const why = known ? refusal(one, permits) : '';
        if (why) refused.set(why, [...(refused.get(why) ?? []), one.name]);
    }
    return (
        <div class="actions">
            <div class="action-buttons" role="group" aria-label={`Actions on ${target.kind} ${target.name}`}>
                {list.map((one) => {
                    const why = refusal(one, permits);
                    const press = () => {
                        problem.value = '';
                        if (why || link.peek() !== 'live') return;
                        if (one.asks) asked.value = {action: one, target};
                        else void start(one, target);
                    };
                    return <button key={one.id} type="button" data-action={one.id} aria-disabled={why || link.value !== 'live' ? 'true' : undefined} title={why ? `You may not: ${why}` : undefined} onClick={press}>{one.name}</button>;
                })}
            </div>
            {[...refused].map(([why, names]) => <p key={why} class="quiet">You may not {names.join(', ').toLowerCase()}: {why}.</p>)}
            {problem.value && <p class="invalid" role="alert">{problem.value}</p>}
        </div>
    );
}

export function rollbackTo(historyId: number, of: string): Action {
    return {id: `APP_ROLLBACK-${historyId}`, action: 'APP_ROLLBACK', name: `Roll back to ${of}`, rules: ['APP_ROLLBACK'], options: {rollback: {historyId}}, asks: `The cluster goes back to what ${of} deployed. Argo CD refuses this while auto-sync is on, because auto-sync would undo it.`};
}

export function Confirm() {
    const [typed, setTyped] = useState('');
    const question = asked.value;
    const {dialog, onClose} = useDialog(Boolean(question), () => (asked.value = null));
    useEffect(() => setTyped(''), [question]);
    const isReady = !question?.action.isTyped || typed === question.target.name;
    const onSubmit = (event: SubmitEvent) => {
        event.preventDefault();
        if (!question || !isReady) return;
        asked.value = null;
        void start(question.action, question.target);
    };
    return (
        <dialog ref={dialog} class="help" aria-labelledby="confirm-title" onClose={onClose}>
            {question && (
                <form onSubmit={onSubmit} class="confirm">
                    <h2 id="confirm-title">{question.action.name}?</h2>
                    <p class="breaks">{question.target.kind} <b>{question.target.namespace}/{question.target.name}</b> on {question.target.runtime}</p>
                    <p>{question.action.asks}</p>
                    {question.action.isTyped && <label>Its name, to confirm <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} /></label>}
                    <div class="bar">
                        <button type="button" onClick={() => (asked.value = null)}>Cancel</button>
                        <button type="submit" class="primary" aria-disabled={isReady ? undefined : 'true'}>{question.action.name}</button>
                    </div>
                </form>
            )}
        </dialog>
    );
}

// ---- what became of them -------------------------------------------------------------------

const states: Record<string, string> = {
    WAITING: 'waits for others', QUEUED: 'waits for its runtime', DELIVERED: 'sent to the agent', ACCEPTED: 'accepted', RUNNING: 'runs',
    DONE: 'done', FAILED: 'failed', EXPIRED: 'expired', UNKNOWN: 'may or may not have run', CANCELLED: 'cancelled',
};

export function actionWord(action: string): string {
    return action.charAt(0) + action.slice(1).toLowerCase().replaceAll('_', ' ');
}

function Chip({operation}: {operation: Operation}) {
    const {state} = operation;
    return (
        <li class="operation" data-state={state}>
            <p>
                <span class={`state ${toneOfOperation(state, link.value)}`}><Icon name={stateIcons[state] ?? 'unknown'} /><span>{states[state] ?? state}</span></span>{' '}
                <b>{actionWord(operation.action)}</b> <span class="breaks">{operation.kind} {operation.name}</span>
            </p>
            {operation.message && !isOpen(operation) && state !== 'DONE' && <p class="quiet breaks">{operation.message}</p>}
            {!isOpen(operation) && <button type="button" class="quiet-button" onClick={() => dismiss(operation.id)}>Dismiss</button>}
        </li>
    );
}

export function OperationChips() {
    if (!operations.value.length) return null;
    return <section class="operations" aria-label="Operations"><ul aria-live="polite">{operations.value.map((one) => <Chip key={one.id} operation={one} />)}</ul></section>;
}
