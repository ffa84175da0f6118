// The keyboard: one table gives the handlers and the help, so that neither lies. Never while typing.
import {signal} from '@preact/signals';
import {go} from './router.ts';
import {isUtc, setUtc} from './time.ts';
import {applyTheme, nextTheme} from './theme.ts';

export interface Key {
    keys: string; // "j", "g a"
    does: string;
    run: () => void;
}

export const helpIsOpen = signal(false);
export const paletteIsOpen = signal(false);

function rows(): HTMLElement[] {
    return [...document.querySelectorAll<HTMLElement>('[data-row]')];
}

function step(by: number): void {
    const all = rows();
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    next?.querySelector<HTMLElement>('a, button')?.focus();
}

function press(selector: string): void {
    document.querySelector<HTMLElement>(selector)?.click();
}

export const keys: Key[] = [
    {keys: '?', does: 'show the keys', run: () => (helpIsOpen.value = true)},
    {keys: 'Ctrl k', does: 'search everything, and do it', run: () => (paletteIsOpen.value = true)},
    {keys: '/', does: 'go to the filter', run: () => document.querySelector<HTMLElement>('[data-filter]')?.focus()},
    {keys: 'j', does: 'next row', run: () => step(1)},
    {keys: 'k', does: 'previous row', run: () => step(-1)},
    {keys: ']', does: 'next page of a list', run: () => press('[data-next]')},
    {keys: '[', does: 'previous page of a list', run: () => press('[data-previous]')},
    {keys: 's', does: 'sync the application', run: () => press('[data-action=SYNC]')},
    {keys: 'r', does: 'refresh the application', run: () => press('[data-action=REFRESH]')},
    {keys: 'g h', does: 'go to Home', run: () => go('ui/')},
    {keys: 'g a', does: 'go to Applications', run: () => go('ui/apps')},
    {keys: 'g r', does: 'go to Runtimes', run: () => go('ui/runtimes')},
    {keys: 'g o', does: 'go to Rollouts', run: () => go('ui/rollouts')},
    {keys: 'g d', does: 'go to Deployments', run: () => go('ui/deployments')},
    {keys: 'g w', does: 'go to Workflows', run: () => go('ui/workflows')},
    {keys: 'g i', does: 'go to Images', run: () => go('ui/images')},
    {keys: 'g u', does: 'go to Audit', run: () => go('ui/audit')},
    {keys: 'g c', does: 'go to Clusters', run: () => go('ui/clusters')},
    {keys: 'g s', does: 'go to Settings', run: () => go('ui/settings')},
    {keys: 'g m', does: 'go to your account', run: () => go('ui/me')},
    {keys: 'u', does: 'switch between local time and UTC', run: () => setUtc(!isUtc.peek())},
    {keys: 't', does: 'switch the theme', run: () => applyTheme(nextTheme())},
];

let first = '';

function isTyping(target: EventTarget | null): boolean {
    return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function onKey(event: KeyboardEvent): void {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key === 'k') {
        event.preventDefault();
        if (!document.querySelector('dialog[open]')) paletteIsOpen.value = true;
        return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
        helpIsOpen.value = false;
        paletteIsOpen.value = false; // it may not be drawn yet
        if (isTyping(event.target)) (event.target as HTMLElement).blur();
        return;
    }
    if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
    const combined = first ? `${first} ${event.key}` : event.key;
    first = '';
    const found = keys.find((key) => key.keys === combined);
    if (found) {
        event.preventDefault();
        found.run();
    } else if (keys.some((key) => key.keys.startsWith(`${event.key} `))) {
        first = event.key;
    }
}

export function startKeys(): void {
    document.addEventListener('keydown', onKey);
}
