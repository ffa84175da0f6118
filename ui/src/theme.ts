// Light and dark: the system's choice, unless this browser's user made another one.
import {signal} from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const themes: Theme[] = ['system', 'light', 'dark'];

function stored(): Theme {
    const value = localStorage.getItem('culvert.theme') as Theme;
    return themes.includes(value) ? value : 'system';
}

export const theme = signal<Theme>(stored());

export function nextTheme(): Theme {
    return themes[(themes.indexOf(theme.peek()) + 1) % themes.length] ?? 'system';
}

export function applyTheme(next: Theme): void {
    theme.value = next;
    localStorage.setItem('culvert.theme', next);
    if (next === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
}
