// Lists of what there is in all clusters: one table for rollouts, deployments, workflows, images, clusters and the
// audit log. The URL holds filters and place.
import type {ComponentChildren} from 'preact';
import {useEffect} from 'preact/hooks';
import {Actions} from '../actions.tsx';
import {request} from '../api.ts';
import {Held} from '../held.ts';
import {Age, Empty, PartialErrors, Result, RuntimeLink, State, Waiting} from '../parts.tsx';
import {reload, useWatch} from '../poll.ts';
import {go, href, search} from '../router.ts';
import {absolute} from '../time.ts';
import type {Freshness} from '../tone.ts';
import {applicationPath, type ListName} from '../url.ts';
import {count, firstLine, shortRevision, stateWord} from '../words.ts';

const pageRows = 50;
const lengthMax = 300;

interface Row {
    key: string;
    cells: () => ComponentChildren[];
}
interface Loaded {
    rows: Row[];
    next: string;
    previous: string;
    errors: {message: string}[];
}
type Place = Record<string, string>; // the values of filters, `after` and `before`
interface List {
    title: string;
    noun: string;
    heads: string[];
    filters: {key: string; name: string; values?: string[]}[];
    empty: string;
    load: (place: Place, cancel: AbortSignal) => Promise<Loaded>;
}

interface Slice<Node> {
    edges: {node: Node}[];
    pageInfo: {startCursor: string | null; endCursor: string | null; hasNextPage: boolean; hasPrevPage: boolean};
}

const pageInfo = 'pageInfo { startCursor endCursor hasNextPage hasPrevPage }';

async function slice<Node>(query: string, filters: object, place: Place, cancel: AbortSignal, row: (node: Node) => Row): Promise<Loaded> {
    const page = place.before ? {last: pageRows, before: place.before} : {first: pageRows, ...(place.after ? {after: place.after} : {})};
    const {data, errors} = await request<{list: Slice<Node>}>(query, {page, filters}, cancel);
    const {edges, pageInfo: at} = data.list;
    return {rows: edges.map(({node}) => row(node)), next: at.hasNextPage ? (at.endCursor ?? '') : '', previous: at.hasPrevPage ? (at.startCursor ?? '') : '', errors};
}

// The filters that are set, as the API names them.
function given(place: Place, names: Record<string, string>): object {
    return Object.fromEntries(Object.entries(names).filter(([key]) => place[key]).map(([key, name]) => [name, place[key]]));
}

interface Named {
    metadata: {name: string; namespace: string | null; runtime: string; uid?: string | null};
    freshness: Freshness;
}

interface Rollout extends Named {
    spec: {strategy: {name: string; steps: unknown[] | null}};
    status: {phase: string; message: string | null; currentStepIndex: number | null; weightOfNew: number};
}

function target(row: Named, kind: string) {
    return {runtime: row.metadata.runtime, namespace: row.metadata.namespace ?? '', name: row.metadata.name, kind, group: 'argoproj.io'};
}

const waiting = ['ROLLOUT_RESUME', 'ROLLOUT_PROMOTE', 'ROLLOUT_ABORT'];
const rollouts: List = {
    title: 'Rollouts',
    noun: 'rollout',
    heads: ['Name', 'Phase', 'Step', 'New version', 'Runtime', 'Namespace'],
    filters: [{key: 'phase', name: 'Phase', values: ['Paused', 'Degraded', 'Progressing', 'Healthy']}, {key: 'runtime', name: 'Runtime'}, {key: 'name', name: 'Name'}],
    empty: 'Rollouts of Argo Rollouts appear here when an agent reads them.',
    load: (place, cancel) =>
        slice<Rollout>(
            `query Rollouts($page: SlicePaginationArgs, $filters: RolloutFilterArgs) { list: rollouts(pagination: $page, filters: $filters) { edges { node {
              metadata { name namespace runtime } freshness spec { strategy { name steps { index } } } status { phase message currentStepIndex weightOfNew }
            } } ${pageInfo} } }`,
            {...given(place, {runtime: 'runtime', name: 'name'}), ...(place.phase ? {phases: [place.phase]} : {})},
            place,
            cancel,
            (one) => ({
                key: `${one.metadata.runtime}/${one.metadata.namespace}/${one.metadata.name}`,
                cells: () => [
                    <><b>{one.metadata.name}</b>{one.status.phase === 'Paused' && <Actions target={target(one, 'Rollout')} only={(id) => waiting.includes(id)} />}</>,
                    <><State state={one.status.phase} freshness={one.freshness} />{one.status.message && <span class="quiet block">{one.status.message}</span>}</>,
                    one.spec.strategy.steps?.length && one.status.currentStepIndex !== null ? `${one.status.currentStepIndex} of ${one.spec.strategy.steps.length}` : one.spec.strategy.name,
                    `${one.status.weightOfNew} %`,
                    <RuntimeLink name={one.metadata.runtime} />,
                    one.metadata.namespace,
                ],
            }),
        ),
};

interface Release {
    applicationMetadata: Named['metadata'];
    historyId: number;
    deployedAt: string | null;
    initiator: string | null;
    automated: boolean;
    result: string;
    syncOperationRevision: string;
    commit: {author: string | null; message: string | null} | null;
}

const deployments: List = {
    title: 'Deployments',
    noun: 'deployment',
    heads: ['When', 'Result', 'Application', 'By', 'What', 'Runtime'],
    filters: [{key: 'runtime', name: 'Runtime'}, {key: 'name', name: 'Application'}, {key: 'committer', name: 'Committer'}],
    empty: 'Nothing was deployed yet.',
    load: (place, cancel) =>
        slice<Release>(
            `query Deployments($page: SlicePaginationArgs, $filters: GitopsReleaseFilterArgs) { list: gitopsReleases(pagination: $page, filters: $filters) { edges { node {
              applicationMetadata { name namespace runtime } historyId deployedAt initiator automated result syncOperationRevision commit { author message }
            } } ${pageInfo} } }`,
            given(place, {runtime: 'runtime', name: 'name', committer: 'committer'}),
            place,
            cancel,
            (one) => {
                const {runtime, namespace, name} = one.applicationMetadata;
                return {
                    key: `${runtime}/${namespace}/${name}/${one.historyId}`,
                    cells: () => [
                        <Age time={one.deployedAt} />,
                        <Result result={one.result} />,
                        <><a href={href(`${applicationPath(runtime, namespace, name)}?tab=history`)}>{name}</a> <span class="quiet">#{one.historyId}</span></>,
                        one.initiator ?? (one.automated ? `auto-sync${one.commit?.author ? `, commit by ${one.commit.author}` : ''}` : 'unknown'),
                        <><code title={one.syncOperationRevision}>{shortRevision(one.syncOperationRevision)}</code> {firstLine(one.commit?.message)}</>,
                        <RuntimeLink name={runtime} />,
                    ],
                };
            },
        ),
};

interface Workflow extends Named {
    status: {phase: string; progress: string | null; startedAt: string | null; finishedAt: string | null; message: string | null};
    initiator: {userName: string | null} | null;
    spec: {workflowTemplateRef: {name: string | null} | null};
}

const workflows: List = {
    title: 'Workflows',
    noun: 'workflow',
    heads: ['Name', 'Status', 'Progress', 'Started', 'Template', 'Runtime', 'Namespace'],
    filters: [{key: 'status', name: 'Status', values: ['Running', 'Failed', 'Error', 'Pending', 'Succeeded']}, {key: 'runtime', name: 'Runtime'}, {key: 'template', name: 'Template'}],
    empty: 'Workflows of Argo Workflows appear here when an agent reads them.',
    load: (place, cancel) =>
        slice<Workflow>(
            `query Workflows($page: SlicePaginationArgs, $filters: WorkflowsFilterArgs) { list: workflows(pagination: $page, filters: $filters) { edges { node {
              metadata { name namespace runtime uid } freshness status { phase progress startedAt finishedAt message } initiator { userName } spec { workflowTemplateRef { name } }
            } } ${pageInfo} } }`,
            {...given(place, {runtime: 'runtime', template: 'workflowTemplate'}), ...(place.status ? {statuses: [place.status]} : {})},
            place,
            cancel,
            (one) => ({
                key: one.metadata.uid ?? `${one.metadata.runtime}/${one.metadata.namespace}/${one.metadata.name}`,
                cells: () => [
                    <><b>{one.metadata.name}</b>{one.status.phase === 'Running' && <Actions target={target(one, 'Workflow')} />}</>,
                    <>{one.status.finishedAt ? <Result result={one.status.phase} /> : <State state={one.status.phase} freshness={one.freshness} />}{one.status.message && <span class="quiet block">{one.status.message}</span>}</>,
                    one.status.progress,
                    <><Age time={one.status.startedAt} />{one.initiator?.userName && <span class="quiet block">by {one.initiator.userName}</span>}</>,
                    one.spec.workflowTemplateRef?.name,
                    <RuntimeLink name={one.metadata.runtime} />,
                    one.metadata.namespace,
                ],
            }),
        ),
};

interface Image {
    name: string;
    repository: string;
    tag: string;
    runningSince: string;
    usesCount: number;
    uses: {runtime: string; kind: string; namespace: string; name: string; applicationName: string | null; applicationNamespace: string | null}[];
}

const usesShown = 3;
const images: List = {
    title: 'Images',
    noun: 'image',
    heads: ['Repository', 'Tag', 'Used by', 'Since'],
    filters: [{key: 'name', name: 'Image'}, {key: 'runtime', name: 'Runtime'}, {key: 'application', name: 'Application'}],
    empty: 'No workload asks for an image yet.',
    load: (place, cancel) =>
        slice<Image>(
            `query Images($page: SlicePaginationArgs, $filters: ImagesFilterArgs) { list: images(pagination: $page, filters: $filters) { edges { node {
              name repository tag runningSince usesCount uses { runtime kind namespace name applicationName applicationNamespace }
            } } ${pageInfo} } }`,
            given(place, {name: 'name', runtime: 'runtime', application: 'applicationName'}),
            place,
            cancel,
            (one) => ({
                key: one.name,
                cells: () => [
                    one.repository,
                    <code>{one.tag}</code>,
                    <>
                        {one.uses.slice(0, usesShown).map((use) => (
                            <span key={`${use.runtime}/${use.kind}/${use.namespace}/${use.name}`} class="block">
                                {use.applicationName ? <a href={href(applicationPath(use.runtime, use.applicationNamespace, use.applicationName))}>{use.applicationName}</a> : `${use.namespace}/${use.name}`} <span class="quiet">{use.kind} on {use.runtime}</span>
                            </span>
                        ))}
                        {one.usesCount > usesShown && <span class="quiet">and {count(one.usesCount - usesShown, 'more', 'more')}</span>}
                    </>,
                    <Age time={one.runningSince} />,
                ],
            }),
        ),
};

interface Cluster {
    metadata: {name: string; runtime: string};
    server: string;
    freshness: Freshness | null;
    info: {connectionState: {status: string; message: string | null}; serverVersion: string | null; applicationsCount: number};
}

const clusters: List = {
    title: 'Clusters',
    noun: 'cluster',
    heads: ['Name', 'Connection', 'Kubernetes', 'Applications', 'Runtime', 'Server'],
    filters: [{key: 'runtime', name: 'Runtime'}],
    empty: 'Clusters that Argo CD manages appear here.',
    load: async (place, cancel) => {
        const {data, errors} = await request<{list: Slice<Cluster>}>(
            `query Clusters($runtime: String, $page: SlicePaginationArgs) { list: clusters(runtime: $runtime, pagination: $page) { edges { node {
              metadata { name runtime } server freshness info { connectionState { status message } serverVersion applicationsCount }
            } } ${pageInfo} } }`,
            {runtime: place.runtime || null, page: place.before ? {last: pageRows, before: place.before} : {first: pageRows, ...(place.after ? {after: place.after} : {})}},
            cancel,
        );
        const {edges, pageInfo: at} = data.list;
        const rows = edges.map(({node: one}) => ({
            key: `${one.metadata.runtime}/${one.metadata.name}/${one.server}`,
            cells: () => [
                <b>{one.metadata.name}</b>,
                <><State state={one.info.connectionState.status} freshness={one.freshness ?? 'stale'} />{one.info.connectionState.message && <span class="quiet block">{one.info.connectionState.message}</span>}</>,
                one.info.serverVersion,
                one.info.applicationsCount,
                <RuntimeLink name={one.metadata.runtime} />,
                one.server,
            ],
        }));
        return {rows, next: at.hasNextPage ? (at.endCursor ?? '') : '', previous: at.hasPrevPage ? (at.startCursor ?? '') : '', errors};
    },
};

interface Entry {
    number: number;
    at: string;
    action: string;
    entity: string;
    entityId: string;
    patch: string;
    outcome: string;
    actor: {kind: string; name: string | null; method: string | null; remote: string | null} | null;
}

const audit: List = {
    title: 'Audit',
    noun: 'entry',
    heads: ['When', 'Who', 'What', 'Outcome', 'From', 'Change'],
    filters: [{key: 'action', name: 'Action', values: ['create', 'update', 'delete']}, {key: 'entity', name: 'Of'}],
    empty: 'No change is recorded, or you may not read the audit log.',
    load: async (place, cancel) => {
        const before = Number(place.after) || null;
        const {data, errors} = await request<{auditEntries: Entry[] | null}>(
            'query Audit($filters: AuditFilter, $first: Int, $before: Int) { auditEntries(filters: $filters, first: $first, before: $before) { number at action entity entityId patch outcome actor { kind name method remote } } }',
            {filters: given(place, {action: 'action', entity: 'entity'}), first: pageRows, before},
            cancel,
        );
        const entries = data.auditEntries ?? [];
        const rows = entries.map((one) => ({
            key: String(one.number),
            cells: () => [
                <span title={absolute(one.at)}><Age time={one.at} /></span>,
                <>{one.actor?.name ?? one.actor?.kind ?? 'unknown'}{one.actor?.method && <span class="quiet block">{one.actor.method}</span>}</>,
                <>{one.action} <span class="quiet">{one.entity.replaceAll('_', ' ')}</span><span class="quiet block">{one.entityId}</span></>,
                one.outcome,
                one.actor?.remote,
                <details><summary>show</summary><code class="breaks">{one.patch}</code></details>,
            ],
        }));
        return {rows, next: entries.length === pageRows ? String(entries[pageRows - 1]!.number) : '', previous: '', errors};
    },
};

const lists: Record<ListName, List> = {rollouts, deployments, workflows, images, clusters, audit};
export const listTitle = (name: ListName): string => lists[name].title;

const shown = new Held<{place: string; loaded: Loaded}>();

function placeOf(list: List, text: string): Place {
    const params = new URLSearchParams(text);
    const keys = [...list.filters.map((one) => one.key), 'after', 'before'];
    return Object.fromEntries(keys.map((key) => [key, (params.get(key) ?? '').trim().slice(0, lengthMax)]));
}

function pathOf(name: ListName, list: List, place: Place): string {
    const params = new URLSearchParams([...list.filters.map((one) => one.key), 'after', 'before'].filter((key) => place[key]).map((key) => [key, place[key]!]));
    return `ui/${name}${params.size ? `?${params}` : ''}`;
}

function Filters({name, list, place}: {name: ListName; list: List; place: Place}) {
    const onSubmit = (event: SubmitEvent) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        go(pathOf(name, list, Object.fromEntries(list.filters.map(({key}) => [key, form.get(key)?.toString().trim() ?? '']))));
    };
    return (
        <form class="form list-filters" role="search" key={JSON.stringify(place)} onSubmit={onSubmit}>
            {list.filters.map((one, i) => (
                <label key={one.key}>{one.name}{' '}
                    {one.values ? (
                        <select name={one.key} defaultValue={place[one.key]} onChange={(event) => event.currentTarget.form?.requestSubmit()}>
                            <option value="">all</option>
                            {one.values.map((value) => <option key={value} value={value} selected={value === place[one.key]}>{stateWord(value)}</option>)}
                        </select>
                    ) : <input name={one.key} defaultValue={place[one.key]} maxLength={lengthMax} {...(i === list.filters.length - 1 ? {'data-filter': true} : {})} />}
                </label>
            ))}
            <button type="submit">Filter</button>
        </form>
    );
}

export function ListPage({name}: {name: ListName}) {
    const list = lists[name];
    const text = search.value;
    const at = `${name}${text}`;
    useWatch(shown, async (cancel) => {
        const asked = search.peek();
        shown.value = {place: `${name}${asked}`, loaded: await list.load(placeOf(list, asked), cancel)};
    }, name);
    useEffect(() => {
        if (shown.peek() && shown.peek()?.place !== at) reload();
    }, [at]);
    const place = placeOf(list, text);
    const held = shown.value?.place.split('?')[0] === name ? shown.value : null;
    const isFiltered = list.filters.some((one) => place[one.key]);
    return (
        <>
            <header class="page-head"><h1>{list.title}</h1></header>
            <section class={`list ${held && held.place !== at ? 'old' : ''}`} aria-label={list.title}>
                <Filters name={name} list={list} place={place} />
                {!held ? <Waiting rows={10} /> : (
                    <>
                        <PartialErrors errors={held.loaded.errors} />
                        {held.loaded.rows.length ? (
                            <div class="table-frame">
                                <table class="listing">
                                    <caption class="hidden">{list.title}</caption>
                                    <thead><tr>{list.heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
                                    <tbody>{held.loaded.rows.map((row) => <tr key={row.key} data-row>{row.cells().map((cell, i) => <td key={list.heads[i]} data-name={list.heads[i]}>{cell}</td>)}</tr>)}</tbody>
                                </table>
                            </div>
                        ) : <Empty title={isFiltered ? 'Nothing matches' : `No ${list.noun === 'entry' ? 'entries' : `${list.noun}s`}`}><p>{isFiltered ? <a href={href(`ui/${name}`)}>Show all</a> : list.empty}</p></Empty>}
                        <nav class="pager" aria-label="Pages">
                            <span class="quiet" role="status">{count(held.loaded.rows.length, list.noun, list.noun === 'entry' ? 'entries' : `${list.noun}s`)}{held.loaded.next || held.loaded.previous ? ' on this page' : ''}</span>
                            <span>
                                {held.loaded.previous && <a class="button" data-previous href={href(pathOf(name, list, {...place, after: '', before: held.loaded.previous}))}>Previous</a>}
                                {held.loaded.next && <a class="button" data-next href={href(pathOf(name, list, {...place, before: '', after: held.loaded.next}))}>Next</a>}
                            </span>
                        </nav>
                    </>
                )}
            </section>
        </>
    );
}
