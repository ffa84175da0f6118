// One subscription follows what the page shows (docs/live.md), so that a change is seen at once. The
// page asks again besides, less often where the subscription covers all that is shown; while there is
// no stream it asks as if there were none. A hidden page follows nothing.
import {signal} from '@preact/signals';
import {noteAlive, openSubscription} from './api.ts';
import {backoffMs} from './backoff.ts';
import {type StreamEvent, takeEvents} from './events.ts';
import {noteServerTime} from './time.ts';

export interface Change<Row> {
    reset: boolean;
    removed: string[];
    deltas: {id: string; node: Row}[];
}

export const following = signal(false); // a stream is open
let covers = false;
export function coversAll(): boolean {
    return covers && following.peek();
}

let followed = '';
let running: AbortController | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

export function unfollow(): void {
    followed = '';
    clearTimeout(timer);
    running?.abort('cancelled');
    running = null;
    following.value = false;
}

async function read(response: Response, onEvent: (event: StreamEvent) => void): Promise<void> {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
        const {done, value} = await reader.read();
        if (done) return;
        const {events, rest} = takeEvents(text + value);
        text = rest;
        events.forEach(onEvent);
    }
}

// Follows this in place of what was followed; calls it again with the same without effect.
export function follow<Row>(query: string, variables: object, isAll: boolean, onChange: (change: Change<Row>) => void): void {
    const key = JSON.stringify([query, variables]);
    if (key === followed || document.hidden) return;
    unfollow();
    followed = key;
    covers = isAll;
    let last = '';
    let failures = 0;
    const open = async (): Promise<void> => {
        const mine = new AbortController();
        running = mine;
        const isMine = () => running === mine;
        try {
            const response = await openSubscription(query, variables, last, mine.signal);
            await read(response, (event) => {
                if (!isMine()) return;
                noteAlive();
                failures = 0;
                following.value = true;
                if (event.id) last = event.id;
                if (event.comment) noteServerTime((JSON.parse(event.comment) as {time: string}).time);
                if (event.name !== 'next') return;
                const {data} = JSON.parse(event.data) as {data?: Record<string, Change<Row>>};
                if (data) onChange(Object.values(data)[0]!);
            });
        } catch {
            // the page's own requests tell what is wrong
        }
        if (!isMine()) return;
        following.value = false;
        timer = setTimeout(() => void open(), backoffMs(++failures, Math.random()));
    };
    void open();
}

export function startFollowing(): void {
    document.addEventListener('visibilitychange', () => {
        if (document.hidden) unfollow();
    });
    addEventListener('offline', unfollow);
}
