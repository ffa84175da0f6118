// Times: ages by the server's clock, which every answer brings; absolute times local or in UTC.
import {computed, signal} from '@preact/signals';

const offsetMs = signal(0); // server minus this machine
const tick = signal(Date.now());
export const isUtc = signal(localStorage.getItem('culvert.utc') === '1');

export const now = computed(() => tick.value + offsetMs.value);

export function serverNow(): number {
    return Date.now() + offsetMs.peek();
}

export function noteServerTime(date: string | null): void {
    const at = Date.parse(date ?? '');
    // The header counts whole seconds: small differences are its rounding.
    if (!Number.isNaN(at) && Math.abs(at - Date.now() - offsetMs.peek()) > 2000) offsetMs.value = at - Date.now();
}

export function setUtc(on: boolean): void {
    isUtc.value = on;
    localStorage.setItem('culvert.utc', on ? '1' : '0');
}

// One timer for all ages, only while the page is visible.
export function startClock(): void {
    setInterval(() => {
        if (!document.hidden) tick.value = Date.now();
    }, 1000);
    document.addEventListener('visibilitychange', () => {
        if (!document.hidden) tick.value = Date.now();
    });
}

export function duration(ms: number): string {
    if (Number.isNaN(ms)) return 'an unknown time';
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h`;
    return `${Math.floor(s / 86400)} d`;
}

export function age(time: string | null | undefined): string {
    const at = Date.parse(time ?? '');
    if (Number.isNaN(at)) return '';
    const ms = now.value - at;
    return ms < 5000 ? 'just now' : `${duration(ms)} ago`;
}

export function absolute(time: string | null | undefined): string {
    const at = new Date(time ?? '');
    if (Number.isNaN(at.getTime())) return '';
    const zone = isUtc.value ? {timeZone: 'UTC'} : {};
    const text = new Intl.DateTimeFormat('sv-SE', {dateStyle: 'short', timeStyle: 'medium', ...zone}).format(at);
    return isUtc.value ? `${text} UTC` : text;
}
