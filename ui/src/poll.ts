// One loader at a time keeps the page up to date: at most one request is under way, none while the
// page is hidden, and after a failure it waits longer each time. A page that comes back into view
// asks at once.
import {signal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {failure, lastAnswer, RequestError, retryAt, sessionEnded, signedIn, silentMs} from './api.ts';
import {backoffMs} from './backoff.ts';
import {coversAll, following, unfollow} from './live.ts';
import {serverNow} from './time.ts';

const intervalMs = 5000;
const followedMs = 15_000; // where a subscription brings what changes

type Load = (cancel: AbortSignal) => Promise<void>;

let load: Load | null = null;
let running: AbortController | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
export const isLoading = signal(false);

function schedule(ms: number): void {
    clearTimeout(timer);
    timer = setTimeout(run, ms);
}

function onFailure(error: unknown): void {
    if (!(error instanceof RequestError)) {
        console.error(error);
        failure.value = {title: 'A defect of this page', detail: String(error), code: 'page', traceId: '', status: 0};
    } else if (error.problem.status === 401) {
        sessionEnded('The session has ended. Sign in to continue where you were.');
        return;
    } else {
        failure.value = error.problem;
    }
    failures++;
    const wait = backoffMs(failures, Math.random());
    retryAt.value = serverNow() + wait;
    schedule(wait);
}

async function run(): Promise<void> {
    clearTimeout(timer);
    if (!load || !signedIn.peek() || document.hidden) return;
    running?.abort('cancelled');
    const mine = new AbortController();
    running = mine;
    isLoading.value = true;
    try {
        await load(mine.signal);
        if (running !== mine) return;
        failures = 0;
        failure.value = null;
        schedule(coversAll() ? followedMs : intervalMs);
    } catch (error) {
        if (running === mine) onFailure(error);
    } finally {
        if (running === mine) {
            running = null;
            isLoading.value = false;
        }
    }
}

// The loader of what is shown now; the previous one's request is cancelled.
export function watch(next: Load): () => void {
    load = next;
    failures = 0;
    void run();
    return () => {
        if (load !== next) return;
        load = null;
        unfollow();
        running?.abort('cancelled');
        running = null;
        clearTimeout(timer);
    };
}

// A screen's: loads as long as it is shown; `key` names what it shows.
export function useWatch(held: {dropIfOld(): void}, loader: Load, key: string): void {
    useMemo(() => held.dropIfOld(), [key]);
    useEffect(() => watch(loader), [key]);
}

export function reload(): void {
    void run();
}

let soon: ReturnType<typeof setTimeout> | undefined;
// For changes that come one after the other; a request that is under way is not repeated but followed by another one.
export function reloadSoon(): void {
    clearTimeout(soon);
    soon = setTimeout(() => (running ? reloadSoon() : reload()), 300);
}

export function startPolling(): void {
    let was = false;
    following.subscribe((is) => {
        if (was && !is) void run(); // asked now, and then as often as without a stream
        was = is;
    });
    const back = () => {
        if (!document.hidden && (serverNow() - lastAnswer.peek() > silentMs || !running)) void run();
    };
    document.addEventListener('visibilitychange', back);
    addEventListener('online', back);
}
