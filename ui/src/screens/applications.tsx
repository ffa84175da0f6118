// Applications: the filtered list, a page at a time; the URL holds all of its state.
import {type Signal, signal} from '@preact/signals';
import {useEffect, useLayoutEffect, useRef} from 'preact/hooks';
import {onForget, request} from '../api.ts';
import {Held} from '../held.ts';
import {Icon} from '../icons.tsx';
import {Age, AsOf, Empty, PartialErrors, Result, type RuntimeRef, RuntimeLink, State, Waiting} from '../parts.tsx';
import {type Change, follow} from '../live.ts';
import {reload, reloadSoon, useWatch} from '../poll.ts';
import {go, href, listSearch, search} from '../router.ts';
import {Store} from '../store.ts';
import {type Freshness, severity} from '../tone.ts';
import {SavedViews} from '../views.tsx';
import {applicationPath, decodeList, emptyFilters, encodeList, type FilterKey, isFiltered, type ListView, parseTyped, single, unknownKeys} from '../url.ts';
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
    applicationsIndex: {total: number} | null;
    applicationFacets: FacetOf[] | null;
}

interface FacetOf {
    dimension: string;
    values: {value: string | null; count: number}[];
    more: number;
}

const rowFields = `metadata { name namespace runtime } healthStatus healthMessage syncStatus syncing errors { level title }
      destination { server name namespace } projects specSource { repoURL path targetRevision chart } sync { revision }
      operationState { phase startedAt finishedAt } freshness observedAt receivedAt sequence`;

const changes = `subscription Rows($ids: [ID!]!) { applicationsWindow(ids: $ids, filters: {includeComponents: true}) {
  reset removed deltas { id node { ${rowFields} } }
} }`;

// What can be counted, as the API and as the URL name it.
const dimensions: [string, FilterKey, string][] = [
    ['HEALTH', 'health', 'Health'], ['SYNC', 'sync', 'Git'], ['OPERATION', 'op', 'Last operation'], ['RUNTIME', 'runtime', 'Runtime'],
    ['NAMESPACE', 'ns', 'Namespace'], ['PROJECT', 'project', 'Project'], ['REPO', 'repo', 'Repository'], ['AUTO_SYNC', 'auto', 'Auto-sync'],
];
const facetValues = 8;
const groupValues = 100;
const orders: Record<string, string> = {name: 'NAME', runtime: 'RUNTIME', health: 'SEVERITY', sync: 'SYNC'};

const query = `query Applications($page: SlicePaginationArgs, $filters: ApplicationsFilterArgs, $orderBy: [ApplicationOrder!], $dimensions: [ApplicationDimension!]!, $top: Int!) {
  applications(pagination: $page, filters: $filters, orderBy: $orderBy) {
    edges { node {
      ${rowFields}
    } }
    pageInfo { startCursor endCursor hasNextPage hasPrevPage }
  }
  runtimes(pagination: {first: 100}) { edges { node { metadata { name } freshness lagSeconds since disconnectCause } } }
  applicationsIndex(filters: $filters, every: 10000) { total }
  applicationFacets(filters: $filters, dimensions: $dimensions, top: $top) { dimension values { value count } more }
}`;

const store = new Store<Row>();
interface Shown {
    search: string;
    keys: string[];
    page: Page['applications']['pageInfo'];
    total: number | null;
    facets: FacetOf[];
    errors: {message: string}[];
}
const shown = new Held<Shown>();
const runtimes = signal<RuntimeRef[]>([]);
onForget(() => store.keep([]));
const typed = signal('');
const invalid = signal<string[]>([]);

const phases = ['Error', 'Failed', 'Running', 'Succeeded', 'Terminating'];

function filtersOf(view: ListView): object {
    const {q, health, sync, op, runtime, ns, project, repo, auto, label} = view.filters;
    return {
        ...(q[0] ? {text: q[0]} : {}),
        ...(health.length ? {healthStatuses: health.filter((one) => healthStates.includes(one))} : {}),
        ...(sync.length ? {statuses: sync.filter((one) => syncStates.includes(one))} : {}),
        ...(runtime.length ? {runtimes: runtime} : {}),
        ...(ns.length ? {namespaces: ns} : {}),
        ...(op.length ? {operationPhases: op.filter((one) => phases.includes(one))} : {}),
        ...(project.length ? {projects: project} : {}),
        ...(repo.length ? {repoURLs: repo} : {}),
        ...(auto[0] ? {autoSync: auto[0] === 'true'} : {}),
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
    const field = view.sort.replace('-', '');
    const orderBy = field ? [{field: orders[field], direction: view.sort.startsWith('-') ? 'desc' : 'asc'}] : null;
    const grouped = dimensions.find(([, key]) => key === view.group);
    const counts = grouped ? {dimensions: [grouped[0]], top: groupValues} : {dimensions: dimensions.map(([name]) => name), top: facetValues};
    const {data, errors} = await request<Page>(query, {page, filters: filtersOf(view), orderBy, ...counts}, cancel);
    const keys = data.applications.edges.map(({node}) => keyOf(node));
    data.applications.edges.forEach(({node}) => store.put(keyOf(node), node));
    store.keep(keys);
    runtimes.value = data.runtimes.edges.map((edge) => edge.node);
    shown.value = {search: asked, keys, page: data.applications.pageInfo, total: data.applicationsIndex?.total ?? null, facets: data.applicationFacets ?? [], errors};
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
    return {...view, filters: {...view.filters, [key]: values}, after: '', before: ''};
}

function toggle(view: ListView, key: FilterKey, value: string): void {
    const held = view.filters[key];
    show(withFilter(view, key, held.includes(value) ? held.filter((one) => one !== value) : [...held, value]));
}

function valueWord(of: FilterKey, value: string): string {
    if (of === 'health' || of === 'sync' || of === 'op') return stateWord(value);
    if (of === 'auto') return value === 'true' ? 'on' : 'off';
    return of === 'repo' ? repositoryName(value) : value;
}

function Facet({view, name, of, facet}: {view: ListView; name: string; of: FilterKey; facet: FacetOf | undefined}) {
    const counts = new Map((facet?.values ?? []).map((one) => [one.value ?? '', one.count]));
    const all = [...new Set([...counts.keys(), ...view.filters[of]])].filter((value) => value !== '');
    if (of === 'health' || of === 'sync') all.sort((a, b) => severity(a) - severity(b));
    if (!all.length) return null;
    return (
        <fieldset class="facet">
            <legend>{name}</legend>
            {all.map((value) => (
                <label key={value} title={value}>
                    <input type="checkbox" checked={view.filters[of].includes(value)} onChange={() => toggle(view, of, value)} />
                    <span>{valueWord(of, value)}</span>
                    <span class="facet-count quiet">{counts.get(value)?.toLocaleString('en') ?? ''}</span>
                </label>
            ))}
            {facet && facet.more > 0 && <p class="quiet">{count(facet.more, 'other', 'others')}: type {of}:… above</p>}
        </fieldset>
    );
}

// How many there are of each, worst first within; each leads to its rows.
function Groups({view, facet}: {view: ListView; facet: FacetOf | undefined}) {
    const of = view.group as FilterKey;
    if (!facet?.values.length) return <Nothing view={view} />;
    return (
        <>
            <ul class="cards">
                {facet.values.map(({value, count: n}) => (
                    <li key={value} class="card" data-row>
                        <div class="card-head">
                            <h2>{value ? <a href={href(`ui/apps${encodeList({...withFilter(view, of, [value]), group: ''})}`)}>{valueWord(of, value)}</a> : 'none'}</h2>
                            <b>{n.toLocaleString('en')}</b>
                        </div>
                    </li>
                ))}
            </ul>
            {facet.more > 0 && <p class="quiet">And {count(facet.more, 'other group')}, each with no more than these.</p>}
        </>
    );
}

function Shape({view}: {view: ListView}) {
    const names: [ListView['group'], string][] = [['', 'not grouped'], ['runtime', 'by runtime'], ['ns', 'by namespace'], ['project', 'by project'], ['repo', 'by repository'], ['health', 'by health']];
    const to = (change: Partial<ListView>) => href(`ui/apps${encodeList({...view, after: '', before: '', ...change})}`);
    return (
        <div class="bar">
            <div class="segments" role="group" aria-label="View">
                <a href={to({view: '', group: ''})} aria-current={!view.view && !view.group ? 'true' : undefined}>Table</a>
                <a href={to({view: 'tiles', group: ''})} aria-current={view.view && !view.group ? 'true' : undefined}>Tiles</a>
            </div>
            <label>Group{' '}
                <select value={view.group} onChange={(event) => show({...view, after: '', before: '', group: event.currentTarget.value as ListView['group']})}>
                    {names.map(([id, name]) => <option key={id} value={id}>{name}</option>)}
                </select>
            </label>
            <label>Order{' '}
                <select value={view.sort} onChange={(event) => show({...view, after: '', before: '', sort: event.currentTarget.value as ListView['sort']})}>
                    <option value="">name</option><option value="-name">name, last first</option><option value="health">worst health first</option>
                    <option value="sync">out of sync first</option><option value="runtime">runtime</option>
                </select>
            </label>
            <SavedViews />
        </div>
    );
}

function Chips({view}: {view: ListView}) {
    const names: Record<FilterKey, string> = {q: 'text', health: 'health', sync: 'Git', op: 'last operation', runtime: 'runtime', ns: 'namespace', project: 'project', repo: 'repository', auto: 'auto-sync', label: 'label'};
    const all = (Object.keys(names) as FilterKey[]).flatMap((key) => view.filters[key].map((value) => ({key, value})));
    if (!all.length) return null;
    return (
        <ul class="chips" aria-label="Active filters">
            {all.map(({key, value}) => (
                <li key={`${key}=${value}`}>
                    <button type="button" onClick={() => show(withFilter(view, key, view.filters[key].filter((one) => one !== value)))}>
                        {names[key]}: <b>{valueWord(key, value)}</b> <Icon name="cross" /><span class="hidden">remove</span>
                    </button>
                </li>
            ))}
            <li><button type="button" class="plain" onClick={() => show({...view, filters: emptyFilters(), after: '', before: ''})}>Clear all</button></li>
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
    useLayoutEffect(() => { // before a key that was pressed meanwhile
        typed.value = name;
    }, [name]);
    const take = (how: 'push' | 'replace') => {
        const {filters, invalid: bad} = parseTyped(typed.peek());
        invalid.value = bad;
        const now = decodeList(search.peek());
        const merged = {...now.filters};
        for (const [key, values] of Object.entries(filters)) merged[key as FilterKey] = single.includes(key as FilterKey) ? values : [...new Set([...merged[key as FilterKey], ...values])];
        if (!filters.q) merged.q = [];
        show({...now, filters: merged, after: '', before: ''}, how);
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
                aria-label="Filter applications by text, or key:value"
                placeholder="Name, repository, path, revision or label; or ns:shop health:degraded"
                maxLength={300}
                value={typed.value}
                onInput={(event) => {
                    typed.value = event.currentTarget.value;
                    clearTimeout(timer.current);
                    if (!typed.value.includes(':')) timer.current = setTimeout(() => take('replace'), 250);
                }}
            />
            {invalid.value.length > 0 && <p class="invalid" role="alert">Not understood: {invalid.value.join(' ')}. Keys are health, sync, op, runtime, ns, project, repo, auto, label.</p>}
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
                {at.total !== null ? ` of ${at.total.toLocaleString('en')}${isFiltered(view) ? ' that match' : ''}` : page.hasNextPage || page.hasPrevPage ? ' on this page' : ''}
            </span>
            <span>
                {previous && <a class="button" data-previous href={href(`ui/apps${previous}`)}>Previous</a>}
                {next && <a class="button" data-next href={href(`ui/apps${next}`)}>Next</a>}
            </span>
        </nav>
    );
}

function Table({at, tiles}: {at: Shown; tiles: boolean}) {
    const by = new Map(runtimes.value.map((one) => [one.metadata.name, one]));
    return (
        <div class={tiles ? 'table-frame tiles' : 'table-frame'}>
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
                    {dimensions.map(([dimension, of, name]) => <Facet key={of} view={view} name={name} of={of} facet={at?.facets.find((one) => one.dimension === dimension)} />)}
                </details>
                <section class={`list ${at && at.search !== place ? 'old' : ''}`} aria-label="List of applications">
                    <TextFilter view={view} />
                    <Chips view={view} />
                    <Shape view={view} />
                    {strange.length > 0 && <p class="quiet">Not used by this page: {strange.join(', ')}</p>}
                    {at ? (
                        <>
                            <PartialErrors errors={at.errors} />
                            {view.group ? <Groups view={view} facet={at.facets[0]} /> : at.keys.length ? <Table at={at} tiles={view.view === 'tiles'} /> : <Nothing view={view} />}
                            {!view.group && at.keys.length > 0 && <Pager view={view} at={at} />}
                        </>
                    ) : <Waiting rows={10} />}
                </section>
            </div>
        </>
    );
}
