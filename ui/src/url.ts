// The URL is the page: the codec of a list's filters. A repeated parameter is OR, different ones are
// AND; keys stand in a fixed order and defaults are left out, so equal views have equal URLs.
export const filterKeys = ['q', 'health', 'sync', 'op', 'runtime', 'ns', 'project', 'repo', 'auto', 'label'] as const;
export type FilterKey = (typeof filterKeys)[number];

export interface ListView {
    filters: Record<FilterKey, string[]>; // q, auto: at most one
    sort: Sort;
    view: '' | 'tiles';
    group: '' | Group;
    after: string;
    before: string;
}

// By what a list is ordered; "-" reverses it.
const sorts = ['', '-name', 'runtime', '-runtime', 'health', '-health', 'sync', '-sync'] as const;
export type Sort = (typeof sorts)[number];
const groups = ['runtime', 'ns', 'project', 'repo', 'health'] as const;
export type Group = (typeof groups)[number];

export const single: readonly FilterKey[] = ['q', 'auto'];
const shapeKeys = ['sort', 'view', 'group'];
const valuesMax = 20;
const lengthMax = 300;

export function emptyFilters(): Record<FilterKey, string[]> {
    return {q: [], health: [], sync: [], op: [], runtime: [], ns: [], project: [], repo: [], auto: [], label: []};
}

export function decodeList(search: string): ListView {
    const params = new URLSearchParams(search);
    const filters = emptyFilters();
    for (const key of filterKeys) {
        const values = params.getAll(key).map((value) => value.trim().slice(0, lengthMax)).filter((value) => value !== '');
        const unique = [...new Set(values)].slice(0, valuesMax);
        filters[key] = single.includes(key) ? unique.slice(0, 1) : unique.sort();
    }
    const after = params.get('after') ?? '';
    const sort = sorts.find((one) => one === params.get('sort')) ?? '';
    const group = groups.find((one) => one === params.get('group')) ?? '';
    return {filters, sort, view: params.get('view') === 'tiles' ? 'tiles' : '', group, after, before: after ? '' : (params.get('before') ?? '')};
}

export function encodeList(view: ListView): string {
    const params = new URLSearchParams();
    for (const key of filterKeys) {
        const values = single.includes(key) ? view.filters[key].slice(0, 1) : [...new Set(view.filters[key])].sort();
        for (const value of values) if (value !== '') params.append(key, value);
    }
    if (view.sort) params.set('sort', view.sort);
    if (view.view) params.set('view', view.view);
    if (view.group) params.set('group', view.group);
    if (view.after) params.set('after', view.after);
    else if (view.before) params.set('before', view.before);
    const text = params.toString();
    return text ? `?${text}` : '';
}

// Parameters that a list does not know; the page names them.
export function unknownKeys(search: string): string[] {
    const known = new Set<string>([...filterKeys, ...shapeKeys, 'after', 'before']);
    return [...new Set([...new URLSearchParams(search).keys()].filter((key) => !known.has(key)))];
}

const words: Record<string, FilterKey> = {
    health: 'health', sync: 'sync', runtime: 'runtime', ns: 'ns', namespace: 'ns', project: 'project', repo: 'repo', op: 'op', auto: 'auto', label: 'label',
};

// What was typed: `runtime:eu-3 health:degraded checkout`. Words without a key are the name.
export function parseTyped(text: string): {filters: Partial<Record<FilterKey, string[]>>; invalid: string[]} {
    const filters: Partial<Record<FilterKey, string[]>> = {};
    const invalid: string[] = [];
    const name: string[] = [];
    for (const word of text.trim().split(/\s+/).filter((part) => part !== '')) {
        const colon = word.indexOf(':');
        const key = colon > 0 ? words[word.slice(0, colon).toLowerCase()] : undefined;
        const value = word.slice(colon + 1);
        if (colon > 0 && (!key || !value)) {
            invalid.push(word);
        } else if (key) {
            const upper = key === 'health' || key === 'sync' ? value.toUpperCase().replaceAll('-', '_') : value;
            (filters[key] ??= []).push(upper);
        } else {
            name.push(word);
        }
    }
    if (name.length) filters.q = [name.join(' ')];
    return {filters, invalid};
}

export function isFiltered(view: ListView): boolean {
    return filterKeys.some((key) => view.filters[key].length > 0);
}

// ---- routes ---------------------------------------------------------------------------------

// Lists of what there is in all clusters, by their place below ui/.
const listNames = ['rollouts', 'deployments', 'workflows', 'images', 'clusters', 'audit'] as const;
export type ListName = (typeof listNames)[number];

export type Route =
    | {page: 'list'; list: ListName}
    | {page: 'home'}
    | {page: 'applications'}
    | {page: 'application'; runtime: string; namespace: string; name: string}
    | {page: 'runtimes'}
    | {page: 'runtime'; name: string}
    | {page: 'me'}
    | {page: 'install'}
    | {page: 'device'}
    | {page: 'settings'}
    | {page: 'unknown'};

// path: below the base path, "ui/apps/...".
export function parseRoute(path: string): Route {
    let parts: string[];
    try {
        parts = path.replace(/\/+$/, '').split('/').map(decodeURIComponent);
    } catch {
        return {page: 'unknown'};
    }
    if (parts[0] !== 'ui') return {page: 'unknown'};
    const [, first, a, b, c] = parts;
    if (parts.length === 1) return {page: 'home'};
    if (first === 'apps' && parts.length === 2) return {page: 'applications'};
    if (first === 'apps' && parts.length === 5 && a && b && c)
        return {page: 'application', runtime: a, namespace: b, name: c};
    if (first === 'runtimes' && parts.length === 2) return {page: 'runtimes'};
    if (first === 'runtimes' && parts.length === 3 && a) return {page: 'runtime', name: a};
    if (first === 'me' && parts.length === 2) return {page: 'me'};
    if (first === 'settings' && parts.length === 2) return {page: 'settings'};
    if (first === 'device' && parts.length === 2) return {page: 'device'};
    if (first === 'install' && parts.length === 2) return {page: 'install'};
    const list = listNames.find((one) => one === first);
    if (list && parts.length === 2) return {page: 'list', list};
    return {page: 'unknown'};
}

export function applicationPath(runtime: string, namespace: string | null, name: string): string {
    return `ui/apps/${[runtime, namespace || '-', name].map(encodeURIComponent).join('/')}`;
}

export function runtimePath(name: string): string {
    return `ui/runtimes/${encodeURIComponent(name)}`;
}
