// The one function that decides the colour of a state. Whatever is old is grey, also where it was
// good: nothing here returns a colour for a state that is not known now. test/tone.test.ts refuses
// any other use of the colours.
export type Freshness = 'live' | 'lagging' | 'stale' | 'disconnected';
export type Link = 'live' | 'lost'; // of this page to Culvert

// past: it was so; never a colour.
export type Tone = 'good' | 'busy' | 'bad' | 'warn' | 'paused' | 'unknown' | 'past';

const tones: Record<string, Tone> = {
    // health
    HEALTHY: 'good', PROGRESSING: 'busy', DEGRADED: 'bad', MISSING: 'warn', SUSPENDED: 'paused', TERMINATED: 'bad',
    // comparison with Git
    SYNCED: 'good', OUT_OF_SYNC: 'warn', SYNCING: 'busy',
    // operations
    SUCCEEDED: 'good', FAILED: 'bad', ERROR: 'bad', RUNNING: 'busy', TERMINATING: 'busy',
    WAITING: 'busy', QUEUED: 'busy', DELIVERED: 'busy', ACCEPTED: 'busy', DONE: 'good', EXPIRED: 'bad',
    // rollouts, workflows, clusters
    PAUSED: 'paused', PENDING: 'busy', ACTIVE: 'busy', PASSED: 'good', SUCCESSFUL: 'good',
    // findings and links
    WARNING: 'warn', ONLINE: 'good',
};

export function isKnown(freshness: Freshness, link: Link): boolean {
    return link === 'live' && (freshness === 'live' || freshness === 'lagging');
}

export function tone(state: string | null | undefined, freshness: Freshness, link: Link): Tone {
    if (!isKnown(freshness, link)) return 'past';
    return tones[(state ?? '').toUpperCase()] ?? 'unknown';
}

// What happened stays what it was: the result of an operation that has ended is not a state of now.
export function toneOfResult(result: string | null | undefined, link: Link): Tone {
    return tone(result, 'live', link);
}

export function toneClass(state: string | null | undefined, freshness: Freshness, link: Link): string {
    return `tone-${tone(state, freshness, link)}`;
}

// How well a runtime is connected is itself the news: it is coloured while this page is connected.
export function freshnessClass(freshness: Freshness, link: Link): string {
    if (link !== 'live') return 'tone-past';
    return {live: 'tone-good', lagging: 'tone-warn', stale: 'tone-warn', disconnected: 'tone-bad'}[freshness];
}

export function linkClass(link: Link): string {
    return link === 'live' ? 'tone-good' : 'tone-bad';
}

export function resultClass(result: string | null | undefined, link: Link): string {
    return `tone-${toneOfResult(result, link)}`;
}

// An operation of this page's user, as Culvert knows it.
export function toneOfOperation(state: string, link: Link): string {
    return `tone-${toneOfResult(state, link)}`;
}

// Worst first; among equals what is known now before what is not.
const order: Tone[] = ['bad', 'warn', 'busy', 'paused', 'unknown', 'good', 'past'];
export function severity(state: string | null | undefined): number {
    return order.indexOf(tones[(state ?? '').toUpperCase()] ?? 'unknown');
}
