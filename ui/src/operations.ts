// Operations that were asked for in this tab, followed until they have ended. Their ids outlive a
// reload; what became of them is asked of Culvert each time.
import {computed, signal} from '@preact/signals';
import {onForget, request, RequestError, signedIn} from './api.ts';
import {backoffMs} from './backoff.ts';
import {reloadSoon} from './poll.ts';

export interface Target {
    runtime: string;
    namespace: string;
    name: string;
    kind: string;
    group: string;
}

export interface Operation {
    id: string;
    action: string;
    state: string;
    code: string | null;
    message: string | null;
    runtime: string;
    kind: string;
    namespace: string;
    name: string;
    expiresAt: string;
}

const storedAt = 'culvert.operations';
const shownMax = 5;
const intervalMs = 1000;
const open = ['WAITING', 'QUEUED', 'DELIVERED', 'ACCEPTED', 'RUNNING'];
const fields = 'id action state code message runtime kind namespace name expiresAt';

export const operations = signal<Operation[]>([]);
export const isUnderWay = computed(() => operations.value.some(isOpen));
let timer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;

export function isOpen(operation: Operation): boolean {
    return open.includes(operation.state);
}

function keep(next: Operation[]): void {
    operations.value = next.slice(-shownMax);
    sessionStorage.setItem(storedAt, operations.peek().map((one) => one.id).join(' '));
}

export function dismiss(id: string): void {
    keep(operations.peek().filter((one) => one.id !== id));
}

async function ask(ids: string[]): Promise<(Operation | null)[]> {
    const names = ids.map((_, i) => `$i${i}: ID!`).join(', ');
    const asked = ids.map((_, i) => `o${i}: operation(id: $i${i}) { ${fields} }`).join(' ');
    const {data} = await request<Record<string, Operation | null>>(`query Operations(${names}) { ${asked} }`, Object.fromEntries(ids.map((id, i) => [`i${i}`, id])));
    return ids.map((_, i) => data[`o${i}`] ?? null);
}

async function look(): Promise<void> {
    const ids = operations.peek().filter(isOpen).map((one) => one.id);
    if (!ids.length || !signedIn.peek()) return;
    let wait = intervalMs;
    try {
        const found = await ask(ids);
        failures = 0;
        const by = new Map(found.filter((one): one is Operation => one !== null).map((one) => [one.id, one]));
        keep(operations.peek().map((one) => by.get(one.id) ?? one));
        if ([...by.values()].some((one) => !isOpen(one))) reloadSoon();
    } catch {
        wait = backoffMs(++failures, Math.random()); // the page's own requests tell what is wrong
    }
    schedule(wait);
}

function schedule(ms: number): void {
    clearTimeout(timer);
    timer = setTimeout(() => void look(), ms);
}

const mutation = `mutation Run($operation: RuntimeOperationArgs!) { runOperation(operation: $operation) { ${fields} } }`;

// The text of a refusal, or nothing.
export async function run(action: string, target: Target, options: object = {}): Promise<string> {
    try {
        const {data} = await request<{runOperation: Operation}>(mutation, {operation: {action, ...target, ...options, idempotencyKey: crypto.randomUUID()}});
        keep([...operations.peek(), data.runOperation]);
        schedule(300);
        return '';
    } catch (error) {
        return error instanceof RequestError ? error.message : String(error);
    }
}

export function startOperations(): void {
    onForget(() => keep([]));
    signedIn.subscribe((who) => {
        const ids = (sessionStorage.getItem(storedAt) ?? '').split(' ').filter((id) => /^[0-9a-f-]{36}$/.test(id)).slice(-shownMax);
        if (!who || operations.peek().length || !ids.length) return;
        ask(ids).then((found) => {
            keep(found.filter((one): one is Operation => one !== null));
            schedule(0);
        }, () => undefined);
    });
}
