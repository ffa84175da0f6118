// Home: is anything wrong? What needs a person, the fleet in figures, runtimes, the last changes.
import {link, request, signedIn} from '../api.ts';
import {Held} from '../held.ts';
import {Age, Connection, Empty, PartialErrors, Result, type RuntimeRef, State, Waiting} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {href} from '../router.ts';
import {type Freshness, isKnown, severity, toneClass} from '../tone.ts';
import {applicationPath, runtimePath} from '../url.ts';
import {causeOf, count, healthStates, shortRevision, stateWord} from '../words.ts';

interface Brief {
    metadata: {name: string; namespace: string | null; runtime: string};
    healthStatus: string | null;
    syncStatus: string;
    freshness: Freshness;
    operationState: {phase: string; finishedAt: string | null} | null;
}
interface Release {
    applicationMetadata: {name: string; namespace: string | null; runtime: string};
    historyId: number;
    deployedAt: string | null;
    initiator: string | null;
    automated: boolean;
    result: string;
    syncOperationRevision: string;
}
interface Page {
    applications: {edges: {node: Brief}[]; pageInfo: {hasNextPage: boolean}};
    worst: {edges: {node: Brief}[]; pageInfo: {hasNextPage: boolean}};
    runtimes: {edges: {node: RuntimeRef & {errors: ({level: string; title: string} | null)[]}}[]};
    gitopsReleases: {edges: {node: Release}[]};
    limitsStatus: {usage: {applications: number | null}} | null;
}

// There are no totals in the API: the first ones are counted, and the page says so beyond them.
const counted = 500;
const worstShown = 8;

const brief = 'metadata { name namespace runtime } healthStatus syncStatus freshness operationState { phase finishedAt }';
const query = `query Home {
  applications(pagination: {first: ${counted}}) { edges { node { ${brief} } } pageInfo { hasNextPage } }
  worst: applications(pagination: {first: ${worstShown}}, filters: {healthStatuses: [DEGRADED, MISSING]}) { edges { node { ${brief} } } pageInfo { hasNextPage } }
  runtimes(pagination: {first: 100}) { edges { node { metadata { name } freshness lagSeconds since disconnectCause errors { level title } } } }
  gitopsReleases(pagination: {first: 10}) { edges { node { applicationMetadata { name namespace runtime } historyId deployedAt initiator automated result syncOperationRevision } } }
  limitsStatus { usage { applications } }
}`;

const shown = new Held<{page: Page; errors: {message: string}[]}>();

async function load(cancel: AbortSignal): Promise<void> {
    const {data, errors} = await request<Page>(query, {}, cancel);
    shown.value = {page: data, errors};
}

function Fleet({page}: {page: Page}) {
    const all = page.applications.edges.map((edge) => edge.node);
    const known = all.filter((one) => isKnown(one.freshness, link.value));
    const total = page.limitsStatus?.usage.applications ?? null;
    const tally = healthStates.map((state) => ({state, n: known.filter((one) => (one.healthStatus ?? 'UNKNOWN') === state).length})).filter(({n}) => n > 0);
    const outOfSync = known.filter((one) => one.syncStatus === 'OUT_OF_SYNC').length;
    const unknown = all.length - known.length;
    return (
        <section aria-labelledby="fleet" class="panel">
            <h2 id="fleet">Applications <span class="quiet">{page.applications.pageInfo.hasNextPage ? `the first ${counted.toLocaleString('en')}${total ? ` of ${total.toLocaleString('en')}` : ''}` : all.length.toLocaleString('en')}</span></h2>
            <ul class="tally">
                {tally.map(({state, n}) => <li key={state}><a class={toneClass(state, 'live', link.value)} href={href(`ui/apps?health=${state}`)}><b>{n.toLocaleString('en')}</b><span>{stateWord(state)}</span></a></li>)}
                {outOfSync > 0 && <li><a class={toneClass('OUT_OF_SYNC', 'live', link.value)} href={href('ui/apps?sync=OUT_OF_SYNC')}><b>{outOfSync.toLocaleString('en')}</b><span>Out of sync</span></a></li>}
                {unknown > 0 && <li><a class={toneClass(null, 'stale', link.value)} href={href('ui/runtimes')}><b>{unknown.toLocaleString('en')}</b><span>not known now</span></a></li>}
            </ul>
        </section>
    );
}

function NeedsYou({page}: {page: Page}) {
    const away = page.runtimes.edges.map((edge) => edge.node).filter((one) => one.freshness === 'disconnected' || one.freshness === 'stale');
    const failed = page.applications.edges.map((edge) => edge.node).filter((one) => ['Failed', 'Error'].includes(one.operationState?.phase ?? '')).slice(0, worstShown);
    const worst = [...page.worst.edges.map((edge) => edge.node)].sort((a, b) => severity(a.healthStatus) - severity(b.healthStatus));
    const findings = page.runtimes.edges.map((edge) => edge.node).filter((one) => one.errors.length > 0);
    if (!away.length && !worst.length && !failed.length && !findings.length)
        return <section class="panel" aria-labelledby="needs"><h2 id="needs">Needs you</h2><p class="quiet">Nothing is degraded, missing, failed or disconnected.</p></section>;
    return (
        <section class="panel" aria-labelledby="needs">
            <h2 id="needs">Needs you</h2>
            <ul class="lines">
                {away.map((one) => <li key={`r${one.metadata.name}`} data-row><Connection runtime={one} /><span><a href={href(runtimePath(one.metadata.name))}>{one.metadata.name}</a> <span class="quiet">{one.freshness === 'disconnected' ? causeOf(one.disconnectCause).what : 'what is shown of it is old'}</span></span></li>)}
                {worst.map((one) => <li key={`a${one.metadata.runtime}/${one.metadata.namespace}/${one.metadata.name}`} data-row><State state={one.healthStatus} freshness={one.freshness} /><span><a href={href(applicationPath(one.metadata.runtime, one.metadata.namespace, one.metadata.name))}>{one.metadata.name}</a> <span class="quiet">on {one.metadata.runtime}</span></span></li>)}
                {failed.map((one) => <li key={`f${one.metadata.runtime}/${one.metadata.namespace}/${one.metadata.name}`} data-row><Result result={one.operationState?.phase ?? null} /><span><a href={href(applicationPath(one.metadata.runtime, one.metadata.namespace, one.metadata.name))}>{one.metadata.name}</a> <span class="quiet">last operation, <Age time={one.operationState?.finishedAt} /></span></span></li>)}
                {findings.map((one) => <li key={`e${one.metadata.name}`} data-row><State state={one.errors[0]?.level ?? null} freshness={one.freshness} /><span><a href={href(runtimePath(one.metadata.name))}>{one.metadata.name}</a> <span class="quiet">{one.errors[0]?.title}{one.errors.length > 1 ? ` and ${one.errors.length - 1} more` : ''}</span></span></li>)}
            </ul>
            {page.worst.pageInfo.hasNextPage && <p><a href={href('ui/apps?health=DEGRADED&health=MISSING')}>All that are degraded or missing</a></p>}
        </section>
    );
}

export function Home() {
    useWatch(shown, load, '');
    const at = shown.value;
    const head = <header class="page-head"><h1>Home</h1></header>;
    if (!at) return <>{head}<Waiting /></>;
    const {page} = at;
    const runtimes = page.runtimes.edges.map((edge) => edge.node);
    if (!runtimes.length) return <>{head}<Empty title="No runtimes yet"><p>A runtime is one cluster with Argo CD. {signedIn.value?.isAdmin ? <a href={href('ui/install')}>Add the first one</a> : 'An admin of the account adds one'}; this page fills by itself.</p></Empty></>;
    return (
        <>
            {head}
            <PartialErrors errors={at.errors} />
            <div class="home">
                <div class="column">
                <NeedsYou page={page} />
                <section class="panel" aria-labelledby="changes">
                    <h2 id="changes">Last deployments</h2>
                    {page.gitopsReleases.edges.length ? (
                        <ul class="lines">
                            {page.gitopsReleases.edges.map(({node}) => (
                                <li key={`${node.applicationMetadata.runtime}/${node.applicationMetadata.namespace}/${node.applicationMetadata.name}/${node.historyId}`}>
                                    <Result result={node.result} />
                                    <span><a href={href(`${applicationPath(node.applicationMetadata.runtime, node.applicationMetadata.namespace, node.applicationMetadata.name)}?tab=history`)}>{node.applicationMetadata.name}</a> <span class="quiet"><Age time={node.deployedAt} />, {node.initiator ?? (node.automated ? 'auto-sync' : 'unknown')}, <code>{shortRevision(node.syncOperationRevision)}</code></span></span>
                                </li>
                            ))}
                        </ul>
                    ) : <p class="quiet">Nothing was deployed yet.</p>}
                </section>
                </div>
                <div class="column">
                <Fleet page={page} />
                <section class="panel" aria-labelledby="runtimes">
                    <h2 id="runtimes">Runtimes <span class="quiet">{count(runtimes.filter((one) => one.freshness === 'live').length, 'live', 'live')} of {runtimes.length}</span></h2>
                    <ul class="lines">
                        {runtimes.slice(0, 8).map((one) => <li key={one.metadata.name}><Connection runtime={one} /><span><a href={href(runtimePath(one.metadata.name))}>{one.metadata.name}</a> <span class="quiet">{one.freshness === 'live' ? 'up to date' : one.lagSeconds != null && one.freshness !== 'disconnected' ? `${Math.round(one.lagSeconds)} s behind` : causeOf(one.disconnectCause).what}</span></span></li>)}
                    </ul>
                    {runtimes.length > 8 && <p><a href={href('ui/runtimes')}>All {runtimes.length} runtimes</a></p>}
                </section>
                </div>
            </div>
        </>
    );
}
