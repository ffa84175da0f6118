// Runtimes: how each is connected, how far behind it is, what keeps it from seeing its cluster.
import {link, request, signedIn} from '../api.ts';
import {Held} from '../held.ts';
import {Icon} from '../icons.tsx';
import {Age, Connection, Empty, type Finding, Findings, PartialErrors, type RuntimeRef, State, Waiting} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {href} from '../router.ts';
import {absolute, duration, now} from '../time.ts';
import {freshnessClass} from '../tone.ts';
import {runtimePath} from '../url.ts';
import {causeOf, count} from '../words.ts';

interface Runtime extends RuntimeRef {
    metadata: {name: string; namespace: string | null; created: string | null};
    cluster: string | null;
    online: boolean;
    lastSeenAt: string | null;
    healthMessage: string | null;
    agentVersion: string | null;
    runtimeVersion: string | null;
    tunnelEpoch: number | null;
    managedClustersNum: number;
    errors: (Finding | null)[];
    noisyObjects: {kind: string; namespace: string | null; name: string; changesPerMinute: number; firstSeen: string}[];
    status: {argoCdState: string};
}

const fields = `metadata { name namespace created } cluster online freshness lagSeconds lastSeenAt since disconnectCause healthMessage agentVersion
  runtimeVersion tunnelEpoch managedClustersNum errors { level title message suggestion lastSeen }
  noisyObjects { kind namespace name changesPerMinute firstSeen } status { argoCdState }`;

const order = {disconnected: 0, stale: 1, lagging: 2, live: 3};
const shown = new Held<{runtimes: Runtime[]; errors: {message: string}[]}>();

const query = `query Runtimes { runtimes(pagination: {first: 100}) { edges { node { ${fields} } } } }`;

async function load(cancel: AbortSignal): Promise<void> {
    const {data, errors} = await request<{runtimes: {edges: {node: Runtime}[]}}>(query, {}, cancel);
    const runtimes = data.runtimes.edges.map((edge) => edge.node);
    runtimes.sort((a, b) => order[a.freshness] - order[b.freshness] || a.metadata.name.localeCompare(b.metadata.name));
    shown.value = {runtimes, errors};
}

function lag(runtime: Runtime): string {
    if (!runtime.online || runtime.lagSeconds === null) return 'unknown';
    return runtime.lagSeconds < 1 ? 'under 1 s' : duration(runtime.lagSeconds * 1000);
}

// Connected since when, or why not and what helps.
function Cause({runtime}: {runtime: Runtime}) {
    if (runtime.online) return <>connected{runtime.since ? <> for {duration(now.value - Date.parse(runtime.since))}</> : ''}</>;
    const cause = causeOf(runtime.disconnectCause);
    return <>not connected{runtime.since ? <> for {duration(now.value - Date.parse(runtime.since))}</> : ''}: {cause.what}</>;
}

export function Runtimes() {
    useWatch(shown, load, '');
    const at = shown.value;
    return (
        <>
            <header class="page-head bar"><h1>Runtimes</h1>{signedIn.value?.isAdmin && <a class="button" href={href('ui/install')}>Add a runtime</a>}</header>
            {!at ? <Waiting /> : (
                <>
                    <PartialErrors errors={at.errors} />
                    {at.runtimes.length ? (
                        <ul class="cards">
                            {at.runtimes.map((one) => (
                                <li key={one.metadata.name} class="card" data-row>
                                    <div class="card-head"><h2><a href={href(runtimePath(one.metadata.name))}>{one.metadata.name}</a></h2><Connection runtime={one} /></div>
                                    <p class="quiet"><Cause runtime={one} /></p>
                                    <dl class="pairs">
                                        <dt>Behind</dt><dd>{lag(one)}</dd>
                                        <dt>Clusters</dt><dd>{one.managedClustersNum}</dd>
                                        <dt>Agent</dt><dd>{one.agentVersion ?? 'unknown'}</dd>
                                    </dl>
                                    {one.errors.length > 0 && <p class="note"><Icon name="warn" /> {count(one.errors.length, 'finding')}</p>}
                                </li>
                            ))}
                        </ul>
                    ) : <Empty title="No runtimes yet"><p>A runtime is one cluster with Argo CD. {signedIn.value?.isAdmin ? <a href={href('ui/install')}>Add the first one</a> : 'An admin of the account adds one.'}</p></Empty>}
                </>
            )}
        </>
    );
}

function Status({runtime}: {runtime: Runtime}) {
    const cause = causeOf(runtime.disconnectCause);
    return (
        <>
            {!runtime.online && (
                <section class={`why ${freshnessClass('disconnected', link.value)}`} aria-label="Why">
                    <h2><Icon name="link" /> Not connected{runtime.since ? <> since {absolute(runtime.since)}</> : ''}</h2>
                    <p class="why-detail">{cause.what.charAt(0).toUpperCase() + cause.what.slice(1)} (<code>{runtime.disconnectCause ?? 'UNKNOWN'}</code>).</p>
                    <p class="cure">{cause.next}</p>
                </section>
            )}
            <dl class="facts">
                <div class="fact"><dt>Connection</dt><dd><Connection runtime={runtime} /><span class="quiet block">{runtime.online ? <>for {duration(now.value - Date.parse(runtime.since ?? ''))}</> : <>last seen <Age time={runtime.lastSeenAt} /></>}</span></dd></div>
                <div class="fact"><dt>Behind its cluster</dt><dd>{lag(runtime)}</dd></div>
                <div class="fact"><dt>Argo CD</dt><dd>{runtime.status.argoCdState === 'CONNECTED' ? <State state="ONLINE" freshness={runtime.freshness} /> : runtime.status.argoCdState.toLowerCase().replaceAll('_', ' ')}</dd></div>
                <div class="fact"><dt>Agent</dt><dd>{runtime.agentVersion ?? 'unknown'}<span class="quiet block">{runtime.tunnelEpoch ? `connection ${runtime.tunnelEpoch}` : ''}</span></dd></div>
                <div class="fact"><dt>Cluster</dt><dd class="breaks">{runtime.cluster ?? 'unknown'}<span class="quiet block">{count(runtime.managedClustersNum, 'cluster')}</span></dd></div>
                <div class="fact"><dt>Applications</dt><dd><a href={href(`ui/apps?runtime=${encodeURIComponent(runtime.metadata.name)}`)}>Show them</a></dd></div>
            </dl>
        </>
    );
}

export function RuntimePage({name}: {name: string}) {
    useWatch(shown, load, '');
    const at = shown.value;
    const runtime = at?.runtimes.find((one) => one.metadata.name === name);
    const head = <header class="page-head"><p class="crumbs"><a href={href('ui/runtimes')}>Runtimes</a> /</p><h1>{name}</h1></header>;
    if (!at) return <>{head}<Waiting /></>;
    if (!runtime) return <>{head}<Empty title="There is no such runtime"><p>It was deleted, or you may not see it.</p></Empty></>;
    return (
        <>
            {head}
            <PartialErrors errors={at.errors} />
            <Status runtime={runtime} />
            <section aria-labelledby="findings">
                <h2 id="findings">Findings</h2>
                {runtime.errors.length ? <Findings findings={runtime.errors} freshness={runtime.freshness} /> : <p class="quiet">None: the agent reads everything that it should.</p>}
            </section>
            {runtime.noisyObjects.length > 0 && (
                <section aria-labelledby="noisy">
                    <h2 id="noisy">Objects that change too often</h2>
                    <div class="table-frame">
                        <table>
                            <thead><tr><th scope="col">Object</th><th scope="col">Changes a minute</th><th scope="col">Since</th></tr></thead>
                            <tbody>{runtime.noisyObjects.map((one) => <tr key={`${one.kind}/${one.namespace}/${one.name}`}><td><span class="kind">{one.kind}</span> {one.namespace ? `${one.namespace}/` : ''}{one.name}</td><td>{one.changesPerMinute.toFixed(1)}</td><td><Age time={one.firstSeen} /></td></tr>)}</tbody>
                        </table>
                    </div>
                </section>
            )}
        </>
    );
}
