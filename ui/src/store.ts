// Rows of the page, each a signal, so that one changed row redraws itself alone. A row is replaced
// only by one that is not older by the server's own order (docs/freshness.md): pages and answers of
// several replicas may arrive in any order.
import {type Signal, signal} from '@preact/signals';

export interface Ordered {
    sequence: string | null; // "<epoch>.<record>"
    receivedAt: string | null;
}

function parts(sequence: string | null): [number, number] {
    const [epoch, record] = (sequence ?? '0.0').split('.');
    return [Number(epoch) || 0, Number(record) || 0];
}

// Whether `next` may replace `old`. A lower sequence that became durable later is of a runtime that
// was created anew.
export function isNotOlder(next: Ordered, old: Ordered): boolean {
    const [nextEpoch, nextRecord] = parts(next.sequence);
    const [oldEpoch, oldRecord] = parts(old.sequence);
    if (nextEpoch !== oldEpoch || nextRecord !== oldRecord) {
        const isAhead = nextEpoch > oldEpoch || (nextEpoch === oldEpoch && nextRecord > oldRecord);
        return isAhead || Date.parse(next.receivedAt ?? '') > Date.parse(old.receivedAt ?? '');
    }
    return Date.parse(next.receivedAt ?? '') >= Date.parse(old.receivedAt ?? '') || !old.receivedAt;
}

export class Store<Row extends Ordered> {
    private rows = new Map<string, Signal<Row>>();

    get size(): number {
        return this.rows.size;
    }

    get(key: string): Signal<Row> | undefined {
        return this.rows.get(key);
    }

    put(key: string, row: Row): Signal<Row> {
        const held = this.rows.get(key);
        if (!held) {
            const made = signal(row);
            this.rows.set(key, made);
            return made;
        }
        if (isNotOlder(row, held.peek())) held.value = row;
        return held;
    }

    // Forgets everything that is not shown.
    keep(keys: Iterable<string>): void {
        const kept = new Set(keys);
        for (const key of this.rows.keys()) if (!kept.has(key)) this.rows.delete(key);
    }
}
