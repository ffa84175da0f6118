// A new runtime, step by step: its name, its token, the commands for its cluster, and its agent's arrival.
import {useState} from 'preact/hooks';
import {request, RequestError, signedIn} from '../api.ts';
import {Held} from '../held.ts';
import {Copy, Secret} from '../once.tsx';
import {Connection, Empty, type RuntimeRef} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {href} from '../router.ts';
import {runtimePath} from '../url.ts';
import {causeOf} from '../words.ts';

interface Made {
    name: string;
    namespace: string;
    tunnel: string;
    token: string;
}

const creation = `mutation Install($args: RuntimeInstallationArgs!) { createRuntime(installationArgs: $args) { name newAccessToken } }`;

function commands({name, namespace, tunnel}: Made): string {
    return [
        `kubectl -n ${namespace} create secret generic culvert-agent-token --from-file=token`,
        `helm install culvert-agent deploy/charts/culvert-agent -n ${namespace} \\`,
        `  --set global.runtime.name=${name} \\`,
        `  --set platform.url=${tunnel} \\`,
        '  --set runtimeToken.existingSecret=culvert-agent-token',
    ].join('\n');
}

// What may stand in a command as it is.
const names = '[a-z0-9]([a-z0-9\\-]{0,61}[a-z0-9])?';
const addresses = 'wss://[A-Za-z0-9.\\-]+(:[0-9]{1,5})?(\\/[A-Za-z0-9._~\\-\\/]*)?';

function Form({onMade}: {onMade: (made: Made) => void}) {
    const [problem, setProblem] = useState('');
    const [isBusy, setBusy] = useState(false);
    const onSubmit = (event: SubmitEvent) => {
        event.preventDefault();
        if (isBusy) return;
        const form = new FormData(event.currentTarget as HTMLFormElement);
        const given = (field: string) => form.get(field)?.toString().trim() ?? '';
        const [name, namespace, tunnel] = [given('name'), given('namespace'), given('tunnel')];
        const args = {runtimeName: name, runtimeNamespace: namespace, cluster: 'https://kubernetes.default.svc', installationType: 'HELM', managed: false, runtimeVersion: signedIn.value?.version ?? '', componentNames: [], accessMode: 'TUNNEL'};
        setProblem('');
        setBusy(true);
        request<{createRuntime: {newAccessToken: string}}>(creation, {args})
            .then(({data}) => onMade({name, namespace, tunnel, token: data.createRuntime.newAccessToken}))
            .catch((error: unknown) => setProblem(error instanceof RequestError ? error.message : String(error)))
            .finally(() => setBusy(false));
    };
    return (
        <form class="form step" onSubmit={onSubmit}>
            <label>Name of the runtime <input name="name" required pattern={names} maxLength={63} autocomplete="off" aria-describedby="name-help" /></label>
            <p id="name-help" class="quiet">As eu-1: lower-case letters, digits and hyphens. It stands beside everything that comes from this cluster.</p>
            <label>Namespace of Argo CD <input name="namespace" required pattern={names} maxLength={63} defaultValue="argocd" autocomplete="off" /></label>
            <label>Address of the tunnel listener <input name="tunnel" required pattern={addresses} maxLength={300} defaultValue={`wss://${location.hostname}`} autocomplete="off" aria-describedby="tunnel-help" /></label>
            <p id="tunnel-help" class="quiet">Where the cluster reaches Culvert, with its port when that is not 443.</p>
            {problem && <p class="invalid" role="alert">{problem}</p>}
            <p><button type="submit" class="primary" aria-disabled={isBusy ? 'true' : undefined}>Create the runtime</button></p>
        </form>
    );
}

const seen = new Held<RuntimeRef & {online: boolean; agentVersion: string | null; name: string}>();

function Arrival({name}: {name: string}) {
    useWatch(seen, async (cancel) => {
        const {data} = await request<{runtime: Omit<NonNullable<typeof seen.value>, 'name'> | null}>('query Arrival($name: String!) { runtime(name: $name) { metadata { name } online freshness lagSeconds since disconnectCause agentVersion } }', {name}, cancel);
        seen.value = data.runtime && {...data.runtime, name};
    }, name);
    const runtime = seen.value?.name === name ? seen.value : null;
    if (!runtime) return <p role="status">Waiting for the agent of {name}.</p>;
    if (runtime.online) return <p role="status" data-arrived><Connection runtime={runtime} /> The agent {runtime.agentVersion ?? ''} is connected. <a href={href(runtimePath(name))}>Open the runtime</a></p>;
    const cause = causeOf(runtime.disconnectCause);
    return <p role="status">Waiting for the agent of {name}: {cause.what}.</p>;
}

export function Install() {
    const [made, setMade] = useState<Made | null>(null);
    const head = <header class="page-head"><p class="crumbs"><a href={href('ui/runtimes')}>Runtimes</a> /</p><h1>Add a runtime</h1></header>;
    if (!signedIn.value?.isAdmin) return <>{head}<Empty title="An admin of the account adds runtimes"><p>You may see those that there are. <a href={href('ui/runtimes')}>Runtimes</a></p></Empty></>;
    if (!made) return <>{head}<section class="panel" aria-labelledby="step-1"><h2 id="step-1">1. Name it</h2><Form onMade={setMade} /></section></>;
    return (
        <>
            {head}
            <section class="panel" aria-labelledby="step-2">
                <h2 id="step-2">2. Keep its token in a file named “token”</h2>
                <Secret title={`The token of ${made.name}.`} token={made.token} />
            </section>
            <section class="panel" aria-labelledby="step-3">
                <h2 id="step-3">3. Install the agent in the cluster</h2>
                <p>In the folder with that file and a clone of Culvert. The agent only reads, until you permit more.</p>
                <pre class="code" tabIndex={0} aria-label="Commands">{commands(made)}</pre>
                <p><Copy text={commands(made)} label="Copy the commands" /></p>
            </section>
            <section class="panel" aria-labelledby="step-4">
                <h2 id="step-4">4. Its arrival</h2>
                <Arrival name={made.name} />
            </section>
        </>
    );
}
