// Sign-in at an identity provider, by a one-time link or an API key; each opens a session of this browser.
import {signal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {type Provider, readProviders, RequestError, resume, signIn, signInMessage} from '../api.ts';
import {go, href, path} from '../router.ts';

const providers = signal<Provider[]>([]);

// Words of the server, modules/identity/oidc_sign_in.c.
const problems: Record<string, string> = {
    provider_unavailable: 'The identity provider does not answer. Try again in a moment, or sign in with an API key.',
    provider_wrong: 'The identity provider answers in a way that Culvert cannot use. Your administrator finds the reason in the log of culvertd.',
    wrong_provider: 'The answer came from another identity provider. Sign in again.',
    not_accepted: 'Culvert does not accept what the identity provider sent. Your administrator finds the reason in the log of culvertd.',
    unknown_attempt: 'This sign-in took too long, or began in another browser or tab. Sign in again.',
    denied: 'The identity provider did not sign you in.',
    no_user: 'You are known to the identity provider, but not permitted to use Culvert. Ask an administrator of your account.',
    busy: 'Too many people sign in at the moment. Try again shortly.',
};

function readProblem(): string {
    const word = new URLSearchParams(location.search).get('problem');
    return word ? (problems[word] ?? 'The sign-in failed. Sign in again.') : '';
}

function Providers() {
    useEffect(() => {
        void readProviders().then((list) => (providers.value = list));
    }, []);
    if (!providers.value.length) return null;
    const page = path.value === 'ui/sign-in' ? 'ui/' : path.value + location.search;
    return (
        <div class="providers">
            {providers.value.map((each) => <a key={each.id} class="button primary" href={`${href('api/auth/providers/')}${encodeURIComponent(each.id)}/start?return=${encodeURIComponent(page)}`}>Sign in with {each.title}</a>)}
        </div>
    );
}

const problem = signal('');
const isBusy = signal(false);

function explain(error: unknown, refused: string): string {
    const {status, title, detail} = error instanceof RequestError ? error.problem : {status: 0, title: 'A defect of this page', detail: String(error)};
    return status === 401 ? refused : `${title}: ${detail}`;
}

// `ui/sign-in#token=...` of `culvertd admin sign-in-link`. The token leaves the address bar and the
// history before it is used.
export async function startSession(): Promise<void> {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (path.peek() !== 'ui/sign-in' || !token) {
        if (path.peek() === 'ui/sign-in') problem.value = readProblem();
        await resume();
    } else {
        history.replaceState(null, '', location.pathname);
        try {
            await signIn({token});
        } catch (error) {
            await resume();
            problem.value = explain(error, 'This link was used already or has expired. Ask for another one, or sign in with an API key.');
        }
    }
}

// Nothing is to be seen at the address of links once there is a session.
export function leaveSignIn(): void {
    if (path.peek() === 'ui/sign-in') go('ui/', 'replace');
}

async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const input = (event.currentTarget as HTMLFormElement).elements.namedItem('key') as HTMLInputElement;
    const key = input.value.trim();
    if (!key || isBusy.peek()) return;
    isBusy.value = true;
    problem.value = '';
    try {
        await signIn({apiKey: key});
        input.value = '';
    } catch (error) {
        problem.value = explain(error, 'This key is not accepted. Check that it is complete, and neither expired nor revoked.');
    } finally {
        isBusy.value = false;
    }
}

export function SignIn() {
    const input = useRef<HTMLInputElement>(null);
    useEffect(() => input.current?.focus(), []);
    return (
        <main class="sign-in">
            <form onSubmit={submit}>
                <h1><Mark /> Culvert</h1>
                {signInMessage.value && <p role="status">{signInMessage.value}</p>}
                <Providers />
                <label for="key">API key</label>
                <input ref={input} id="key" name="key" type="password" autocomplete="off" spellcheck={false} required aria-describedby="key-help" aria-invalid={problem.value ? 'true' : undefined} />
                <p id="key-help" class="quiet">It opens a session of this browser and is not kept. Or use the link of <code>culvertd admin sign-in-link</code>.</p>
                {problem.value && <p class="invalid" role="alert">{problem.value}</p>}
                <button type="submit" class="primary" aria-disabled={isBusy.value}>{isBusy.value ? 'Signing in' : 'Sign in'}</button>
            </form>
        </main>
    );
}

export function Mark() {
    return (
        <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
            <path class="mark-outer" d="M6 23v-5a10 10 0 0 1 20 0v5" />
            <path class="mark-inner" d="M12.5 23v-4.6a3.5 3.5 0 0 1 7 0V23" />
        </svg>
    );
}
