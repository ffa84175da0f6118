// Shapes of states, after Argo CD's: the shape says what the colour says. 16 by 16.
const shapes: Record<string, string> = {
    heart: 'M8 14 2.6 8.7A3.5 3.5 0 0 1 8 4.3a3.5 3.5 0 0 1 5.4 4.4Z',
    broken: 'M8 14 2.6 8.7A3.5 3.5 0 0 1 7.2 3.8L9 7 7 9l1 2Zm.9-2.3L8.7 9l2-2.2-1.4-2.9a3.5 3.5 0 0 1 4.1 4.8Z',
    ring: 'M8 2a6 6 0 1 0 6 6h-2.2A3.8 3.8 0 1 1 8 4.2Z',
    pause: 'M4 3h3v10H4Zm5 0h3v10H9Z',
    ghost: 'M8 2a5 5 0 0 0-5 5v7l1.7-1.4L6.3 14 8 12.6 9.7 14l1.6-1.4L13 14V7a5 5 0 0 0-5-5ZM6 8.2a1.1 1.1 0 1 1 0-2.2 1.1 1.1 0 0 1 0 2.2Zm4 0a1.1 1.1 0 1 1 0-2.2 1.1 1.1 0 0 1 0 2.2Z',
    unknown: 'M7.1 11h1.8v1.9H7.1Zm-3-5.2C4.2 3.6 5.8 2.4 8 2.4c2.3 0 3.9 1.2 3.9 3.3 0 2.6-3 2.6-3 4.6H7.1c0-2.9 2.8-2.9 2.8-4.5 0-.9-.8-1.5-1.9-1.5s-1.9.6-2 1.8Z',
    check: 'm6.3 13-4.2-4.3 1.6-1.6 2.6 2.7 6-6.3 1.6 1.6Z',
    arrow: 'M8 2.2 13.6 7.9 12 9.4 9.1 6.5V14H6.9V6.5L4 9.4 2.4 7.9Z',
    cross: 'M4 2.6 8 6.6l4-4L13.4 4 9.4 8l4 4-1.4 1.4-4-4-4 4L2.6 12l4-4-4-4Z',
    link: 'M6.5 11.4 5.3 12.6a1.9 1.9 0 0 1-2.7-2.7l2.2-2.2L3.5 6.4 1.3 8.6a3.7 3.7 0 0 0 5.3 5.3l1.2-1.2Zm3-6.8 1.2-1.2a1.9 1.9 0 0 1 2.7 2.7l-2.2 2.2 1.3 1.3 2.2-2.2A3.7 3.7 0 0 0 9.4 2.1L8.2 3.3ZM3 2l11 11-1 1L2 3Z',
    clock: 'M8 1.6a6.4 6.4 0 1 0 0 12.8A6.4 6.4 0 0 0 8 1.6Zm0 1.9a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9Zm-.8 1.3v3.6l2.6 1.6.8-1.3-1.9-1.1V4.8Z',
    dot: 'M8 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8Z',
    warn: 'M8 1.8 15 14H1Zm-.9 4.4.2 4h1.4l.2-4Zm0 4.9v1.6h1.8v-1.6Z',
    apps: 'M2 2h5v5H2Zm7 0h5v5H9ZM2 9h5v5H2Zm7 0h5v5H9Z',
    home: 'M8 1.8 1.5 7.5l1.2 1.3.8-.7V14h3.4v-4h2.2v4h3.4V8.1l.8.7 1.2-1.3Z',
    tower: 'M3 2h10v5H3Zm0 7h10v5H3Zm2-5.2v1.4h1.6V3.8Zm0 7v1.4h1.6v-1.4Z',
    keys: 'M1.5 3.5h13v9h-13Zm1.8 1.8v1.5h1.5V5.3Zm2.7 0v1.5h1.5V5.3Zm2.7 0v1.5h1.5V5.3Zm2.7 0v1.5h1.5V5.3ZM4.6 9.2v1.5h6.8V9.2Z',
    theme: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 2v9a4.5 4.5 0 0 1 0-9Z',
    search: 'M7 1.8a5.2 5.2 0 1 0 3 9.4l3 3 1.4-1.4-3-3A5.2 5.2 0 0 0 7 1.8Zm0 1.9a3.3 3.3 0 1 1 0 6.6 3.3 3.3 0 0 1 0-6.6Z',
    sliders: 'M2 3.5h6v1.8H2Zm10 0h2v1.8h-2ZM9 2.2h2v4.4H9ZM2 10.7h2v1.8H2Zm6 0h6v1.8H8ZM5 9.4h2v4.4H5Z',
    out: 'M2 2h6v2H4v8h4v2H2Zm8.3 2.3L14 8l-3.7 3.7-1.3-1.3L10.5 9H6V7h4.5L9 5.6Z',
};

export function Icon({name}: {name: string}) {
    return (
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
            <path d={shapes[name] ?? shapes.unknown} fill-rule="evenodd" />
        </svg>
    );
}

export const stateIcons: Record<string, string> = {
    HEALTHY: 'heart', PROGRESSING: 'ring', DEGRADED: 'broken', SUSPENDED: 'pause', MISSING: 'ghost', TERMINATED: 'cross', UNKNOWN: 'unknown',
    SYNCED: 'check', OUT_OF_SYNC: 'arrow', SYNCING: 'ring',
    WARNING: 'warn', ONLINE: 'check',
    WAITING: 'clock', QUEUED: 'clock', DELIVERED: 'ring', ACCEPTED: 'ring', DONE: 'check', EXPIRED: 'clock', CANCELLED: 'cross',
    PAUSED: 'pause', PENDING: 'clock', ACTIVE: 'ring', PASSED: 'check', SUCCESSFUL: 'check',
    SUCCEEDED: 'check', FAILED: 'cross', ERROR: 'cross', RUNNING: 'ring', TERMINATING: 'ring',
};
