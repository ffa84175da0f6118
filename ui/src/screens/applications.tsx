// Applications: the filtered list, a page at a time; the URL holds all of its state.
import {type Signal, signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {onForget, request} from '../api.ts';
import {Held} from '../held.ts';
import {Icon} from '../icons.tsx';
import {Age, AsOf, Empty, PartialErrors, Result, type RuntimeRef, RuntimeLink, State, Waiting} from '../parts.tsx';
import {type Change, follow} from '../live.ts';
import {reload, reloadSoon, useWatch} from '../poll.ts';
import {go, href, listSearch, search} from '../router.ts';
import {Store} from '../store.ts';
import type {Freshness} from '../tone.ts';
import {applicationPath, decodeList, emptyFilters, encodeList, type FilterKey, isFiltered, type ListView, parseTyped, unknownKeys} from '../url.ts';
import {clusterName, count, healthStates, repositoryName, shortRevision, stateWord, syncStates} from '../words.ts';

const pageRows = 50;

interface Row {
    metadata: {name: string; namespace: string | null; runtime: string};
    healthStatus: string | null;
    healthMessage: string | null;
    syncStatus: string;
    syncing: boolean;
    errors: ({level: string; title: string} | null)[];
    destination: {server: string | null; name: string | null; namespace: string | null} | null;
    projects: string[] | null;
    specSource: {repoURL: string; path: string | null; targetRevision: string | null; chart: string | null} | null;
    sync: {revision: string | null} | null;
    operationState: {phase: string; finishedAt: string | null; startedAt: string} | null;
    freshness: Freshness;
    receivedAt: string | null;
    observedAt: string | null;
    sequence: string | null;
}

interface Page {
    applications: {edges: {node: Row}[]; pageInfo: {startCursor: string | null; endCursor: string | null; hasNextPage: boolean; hasPrevPage: boolean}};
    runtimes: {edges: {node: RuntimeRef}[]};
    limitsStatus: {usage: {applications: number | null}} | null;
}

const rowFields = `metadata { name namespace runtime } healthStatus healthMessage syncStatus syncing errors { level title }
      destination { server name namespace } projects specSource { repoURL path targetRevision chart } sync { revision }
      operationState { phase startedAt finishedAt } freshness observedAt receivedAt sequence`;

const changes = `subscription Rows($ids: [ID!]!) { applicationsWindow(ids: $ids, filters: {includeComponents: true}) {
  reset removed deltas { id node { ${rowFields} } }
} }`;

const query = `query Applications($page: SlicePaginationArgs, $filters: ApplicationsFilterArgs) {
  applications(pagination: $page, filters: $filters) {
    edges { node {
      ${rowFields}
    } }
    pageInfo { startCursor endCursor hasNextPage hasPrevPage }
  }
  runtimes(pagination: {first: 100}) { edges { node { metadata { name } freshness lagSeconds since disconnectCause } } }
  limitsStatus { usage { applications } }
}`;

const store = new Store<Row>();
interface Shown {
    search: string;
    keys: string[];
    page: Page['applications']['pageInfo'];
    total: number | null;
    errors: {message: string}[];
}
const shown = new Held<Shown>();
const runtimes = signal<RuntimeRef[]>([]);
onForget(() => store.keep([]));
const typed = signal('');
const invalid = signal<string[]>([]);

function filtersOf(view: ListView): object {
    const {q, health, sync, runtime, ns, project, label} = view.filters;
    return {
        ...(q[0] ? {applicationName: q[0]} : {}),
        ...(health.length ? {healthStatuses: health.filter((one) => healthStates.includes(one))} : {}),
        ...(sync.length ? {statuses: sync.filter((one) => syncStates.includes(one))} : {}),
        ...(runtime.length ? {runtimes: runtime} : {}),
        ...(ns.length ? {namespaces: ns} : {}),
        ...(project[0] ? {project: project[0]} : {}),
        ...(label.length ? {labels: label} : {}),
    };
}

function keyOf(row: Row): string {
    return `${row.metadata.runtime}/${row.metadata.namespace ?? ''}/${row.metadata.name}`;
}

async function load(cancel: AbortSignal): Promise<void> {
    const asked = search.peek();
    const view = decodeList(asked);
    const page = view.before ? {last: pageRows, before: view.before} : {first: pageRows, ...(view.after ? {after: view.after} : {})};
    const {data, errors} = await request<Page>(query, {page, filters: filtersOf(view)}, cancel);
    const keys = data.applications.edges.map(({node}) => keyOf(node));
    data.applications.edges.forEach(({node}) => store.put(keyOf(node), node));
    store.keep(keys);
    runtimes.value = data.runtimes.edges.map((edge) => edge.node);
    shown.value = {search: asked, keys, page: data.applications.pageInfo, total: data.limitsStatus?.usage.applications ?? null, errors};
    const ids = data.applications.edges.filter(({node}) => node.metadata.namespace).map(({node}) => keyOf(node));
    if (ids.length) follow<Row>(changes, {ids}, true, onChange);
}

// A row that changes is replaced where it stands; what is gone or not known now is asked for.
function onChange(change: Change<Row>): void {
    let isMore = change.removed.length > 0 && !change.reset;
    for (const {node} of change.deltas) {
        const held = store.get(keyOf(node));
        if (held && held.peek().freshness !== node.freshness) isMore = true;
        if (held) store.put(keyOf(node), node);
    }
    if (isMore) reloadSoon();
}

function show(view: ListView, how: 'push' | 'replace' = 'push'): void {
    go(`ui/apps${encodeList(view)}`, how);
}

function withFilter(view: ListView, key: FilterKey, values: string[]): ListView {
    return {filters: {...view.filters, [key]: values}, after: '', before: ''};
}

function toggle(view: ListView, key: FilterKey, value: string): void {
    const held = view.filters[key];
    show(withFilter(view, key, held.includes(value) ? held.filter((one) => one !== value) : [...held, value]));
}

function Facet({view, name, of, values}: {view: ListView; name: string; of: FilterKey; values: string[]}) {
    const all = [...new Set([...values, ...view.filters[of]])];
    if (!all.length) return null;
    return (
        <fieldset class="facet">
            <legend>{name}</legend>
            {all.map((value) => (
                <label key={value}>
                    <input type="checkbox" checked={view.filters[of].includes(value)} onChange={() => toggle(view, of, value)} />
                    <span>{of === 'health' || of === 'sync' ? stateWord(value) : value}</span>
                </label>
            ))}
        </fieldset>
    );
}

function Chips({view}: {view: ListView}) {
    const names: Record<FilterKey, string> = {q: 'name', health: 'health', sync: 'Git', runtime: 'runtime', ns: 'namespace', project: 'project', label: 'label'};
    const all = (Object.keys(names) as FilterKey[]).flatMap((key) => view.filters[key].map((value) => ({key, value})));
    if (!all.length) return null;
    return (
        <ul class="chips" aria-label="Active filters">
            {all.map(({key, value}) => (
                <li key={`${key}=${value}`}>
                    <button type="button" onClick={() => show(withFilter(view, key, view.filters[key].filter((one) => one !== value)))}>
                        {names[key]}: <b>{key === 'health' || key === 'sync' ? stateWord(value) : value}</b> <Icon name="cross" /><span class="hidden">remove</span>
                    </button>
                </li>
            ))}
            <li><button type="button" class="plain" onClick={() => show({filters: emptyFilters(), after: '', before: ''})}>Clear all</button></li>
        </ul>
    );
}

// Typing filters by name after a pause; Enter takes `key:value` words over as filters.
function TextFilter({view}: {view: ListView}) {
    const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
    useEffect(() => {
        invalid.value = [];
        return () => clearTimeout(timer.current);
    }, []);
    const name = view.filters.q[0] ?? '';
    useEffect(() => {
        typed.value = name;
    }, [name]);
    const take = (how: 'push' | 'replace') => {
        const {filters, invalid: bad} = parseTyped(typed.peek());
        invalid.value = bad;
        const now = decodeList(search.peek());
        const merged = {...now.filters};
        for (const [key, values] of Object.entries(filters)) merged[key as FilterKey] = key === 'q' || key === 'project' ? values : [...new Set([...merged[key as FilterKey], ...values])];
        if (!filters.q) merged.q = [];
        show({filters: merged, after: '', before: ''}, how);
    };
    return (
        <form
            class="text-filter"
            role="search"
            onSubmit={(event) => {
                event.preventDefault();
                clearTimeout(timer.current);
                take('push');
                typed.value = parseTyped(typed.peek()).filters.q?.[0] ?? '';
            }}
        >
            <input
                type="search"
                data-filter
                aria-label="Filter applications by name, or key:value"
                placeholder="Name, or ns:shop project:web label:tier=1"
                maxLength={300}
                value={typed.value}
                onInput={(event) => {
                    typed.value = event.currentTarget.value;
                    clearTimeout(timer.current);
                    if (!typed.value.includes(':')) timer.current = setTimeout(() => take('replace'), 250);
                }}
            />
            {invalid.value.length > 0 && <p class="invalid" role="alert">Not understood: {invalid.value.join(' ')}. Keys are health, sync, runtime, ns, project, label.</p>}
        </form>
    );
}

function Line({row, runtime}: {row: Signal<Row>; runtime: RuntimeRef | undefined}) {
    const app = row.value;
    const {name, namespace, runtime: on} = app.metadata;
    const source = app.specSource;
    const destination = app.destination;
    return (
        <tr data-row>
            <td class="c-name">
                <a href={href(applicationPath(on, namespace, name))} title={name}>{name}</a>
                {app.errors.length > 0 && <span class="quiet note" title={app.errors[0]?.title ?? ''}>{count(app.errors.length, 'finding')}</span>}
            </td>
            <td class="c-health"><State state={app.healthStatus} freshness={app.freshness} /></td>
            <td class="c-sync"><State state={app.syncing ? 'SYNCING' : app.syncStatus} freshness={app.freshness} /></td>
            <td class="c-asof"><AsOf freshness={app.freshness} seen={app.receivedAt} runtime={runtime} /></td>
            <td class="c-runtime"><RuntimeLink name={on} /></td>
            <td class="c-where" title={destination?.server ?? ''}>{[clusterName(destination?.name), destination?.namespace].filter(Boolean).join(' / ') || namespace}</td>
            <td class="c-project">{app.projects?.[0] ?? ''}</td>
            <td class="c-source" title={source ? `${source.repoURL} ${source.path ?? source.chart ?? ''}` : ''}>{source ? <>{repositoryName(source.repoURL)} <span class="quiet">{source.path ?? source.chart}</span></> : ''}</td>
            <td class="c-revision"><code title={app.sync?.revision ?? ''}>{shortRevision(app.sync?.revision)}</code></td>
            <td class="c-operation">{app.operationState ? <><Result result={app.operationState.phase} /> <span class="quiet"><Age time={app.operationState.finishedAt ?? app.operationState.startedAt} /></span></> : <span class="quiet">none</span>}</td>
        </tr>
    );
}

function Pager({view, at}: {view: ListView; at: Shown}) {
    const {page} = at;
    const next = page.hasNextPage && page.endCursor ? encodeList({...view, after: page.endCursor, before: ''}) : '';
    const previous = page.hasPrevPage && page.startCursor ? encodeList({...view, after: '', before: page.startCursor}) : '';
    return (
        <nav class="pager" aria-label="Pages">
            <span class="quiet" role="status">
                {count(at.keys.length, 'application')}
                {!isFiltered(view) && at.total !== null ? ` of ${at.total.toLocaleString('en')}` : page.hasNextPage || page.hasPrevPage ? ' on this page' : ''}
            </span>
            <span>
                {previous && <a class="button" data-previous href={href(`ui/apps${previous}`)}>Previous</a>}
                {next && <a class="button" data-next href={href(`ui/apps${next}`)}>Next</a>}
            </span>
        </nav>
    );
}

function Table({at}: {at: Shown}) {
    const by = new Map(runtimes.value.map((one) => [one.metadata.name, one]));
    return (
        <div class="table-frame">
            <table class="applications">
                <caption class="hidden">Applications</caption>
                <thead>
                    <tr>
                        <th scope="col" class="c-name">Name</th><th scope="col" class="c-health">Health</th><th scope="col" class="c-sync">Git</th>
                        <th scope="col" class="c-asof">As of</th><th scope="col" class="c-runtime">Runtime</th><th scope="col" class="c-where">Cluster / namespace</th>
                        <th scope="col" class="c-project">Project</th><th scope="col" class="c-source">Source</th><th scope="col" class="c-revision">Revision</th>
                        <th scope="col" class="c-operation">Last operation</th>
                    </tr>
                </thead>
                <tbody>
                    {at.keys.map((key) => {
                        const row = store.get(key);
                        return row ? <Line key={key} row={row} runtime={by.get(row.value.metadata.runtime)} /> : null;
                    })}
                </tbody>
            </table>
        </div>
    );
}

function Nothing({view}: {view: ListView}) {
    if (isFiltered(view)) return <Empty title="No application matches"><p>Remove a filter above to see more.</p></Empty>;
    if (!runtimes.value.length) return <Empty title="No applications yet"><p>No runtime is registered. Create one, and start its agent in the cluster.</p></Empty>;
    return <Empty title="No applications yet"><p>Applications appear here within seconds after Argo CD has them.</p></Empty>;
}

export function Applications() {
    useWatch(shown, load, '');
    const place = search.value;
    useEffect(() => {
        listSearch.value = place;
        if (shown.peek() && shown.peek()?.search !== place) reload();
    }, [place]);
    const view = decodeList(place);
    const at = shown.value;
    const strange = unknownKeys(place);
    return (
        <>
            <header class="page-head"><h1>Applications</h1></header>
            <div class="list-layout">
                <details class="facets" open={matchMedia('(min-width: 1100px)').matches}>
                    <summary>Filters</summary>
                    <Facet view={view} name="Health" of="health" values={healthStates} />
                    <Facet view={view} name="Git" of="sync" values={syncStates} />
                    <Facet view={view} name="Runtime" of="runtime" values={runtimes.value.map((one) => one.metadata.name).slice(0, 20)} />
                </details>
                <section class={`list ${at && at.search !== place ? 'old' : ''}`} aria-label="List of applications">
                    <TextFilter view={view} />
                    <Chips view={view} />
                    {strange.length > 0 && <p class="quiet">Not used by this page: {strange.join(', ')}</p>}
                    {at ? (
                        <>
                            <PartialErrors errors={at.errors} />
                            {at.keys.length ? <Table at={at} /> : <Nothing view={view} />}
                            {at.keys.length > 0 && <Pager view={view} at={at} />}
                        </>
                    ) : <Waiting rows={10} />}
                </section>
            </div>
        </>
    );
}
