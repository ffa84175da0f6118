// A command line that asks to sign in (`culvert login`): who and where it is, and whether it may.
import {useState} from 'preact/hooks';
import {request, signedIn} from '../api.ts';
import {Changes, fieldsOf} from '../changes.ts';
import {Held} from '../held.ts';
import {Age, Waiting} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {go, href, search} from '../router.ts';
import {absolute} from '../time.ts';

interface Authorization {
    clientId: string;
    remote: string;
    userAgent: string;
    createdAt: string;
    expiresAt: string;
}

const query = 'query Device($code: String!) { deviceAuthorization(userCode: $code) { clientId remote userAgent createdAt expiresAt } }';
const decision = 'mutation DecideDevice($code: String!, $allow: Boolean!) { decideDeviceAuthorization(userCode: $code, allow: $allow) }';

function CodeForm({problem}: {problem: string}) {
    const onSubmit = (event: SubmitEvent) => go(`ui/device?code=${encodeURIComponent(fieldsOf(event).text('code'))}`);
    return (
        <form class="form step" onSubmit={onSubmit}>
            <label>Code <input name="code" required maxLength={20} autocomplete="off" spellcheck={false} autocapitalize="characters" aria-describedby="code-help" aria-invalid={problem ? 'true' : undefined} /></label>
            <p id="code-help" class="quiet">Ten letters, which <code>culvert login</code> shows.</p>
            {problem && <p class="invalid" role="alert">{problem}</p>}
            <p><button type="submit" class="primary">Continue</button></p>
        </form>
    );
}

const shown = new Held<{code: string; found: Authorization | null}>();
const changes = new Changes();

async function load(code: string, cancel: AbortSignal): Promise<void> {
    const {data} = await request<{deviceAuthorization: Authorization | null}>(query, {code}, cancel);
    shown.value = {code, found: data.deviceAuthorization};
}

function Question({code, found, onDecided}: {code: string; found: Authorization; onDecided: (isAllowed: boolean) => void}) {
    const [isBusy, setBusy] = useState(false);
    const decide = async (allow: boolean) => {
        if (isBusy) return;
        setBusy(true);
        if (await changes.run(() => request(decision, {code, allow}))) onDecided(allow);
        setBusy(false);
    };
    return (
        <>
            <p>A command line asks for a key with which it may do all that you may do. Allow it only if you have just run <code>culvert login</code>, and it shows this code:</p>
            <p class="code">{code}</p>
            <dl class="facts below">
                <div class="fact"><dt>From</dt><dd><code>{found.remote}</code></dd></div>
                <div class="fact"><dt>Program</dt><dd class="breaks">{found.userAgent || found.clientId}</dd></div>
                <div class="fact"><dt>Asked</dt><dd><Age time={found.createdAt} /></dd></div>
                <div class="fact"><dt>Until</dt><dd><time dateTime={found.expiresAt}>{absolute(found.expiresAt)}</time></dd></div>
                <div class="fact"><dt>It will be</dt><dd>{signedIn.value?.user}<span class="quiet block">{signedIn.value?.account}</span></dd></div>
            </dl>
            {changes.problem.value && <p class="invalid" role="alert">{changes.problem.value}</p>}
            <p class="below buttons">
                <button type="button" class="primary" aria-disabled={isBusy ? 'true' : undefined} onClick={() => void decide(true)}>Allow</button>{' '}
                <button type="button" aria-disabled={isBusy ? 'true' : undefined} onClick={() => void decide(false)}>Deny</button>
            </p>
        </>
    );
}

function Waits({code}: {code: string}) {
    const [decided, setDecided] = useState<boolean | null>(null);
    useWatch(shown, (cancel) => load(code, cancel), code);
    const at = shown.value?.code === code ? shown.value : null;
    if (decided === true) return <p role="status">Allowed. The command line is signed in as {signedIn.value?.user} within seconds; you can close this page. Its key is listed in <a href={href('ui/me')}>your account</a>, where you can revoke it.</p>;
    if (decided === false) return <p role="status">Denied. Nothing was signed in; you can close this page.</p>;
    if (!at) return <Waiting rows={3} />;
    if (!at.found) return <CodeForm problem="No sign-in waits under this code. Check it, or run the command again: a code can be used once, and only for some minutes." />;
    return <Question code={code.toUpperCase()} found={at.found} onDecided={setDecided} />;
}

export function Device() {
    const code = new URLSearchParams(search.value).get('code')?.trim() ?? '';
    return (
        <>
            <header class="page-head"><h1>Sign in a command line</h1></header>
            {code ? <Waits key={code} code={code} /> : <CodeForm problem="" />}
        </>
    );
}
