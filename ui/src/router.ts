// Where the page is: one signal. Links are real links; those into the UI are followed in place.
import {computed, signal} from '@preact/signals';
import {parseRoute} from './url.ts';

const base = new URL(document.baseURI).pathname;
const place = signal(read());

function read(): {path: string; search: string} {
    const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : location.pathname;
    return {path, search: location.search};
}

export const search = computed(() => place.value.search);
export const path = computed(() => place.value.path);
export const route = computed(() => parseRoute(place.value.path));

// The filters of the list that was seen last: the way back to it keeps them.
export const listSearch = signal('');

// href of a path below the base, for <a>.
export function href(to: string): string {
    return base + to;
}

export function go(to: string, how: 'push' | 'replace' = 'push'): void {
    const url = base + to;
    if (url === location.pathname + location.search) return;
    if (how === 'push') {
        history.replaceState({scroll: scrollY}, '');
        history.pushState(null, '', url);
    } else {
        history.replaceState(history.state, '', url);
    }
    const before = place.peek().path;
    place.value = read();
    if (how === 'push' && before !== place.peek().path) scrollTo(0, 0);
}

function onClick(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.target || link.origin !== location.origin || !link.pathname.startsWith(`${base}ui`)) return;
    event.preventDefault();
    go(link.pathname.slice(base.length) + link.search);
}

export function startRouter(): void {
    history.scrollRestoration = 'manual';
    document.addEventListener('click', onClick);
    addEventListener('popstate', (event) => {
        place.value = read();
        const scroll = (event.state as {scroll?: number} | null)?.scroll ?? 0;
        // Rows that the page still holds are drawn within two frames.
        requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, scroll)));
    });
}
