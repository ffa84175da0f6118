// One application: why it is not well, its resources, what was deployed, what is wrong.
import {signal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {Actions, rollbackTo} from '../actions.tsx';
import {link, request} from '../api.ts';
import {Held} from '../held.ts';
import {Icon} from '../icons.tsx';
import {Age, AsOf, Empty, type Finding, Findings, PartialErrors, Result, type RuntimeRef, RuntimeLink, State, Waiting} from '../parts.tsx';
import {follow} from '../live.ts';
import {reloadSoon, useWatch} from '../poll.ts';
import {go, href, listSearch, search} from '../router.ts';
import {absolute, duration} from '../time.ts';
import {type Freshness, severity, toneClass} from '../tone.ts';
import {applicationPath} from '../url.ts';
import {eventFields, type KubernetesEvent, Warnings} from './kubernetes_events.tsx';
import {nodeKey, ResourcePanel} from './resource.tsx';
import {Timeline, type Transition, transitionFields} from './timeline.tsx';
import {type TreeNode, why, type WhyInput} from '../why.ts';
import {clusterName, count, firstLine, repositoryName, safeUrl, shortRevision, stateWord} from '../words.ts';

interface Application extends WhyInput {
    metadata: {name: string; namespace: string | null; runtime: string; created: string | null};
    errors: (Finding | null)[];
    resourcesNotRead: {message: string; suggestion: string | null} | null;
    syncing: boolean;
    destination: {server: string | null; name: string | null; namespace: string | null} | null;
    projects: string[] | null;
    applicationSet: string | null;
    specSource: {repoURL: string; path: string | null; targetRevision: string | null; chart: string | null} | null;
    isMultiSourced: boolean | null;
    sync: {revision: string | null} | null;
    operationState: (WhyInput['operationState'] & {startedAt: string; finishedAt: string | null}) | null;
    receivedAt: string | null;
    transitions: Transition[];
    events: KubernetesEvent[];
}

interface Release {
    historyId: number;
    argoHistoryId: number | null;
    deployedAt: string | null;
    initiator: string | null;
    automated: boolean;
    result: string;
    current: boolean;
    syncOperationRevision: string;
    operationState: {message: string | null; startedAt: string; finishedAt: string | null} | null;
    commit: {author: string | null; message: string | null; url: string | null} | null;
    images: (string | null)[] | null;
    manifestsDigest: string | null;
}

interface Page {
    application: Application | null;
    resourceTree: {nodes: (TreeNode | null)[] | null} | null;
    gitopsReleases: {edges: {node: Release}[]; pageInfo: {hasNextPage: boolean}};
    runtime: RuntimeRef | null;
}

const releaseCount = 30;
const nodesShown = 300;

const query = `query Application($runtime: String!, $name: String!, $namespace: String, $releases: GitopsReleaseFilterArgs) {
  application(runtime: $runtime, name: $name, namespace: $namespace) {
    metadata { name namespace runtime created } healthStatus healthMessage syncStatus syncing errors { level title message suggestion lastSeen } resourcesNotRead { message suggestion }
    destination { server name namespace } projects applicationSet specSource { repoURL path targetRevision chart } isMultiSourced sync { revision }
    operationState { phase startedAt finishedAt message syncResult { resources { kind name namespace message status hookPhase } } }
    syncPolicy freshness receivedAt ${transitionFields} events { ${eventFields} }
  }
  resourceTree(runtime: $runtime, name: $name, namespace: $namespace) { nodes {
    group kind namespace name uid cluster parentRefs { uid } createdAt images health { status message } status presence missingRight { message } requiresPruning freshness
  } }
  gitopsReleases(pagination: {first: ${releaseCount}}, filters: $releases) { edges { node {
    historyId argoHistoryId deployedAt initiator automated result current syncOperationRevision operationState { message startedAt finishedAt }
    commit { author message url } images manifestsDigest
  } } pageInfo { hasNextPage } }
  runtime(name: $runtime) { metadata { name } freshness lagSeconds since disconnectCause }
}`;

// What is shown is more than the application: a change of it says that there is something new.
const changes = `subscription Application($runtime: String!, $namespace: String!, $name: String!) {
  application(runtime: $runtime, namespace: $namespace, name: $name) { reset removed deltas { id node { sequence receivedAt freshness } } }
}`;

const shown = new Held<{key: string; page: Page; errors: {message: string}[]}>();
const folded = signal<ReadonlySet<string>>(new Set());

type Tab = 'state' | 'history' | 'errors';

function tabOf(params: URLSearchParams): Tab {
    const tab = params.get('tab');
    return tab === 'history' || tab === 'errors' ? tab : 'state';
}

function Fact({name, children}: {name: string; children: preact.ComponentChildren}) {
    return <div class="fact"><dt>{name}</dt><dd>{children}</dd></div>;
}

function Facts({app, runtime}: {app: Application; runtime: RuntimeRef | undefined}) {
    const source = app.specSource;
    const operation = app.operationState;
    return (
        <dl class="facts">
            <Fact name="Health"><State state={app.healthStatus} freshness={app.freshness} /></Fact>
            <Fact name="Git">
                <State state={app.syncing ? 'SYNCING' : app.syncStatus} freshness={app.freshness} />
                <span class="quiet block">{source?.targetRevision || 'HEAD'} → <code title={app.sync?.revision ?? ''}>{shortRevision(app.sync?.revision) || 'unknown'}</code></span>
            </Fact>
            <Fact name="Last operation">
                {operation ? <><Result result={operation.phase} /><span class="quiet block"><Age time={operation.finishedAt ?? operation.startedAt} /></span></> : <span class="quiet">none</span>}
            </Fact>
            <Fact name="As of"><AsOf freshness={app.freshness} seen={app.receivedAt} runtime={runtime} /><span class="quiet block">{absolute(app.receivedAt)}</span></Fact>
            <Fact name="Runtime"><RuntimeLink name={app.metadata.runtime} /><span class="quiet block">{[clusterName(app.destination?.name ?? app.destination?.server), app.destination?.namespace].filter(Boolean).join(' / ')}</span></Fact>
            <Fact name="Source">
                <span title={source?.repoURL ?? ''}>{repositoryName(source?.repoURL)}</span>
                <span class="quiet block">{app.isMultiSourced ? 'several sources' : (source?.path ?? source?.chart ?? '')}</span>
            </Fact>
            <Fact name="Project">{app.projects?.[0] ?? ''}<span class="quiet block">{app.syncPolicy === 'Automated' ? 'auto-sync' : app.syncPolicy === 'Manual' ? 'manual sync' : ''}{app.applicationSet ? `, from set ${app.applicationSet}` : ''}</span></Fact>
        </dl>
    );
}

function WhyBox({app, nodes, runtime}: {app: Application; nodes: TreeNode[]; runtime: RuntimeRef | null}) {
    const found = why(app, nodes, runtime && {name: runtime.metadata.name, disconnectCause: runtime.disconnectCause}, link.value);
    if (!found) return null;
    return (
        <section class={`why ${toneClass(found.state, app.freshness, link.value)}`} aria-label="Why">
            <h2><Icon name="warn" /> {found.title}</h2>
            {found.detail && <p class="why-detail">{found.detail}</p>}
            {app.healthStatus !== 'HEALTHY' && <Warnings events={app.events} />}
            {found.next && <p class="cure">{found.next}</p>}
        </section>
    );
}

// ---- resources -----------------------------------------------------------------------------

interface Placed {
    node: TreeNode;
    depth: number;
    children: number;
}

// Depth first, children by kind and name; what hangs on nothing that is known is at the top.
function asTree(nodes: TreeNode[]): Placed[] {
    const uids = new Set(nodes.map((node) => node.uid).filter(Boolean));
    const children = new Map<string, TreeNode[]>();
    for (const node of nodes) {
        const parent = node.parentRefs?.[0]?.uid;
        const under = parent && uids.has(parent) && parent !== node.uid ? parent : '';
        children.set(under, [...(children.get(under) ?? []), node]);
    }
    const placed: Placed[] = [];
    const seen = new Set<TreeNode>();
    const add = (under: string, depth: number) => {
        for (const node of children.get(under) ?? []) {
            if (seen.has(node)) continue;
            seen.add(node);
            const below = node.uid ? (children.get(node.uid) ?? []) : [];
            placed.push({node, depth, children: below.length});
            if (node.uid && !folded.value.has(node.uid)) add(node.uid, depth + 1);
        }
    };
    add('', 0);
    return placed;
}

function asList(nodes: TreeNode[]): Placed[] {
    return [...nodes]
        .sort((a, b) => severity(a.health?.status) - severity(b.health?.status) || severity(a.status) - severity(b.status) || `${a.kind}/${a.name}`.localeCompare(`${b.kind}/${b.name}`))
        .map((node) => ({node, depth: 0, children: 0}));
}

function fold(uid: string): void {
    const next = new Set(folded.peek());
    if (!next.delete(uid)) next.add(uid);
    folded.value = next;
}

const presences = {PRESENT: '', MISSING: 'not in the cluster', UNREADABLE: 'may not be read', UNKNOWN_KIND: 'unknown kind'};

function Resource({placed, freshness, link: to}: {placed: Placed; freshness: Freshness; link: string}) {
    const {node, depth, children} = placed;
    const own = node.freshness ?? freshness;
    const note = node.health?.message || node.missingRight?.message || '';
    const isFolded = node.uid ? folded.value.has(node.uid) : false;
    return (
        <tr data-row>
            <td class="c-resource">
                <div class="indent" style={{'--depth': String(Math.min(depth, 8))}}>
                    {children > 0 && node.uid ? (
                        <button type="button" class="fold" aria-expanded={!isFolded} aria-label={`${isFolded ? 'Show' : 'Hide'} what belongs to ${node.kind} ${node.name}`} onClick={() => fold(node.uid!)}>
                            {isFolded ? '+' : '−'}
                        </button>
                    ) : <span class="fold" />}
                    <span class="resource-name"><span class="kind">{node.kind}</span> <a href={href(to)} title={`${node.namespace ?? ''}/${node.name}`}>{node.name}</a>{isFolded && <span class="quiet"> and {count(children, 'more', 'more')}</span>}</span>
                </div>
                {note && <p class="resource-note" style={{'--depth': String(Math.min(depth, 8))}}>{note}</p>}
            </td>
            <td class="c-health">{node.health?.status ? <State state={node.health.status} freshness={own} /> : <span class="quiet">no health</span>}</td>
            <td class="c-sync">
                {node.presence !== 'PRESENT' ? <span class="quiet">{presences[node.presence]}</span> : node.status && node.status !== 'UNKNOWN' ? <State state={node.status} freshness={own} /> : ''}
                {node.requiresPruning && <span class="quiet block">no longer in Git</span>}
            </td>
            <td class="c-namespace">{node.namespace}</td>
            <td class="c-images"><span title={(node.images ?? []).join('\n')}>{(node.images ?? []).filter(Boolean).map((image) => image!.split('/').pop()).join(', ')}</span></td>
            <td class="c-age"><Age time={node.createdAt} /></td>
        </tr>
    );
}

function Resources({nodes, app, params}: {nodes: TreeNode[]; app: Application; params: URLSearchParams}) {
    const view = params.get('view') === 'list' ? 'list' : 'tree';
    const wanted = params.get('show') === 'problems' ? 'problems' : 'all';
    const isProblem = (node: TreeNode) => (node.health?.status && node.health.status.toUpperCase() !== 'HEALTHY') || node.status === 'OUT_OF_SYNC' || node.presence !== 'PRESENT';
    const chosen = wanted === 'problems' ? nodes.filter(isProblem) : nodes;
    const placed = view === 'tree' && wanted === 'all' ? asTree(nodes) : asList(chosen);
    const to = (change: Record<string, string>) => {
        const next = new URLSearchParams(params);
        for (const [key, value] of Object.entries(change)) value ? next.set(key, value) : next.delete(key);
        return `${applicationPath(app.metadata.runtime, app.metadata.namespace, app.metadata.name)}${next.size ? `?${next}` : ''}`;
    };
    const problems = nodes.filter(isProblem).length;
    const open = nodes.find((node) => nodeKey(node) === params.get('node'));
    return (
        <section aria-label="Resources">
            {app.resourcesNotRead && <p class="cure" role="note">{app.resourcesNotRead.message} {app.resourcesNotRead.suggestion}</p>}
            {open && <ResourcePanel node={open} isElsewhere={open.cluster !== nodes[0]!.cluster} runtime={app.metadata.runtime} freshness={app.freshness} params={params} base={applicationPath(app.metadata.runtime, app.metadata.namespace, app.metadata.name)} />}
            <div class="bar">
                <div class="segments" role="group" aria-label="View">
                    <a href={href(to({view: '', show: ''}))} aria-current={view === 'tree' && wanted === 'all' ? 'true' : undefined}>Tree</a>
                    <a href={href(to({view: 'list', show: ''}))} aria-current={view === 'list' && wanted === 'all' ? 'true' : undefined}>List, worst first</a>
                    <a href={href(to({show: 'problems'}))} aria-current={wanted === 'problems' ? 'true' : undefined}>Only what is not well ({problems})</a>
                </div>
                <span class="quiet">{count(nodes.length, 'resource')}</span>
            </div>
            {placed.length ? (
                <div class="table-frame">
                    <table class="resources">
                        <caption class="hidden">Resources</caption>
                        <thead><tr><th scope="col">Resource</th><th scope="col" class="c-health">Health</th><th scope="col" class="c-sync">Git</th><th scope="col" class="c-namespace">Namespace</th><th scope="col" class="c-images">Images</th><th scope="col" class="c-age">Age</th></tr></thead>
                        <tbody>{placed.slice(0, nodesShown).map((one, i) => <Resource key={one.node.uid ?? `${one.node.kind}/${one.node.namespace}/${one.node.name}/${i}`} placed={one} freshness={app.freshness} link={to({node: nodeKey(one.node)})} />)}</tbody>
                    </table>
                </div>
            ) : <Empty title={wanted === 'problems' ? 'Nothing is wrong with the resources' : 'No resources are known'} />}
            {placed.length > nodesShown && <p class="quiet">The first {nodesShown} of {placed.length} are shown; “worst first” and “only what is not well” bring the others up.</p>}
        </section>
    );
}

// ---- history -------------------------------------------------------------------------------

function OneRelease({release, before, app}: {release: Release; before: Release | undefined; app: Application}) {
    const {commit, operationState: operation} = release;
    const url = safeUrl(commit?.url);
    const took = operation?.finishedAt ? Date.parse(operation.finishedAt) - Date.parse(operation.startedAt) : null;
    const old = new Set(before?.images ?? []);
    const images = (release.images ?? []).filter((image) => image && (!before || !old.has(image)));
    const same = before?.manifestsDigest && before.manifestsDigest === release.manifestsDigest;
    return (
        <li class="release">
            <div class="release-head">
                <Result result={release.result} />
                <strong>#{release.historyId}</strong>
                {release.current && <span class="badge">runs now</span>}
                <span class="quiet"><Age time={release.deployedAt} /> · {absolute(release.deployedAt)}{took !== null && took >= 0 ? ` · took ${duration(took)}` : ''}</span>
            </div>
            <p>
                {release.initiator ? <>by <b>{release.initiator}</b></> : release.automated ? <>auto-sync{commit?.author ? <> after a commit by <b>{commit.author}</b></> : ''}</> : 'by an unknown person'}
                {' · '}
                {url ? <a href={url} rel="noopener noreferrer" target="_blank"><code>{shortRevision(release.syncOperationRevision)}</code> ({new URL(url).host})</a> : <code title={release.syncOperationRevision}>{shortRevision(release.syncOperationRevision)}</code>}
                {commit?.message ? <> {firstLine(commit.message)}</> : ''}
            </p>
            {images.length > 0 && <p class="quiet images">{before ? 'new: ' : ''}{images.join(', ')}</p>}
            {same && <p class="quiet">The same manifests as #{before.historyId}.</p>}
            {['Failed', 'Error'].includes(release.result) && operation?.message && <p class="release-message">{operation.message}</p>}
            {!release.current && release.argoHistoryId !== null && app.metadata.namespace && <Actions target={targetOf(app)} only={(id) => id.startsWith('APP_ROLLBACK')} extra={[rollbackTo(release.argoHistoryId, `#${release.historyId}`)]} />}
        </li>
    );
}

function targetOf(app: Application) {
    return {runtime: app.metadata.runtime, namespace: app.metadata.namespace ?? '', name: app.metadata.name, kind: 'Application', group: 'argoproj.io'};
}

function History({page, app}: {page: Page; app: Application}) {
    const releases = page.gitopsReleases.edges.map((edge) => edge.node);
    if (!releases.length) return <><Empty title="Nothing was deployed yet" /><Timeline changes={app.transitions} /></>;
    return (
        <><section aria-label="History">
            <ol class="releases">{releases.map((one, i) => <OneRelease key={one.historyId} release={one} before={releases[i + 1]} app={app} />)}</ol>
            {page.gitopsReleases.pageInfo.hasNextPage && <p class="quiet">The newest {releaseCount} deployments.</p>}
        </section>
        <Timeline changes={app.transitions} /></>
    );
}

// ---- the page ------------------------------------------------------------------------------

function Tabs({app, tab}: {app: Application; tab: Tab}) {
    const base = applicationPath(app.metadata.runtime, app.metadata.namespace, app.metadata.name);
    const names: [Tab, string][] = [['state', 'State'], ['history', 'History'], ['errors', `Findings (${app.errors.length})`]];
    return (
        <nav class="tabs" aria-label="Parts of the application">
            {names.map(([id, name]) => <a key={id} href={href(id === 'state' ? base : `${base}?tab=${id}`)} aria-current={id === tab ? 'page' : undefined}>{name}</a>)}
        </nav>
    );
}

export function ApplicationPage({runtime, namespace, name}: {runtime: string; namespace: string; name: string}) {
    const key = `${runtime}/${namespace}/${name}`;
    const inNamespace = namespace === '-' ? null : namespace;
    useEffect(() => void (folded.value = new Set()), [key]);
    const load = async (cancel: AbortSignal) => {
        const releases = {runtime, name, ...(inNamespace ? {namespace: inNamespace} : {})};
        const {data, errors} = await request<Page>(query, {runtime, name, namespace: inNamespace, releases}, cancel);
        shown.value = {key, page: data, errors};
        if (inNamespace) follow(changes, {runtime, namespace: inNamespace, name}, false, (change) => change.reset || reloadSoon());
    };
    useWatch(shown, load, key);
    const params = new URLSearchParams(search.value);
    const at = shown.value?.key === key ? shown.value : null;
    const app = at?.page.application;
    const head = (
        <header class="page-head">
            <p class="crumbs"><a href={href(`ui/apps${listSearch.value}`)}>Applications</a> / {inNamespace ?? ''}</p>
            <h1>{name}</h1>
        </header>
    );
    if (!at) return <>{head}<Waiting /></>;
    if (!app)
        return <>{head}<PartialErrors errors={at.errors} /><Empty title="There is no such application"><p>It was deleted, or you may not see it. Runtime {runtime}, namespace {inNamespace ?? 'none'}.</p><p><button type="button" onClick={() => go('ui/apps')}>All applications</button></p></Empty></>;
    const nodes = (at.page.resourceTree?.nodes ?? []).filter((node): node is TreeNode => node !== null);
    const tab = tabOf(params);
    return (
        <>
            {head}
            <PartialErrors errors={at.errors} />
            {app.metadata.namespace && <Actions target={targetOf(app)} only={(id) => id !== 'TERMINATE_SYNC' || ['Running', 'Terminating'].includes(app.operationState?.phase ?? '')} />}
            <WhyBox app={app} nodes={nodes} runtime={at.page.runtime} />
            <Facts app={app} runtime={at.page.runtime ?? undefined} />
            <Tabs app={app} tab={tab} />
            {tab === 'state' && <Resources nodes={nodes} app={app} params={params} />}
            {tab === 'history' && <History page={at.page} app={app} />}
            {tab === 'errors' && (app.errors.length ? <Findings findings={app.errors} freshness={app.freshness} /> : <Empty title="No findings"><p>Health: {stateWord(app.healthStatus)}.</p></Empty>)}
        </>
    );
}

