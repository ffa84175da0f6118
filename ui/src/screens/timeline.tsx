// The newest changes of state of an application: what changed, from what, to what, when and by whom.
import {Age} from '../parts.tsx';
import {absolute} from '../time.ts';
import {count, stateWord} from '../words.ts';

export interface Transition {
    number: string;
    field: 'HEALTH' | 'SYNC' | 'OPERATION' | 'PHASE' | 'PRESENCE';
    from: string | null;
    to: string | null;
    message: string | null;
    observedAt: string;
    cause: 'REPORT' | 'OPERATION' | 'SWEEP';
    actor: string | null;
    merged: number;
}

export const transitionFields = 'transitions { number field from to message observedAt cause actor merged }';

const names: Record<Transition['field'], string> = {HEALTH: 'Health', SYNC: 'Git', OPERATION: 'Sync operation', PHASE: 'Phase', PRESENCE: 'Application'};
const presence: Record<string, string> = {PRESENT: 'is there', DELETED: 'was deleted'};

function valueOf(change: Transition, value: string | null): string {
    return change.field === 'PRESENCE' ? presence[value ?? ''] ?? 'unknown' : change.field === 'OPERATION' ? value ?? 'none' : stateWord(value);
}

export function Timeline({changes}: {changes: Transition[]}) {
    if (!changes.length) return null;
    return (
        <section aria-label="Timeline">
            <h2>Changes of state</h2>
            <ol class="timeline">
                {changes.map((change) => (
                    <li key={change.number}>
                        <span class="quiet"><Age time={change.observedAt} /> · {absolute(change.observedAt)}</span>{' '}
                        {names[change.field]}: {change.from !== null && change.field !== 'PRESENCE' && <>{valueOf(change, change.from)} → </>}
                        <b>{valueOf(change, change.to)}</b>
                        {change.actor && <span class="quiet"> · by {change.actor}</span>}
                        {change.merged > 0 && <span class="quiet"> · and {count(change.merged, 'further change')}</span>}
                        {change.field === 'HEALTH' && change.message && <span class="quiet block">{change.message}</span>}
                    </li>
                ))}
            </ol>
        </section>
    );
}
