// The user: who one is, where one is signed in, one's API keys.
import {useState} from 'preact/hooks';
import {ofSessions, request, sessionEnded, signedIn} from '../api.ts';
import {Changes, fieldsOf} from '../changes.ts';
import {Held} from '../held.ts';
import {Secret, Twice} from '../once.tsx';
import {Age, Empty, PartialErrors, Waiting} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {absolute, now} from '../time.ts';

interface Session {
    id: string;
    method: string;
    remote: string;
    userAgent: string;
    createdAt: string;
    lastUsedAt: string;
    expiresAt: string;
}
interface Key {
    id: string;
    name: string;
    tokenPrefix: string;
    scopes: string[];
    createdAt: string;
    expiresAt: string | null;
    lastUsedAt: string | null;
    revokedAt: string | null;
}
interface Content {
    me: {name: string; email: string; activeAccount: {name: string | null} | null};
    myApiKeys: Key[];
}

const shown = new Held<{content: Content; sessions: Session[]; errors: {message: string}[]}>();
const changes = new Changes();

const query = `query Me { me { name email activeAccount { name } } myApiKeys { id name tokenPrefix scopes createdAt expiresAt lastUsedAt revokedAt } }`;

async function load(cancel: AbortSignal): Promise<void> {
    const {data, errors} = await request<Content>(query, {}, cancel);
    const sessions = await ofSessions<Session[]>('GET', '', cancel);
    sessions.sort((a, b) => b.createdAt.localeCompare(a.createdAt)); // an order that stands still while they are used
    shown.value = {content: data, sessions, errors};
}

const methods: Record<string, string> = {link: 'by a link', api_key: 'by an API key', oidc: 'by an identity provider'};

// A browser and its system, as far as it tells them.
function browserOf(agent: string): string {
    const name = /(Edg|OPR|Firefox|HeadlessChrome|Chrome|Safari)\/(\d+)/.exec(agent);
    const system = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(agent);
    return name ? `${name[1] === 'Edg' ? 'Edge' : name[1]} ${name[2]}${system ? ` on ${system[1]}` : ''}` : agent || 'unknown';
}

function Sessions({sessions}: {sessions: Session[]}) {
    return (
        <section aria-labelledby="sessions">
            <h2 id="sessions">Where you are signed in</h2>
            <div class="table-frame">
                <table class="listing">
                    <thead><tr><th scope="col">Browser</th><th scope="col">From</th><th scope="col">Signed in</th><th scope="col">Last used</th><th scope="col">Ends</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                    <tbody>
                        {sessions.map((one) => (
                            <tr key={one.id} data-row>
                                <td data-name="Browser"><span class="breaks" title={one.userAgent}>{browserOf(one.userAgent)}</span></td>
                                <td data-name="From"><code>{one.remote}</code></td>
                                <td data-name="Signed in"><span><Age time={one.createdAt} />, {methods[one.method] ?? one.method}</span></td>
                                <td data-name="Last used"><Age time={one.lastUsedAt} /></td>
                                <td data-name="Ends"><time dateTime={one.expiresAt}>{absolute(one.expiresAt)}</time></td>
                                <td data-name="">{one.id === signedIn.value?.session ? <b>this browser</b> : <Twice name="Sign out" sure="Sign it out" run={async () => void (await changes.run(() => ofSessions('DELETE', one.id)))} />}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
            <p class="below"><Twice name="Sign out everywhere" sure="Sign out everywhere, here too" run={async () => void (await changes.run(async () => { await ofSessions('DELETE'); sessionEnded('You are signed out everywhere.'); }))} /></p>
        </section>
    );
}

const lives: [number, string][] = [[86_400, '1 day'], [2_592_000, '30 days'], [7_776_000, '90 days'], [31_536_000, '1 year']];
const rights: [string, string][] = [['', 'all that you may do'], ['read', 'read'], ['read write', 'read and write'], ['calls', 'call services of clusters'], ['admin', 'administer']];

function NewKey() {
    const [made, setMade] = useState<{name: string; token: string} | null>(null);
    const onSubmit = (event: SubmitEvent) => {
        const {form, text} = fieldsOf(event);
        const scopes = text('scopes').split(' ').filter(Boolean);
        void changes.run(async () => {
            const variables = {name: text('name'), scopes: scopes.length ? scopes : null, life: Number(text('life'))};
            const {data} = await request<{createMyApiKey: {token: string}}>('mutation NewKey($name: String!, $scopes: [String!], $life: Int) { createMyApiKey(name: $name, scopes: $scopes, expiresInSeconds: $life) { token } }', variables);
            setMade({name: variables.name, token: data.createMyApiKey.token});
            (form.elements.namedItem('name') as HTMLInputElement).value = '';
        });
    };
    return (
        <>
            <form class="form list-filters" onSubmit={onSubmit}>
                <label>Name <input name="name" required maxLength={60} autocomplete="off" /></label>
                <label>May <select name="scopes">{rights.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
                <label>Ends after <select name="life">{lives.map(([value, name]) => <option key={value} value={value} selected={value === 7_776_000}>{name}</option>)}</select></label>
                <button type="submit">Create a key</button>
            </form>
            {made && <Secret title={`The token of “${made.name}”.`} token={made.token}><p><button type="button" onClick={() => setMade(null)}>I have it</button></p></Secret>}
        </>
    );
}

function stateOf(key: Key): string {
    if (key.revokedAt) return `revoked ${absolute(key.revokedAt)}`;
    if (!key.expiresAt) return 'does not end';
    return `${Date.parse(key.expiresAt) < now.value ? 'ended' : 'ends'} ${absolute(key.expiresAt)}`;
}

function Keys({keys}: {keys: Key[]}) {
    const valid = keys.filter((one) => !one.revokedAt);
    return (
        <section aria-labelledby="api-keys">
            <h2 id="api-keys">API keys</h2>
            <NewKey />
            {valid.length ? (
                <div class="table-frame below">
                    <table class="listing">
                        <thead><tr><th scope="col">Name</th><th scope="col">Begins with</th><th scope="col">May</th><th scope="col">Last used</th><th scope="col">Life</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                        <tbody>
                            {valid.map((one) => (
                                <tr key={one.id} data-row>
                                    <td data-name="Name"><b class="breaks">{one.name}</b></td>
                                    <td data-name="Begins with"><code class="breaks">{one.tokenPrefix}</code></td>
                                    <td data-name="May">{one.scopes.length ? one.scopes.join(', ') : 'all that you may do'}</td>
                                    <td data-name="Last used">{one.lastUsedAt ? <Age time={one.lastUsedAt} /> : 'never'}</td>
                                    <td data-name="Life">{stateOf(one)}</td>
                                    <td data-name=""><Twice name="Revoke" sure={`Revoke ${one.name}`} run={async () => void (await changes.run(() => request('mutation RevokeKey($id: String!) { revokeMyApiKey(id: $id) }', {id: one.id})))} /></td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            ) : <Empty title="No API keys"><p>A program signs in with one, and so does the command line.</p></Empty>}
        </section>
    );
}

export function Me() {
    useWatch(shown, load, '');
    const at = shown.value;
    return (
        <>
            <header class="page-head"><h1>Your account</h1></header>
            {!at ? <Waiting /> : (
                <>
                    <PartialErrors errors={at.errors} />
                    {changes.problem.value && <p class="invalid" role="alert">{changes.problem.value}</p>}
                    <dl class="facts">
                        <div class="fact"><dt>User</dt><dd>{at.content.me.name}<span class="quiet block">{at.content.me.email}</span></dd></div>
                        <div class="fact"><dt>Account</dt><dd>{at.content.me.activeAccount?.name}</dd></div>
                        <div class="fact"><dt>Role</dt><dd>{signedIn.value?.isAdmin ? 'administrator' : 'not an administrator'}</dd></div>
                    </dl>
                    <Sessions sessions={at.sessions} />
                    <Keys keys={at.content.myApiKeys} />
                </>
            )}
        </>
    );
}
