// How long to wait after a number of failures: doubling to a bound, with full jitter in the second
// half, so that pages do not come back together.
const maxMs = 30_000;

export function backoffMs(count: number, random: number): number {
    const step = Math.min(maxMs, 1000 * 2 ** Math.min(count, 10));
    return step / 2 + (step / 2) * random;
}
