// Requests to Culvert and what they tell about the page's own link. The browser's session is a cookie
// that no script can read; its CSRF token stays in this module. No credential is stored by the page.
import {computed, signal} from '@preact/signals';
import {noteServerTime, now, serverNow} from './time.ts';
import type {Link} from './tone.ts';

const timeoutMs = 10_000;
export const silentMs = 10_000; // an answer that is older makes the whole page old

let csrfToken = '';
export interface SignedIn {
    user: string;
    account: string;
    isAdmin: boolean;
    session: string; // its id
    version: string; // of the server
}
// undefined: not known yet.
export const signedIn = signal<SignedIn | null | undefined>(undefined);
export const signInMessage = signal('');

const answeredAt = signal(0); // by the server's clock
export const failure = signal<Problem | null>(null);
export const retryAt = signal(0);
export const lastAnswer = computed(() => answeredAt.value);
// Nothing is known now once the last answer is too old.
export const link = computed<Link>(() => (now.value - answeredAt.value > silentMs ? 'lost' : 'live'));

export interface Problem {
    title: string;
    detail: string;
    code: string;
    traceId: string;
    status: number; // 0: no answer
}

export class RequestError extends Error {
    constructor(readonly problem: Problem) {
        super(problem.detail || problem.title);
    }
}

export interface Answer<T> {
    data: T;
    errors: {message: string; path?: (string | number)[]}[];
}

function noAnswer(detail: string): RequestError {
    return new RequestError({title: 'No answer from Culvert', detail, code: 'no_answer', traceId: '', status: 0});
}

export async function problemOf(response: Response): Promise<RequestError> {
    let body: Record<string, unknown> = {};
    try {
        body = (await response.json()) as Record<string, unknown>;
    } catch {
        // not JSON: a proxy answered
    }
    const text = (name: string) => (typeof body[name] === 'string' ? (body[name] as string) : '');
    const first = Array.isArray(body.errors) ? (body.errors[0] as {message?: string}) : undefined;
    return new RequestError({
        title: text('title') || `HTTP ${response.status}`,
        detail: text('detail') || text('message') || first?.message || '', // message: of an agent
        code: text('code') || (response.headers.get('culvert-cause') ?? ''),
        traceId: text('traceId') || (response.headers.get('x-request-id') ?? ''),
        status: response.status,
    });
}

async function send(method: string, path: string, body: object | null, cancel: AbortSignal, accept = '*/*', lastEventId = ''): Promise<Response> {
    try {
        const response = await fetch(new URL(path, document.baseURI), {
            method,
            headers: {accept, ...(body ? {'content-type': 'application/json'} : {}), ...(csrfToken ? {'x-csrf-token': csrfToken} : {}), ...(lastEventId ? {'last-event-id': lastEventId} : {})},
            body: body ? JSON.stringify(body) : null,
            credentials: 'same-origin',
            redirect: 'error',
            signal: cancel,
        });
        noteServerTime(response.headers.get('date'));
        return response;
    } catch (error) {
        if (cancel.aborted && cancel.reason !== 'timeout') throw error;
        throw noAnswer(cancel.reason === 'timeout' ? `nothing arrived within ${timeoutMs / 1000} s` : 'the connection failed');
    }
}

// The signal of the time limit, and of the caller's own.
async function limited<T>(run: (cancel: AbortSignal) => Promise<T>, cancel?: AbortSignal): Promise<T> {
    const own = new AbortController();
    const timer = setTimeout(() => own.abort('timeout'), timeoutMs);
    const onCancel = () => own.abort('cancelled');
    cancel?.addEventListener('abort', onCancel);
    try {
        return await run(own.signal);
    } finally {
        clearTimeout(timer);
        cancel?.removeEventListener('abort', onCancel);
    }
}

const graphql = '2.0/api/graphql';

export async function request<T>(query: string, variables: object, cancel?: AbortSignal): Promise<Answer<T>> {
    return limited(async (limit) => {
        let response = await send('POST', graphql, {query, variables}, limit);
        // Another tab has signed in anew: its session is this one's, too, and has another token.
        if (response.status === 403 && (await readSession(limit))) response = await send('POST', graphql, {query, variables}, limit);
        if (!response.ok) throw await problemOf(response);
        const body = (await response.json()) as {data: T | null; errors?: Answer<T>['errors']};
        if (!body.data) {
            const detail = body.errors?.[0]?.message ?? 'the answer has no data';
            throw new RequestError({title: 'The request failed', detail, code: 'graphql', traceId: response.headers.get('x-request-id') ?? '', status: 200});
        }
        answeredAt.value = serverNow();
        return {data: body.data, errors: body.errors ?? []};
    }, cancel);
}

// An answer that goes on for as long as its reader wants. Only its end is limited by `cancel`.
export async function stream(path: string, accept: string, cancel: AbortSignal): Promise<Response> {
    const response = await send('GET', path, null, cancel, accept);
    if (response.status === 403 && (await readSession(cancel))) return send('GET', path, null, cancel, accept);
    return response;
}

// Something came from Culvert besides an answer.
export function noteAlive(): void {
    answeredAt.value = serverNow();
}

// A subscription. lastEventId: the newest of one that was the same.
export async function openSubscription(query: string, variables: object, lastEventId: string, cancel: AbortSignal): Promise<Response> {
    const response = await send('POST', graphql, {query, variables}, cancel, 'text/event-stream', lastEventId);
    if (!response.ok || !response.headers.get('content-type')?.startsWith('text/event-stream')) throw await problemOf(response);
    return response;
}

// ---- the session ---------------------------------------------------------------------------

const session = 'api/auth/session';
interface Session {
    user: {name: string; isAdmin: boolean};
    account: {name: string};
    session: {id: string} | null;
    csrfToken: string | null;
    version: string;
}

// The user's sessions, of all browsers. Without an id, DELETE ends all of them.
export async function ofSessions<T>(method: 'GET' | 'DELETE', id = '', cancel?: AbortSignal): Promise<T> {
    return limited(async (limit) => {
        const response = await send(method, `${session}s${id ? `/${encodeURIComponent(id)}` : ''}`, null, limit);
        if (!response.ok) throw await problemOf(response);
        return (await response.json()) as T;
    }, cancel);
}

// What a screen holds of one user is not shown to the next one.
const forget: (() => void)[] = [];
export function onForget(run: () => void): void {
    forget.push(run);
}
let lastUser = '';

function take(opened: Session): void {
    const user = `${opened.user.name}/${opened.account.name}`;
    if (lastUser && lastUser !== user) forget.forEach((run) => run());
    lastUser = user;
    csrfToken = opened.csrfToken ?? '';
    signedIn.value = {user: opened.user.name, account: opened.account.name, isAdmin: opened.user.isAdmin, session: opened.session?.id ?? '', version: opened.version};
    signInMessage.value = '';
}

// Whether the browser has a session with another token than the one in use.
async function readSession(cancel: AbortSignal): Promise<boolean> {
    const before = csrfToken;
    const response = await send('GET', session, null, cancel);
    if (!response.ok) return false;
    take((await response.json()) as Session);
    return csrfToken !== before;
}

// At start: the session that this browser has.
export async function resume(): Promise<void> {
    try {
        await limited(readSession);
    } catch {
        // without an answer the sign-in page says so at the first try
    }
    if (!signedIn.peek()) signedIn.value = null;
}

// Tabs share the session, so they begin and end it together.
const tabs = new BroadcastChannel(`culvert.session ${new URL('.', document.baseURI).pathname}`);
tabs.onmessage = ({data}) => {
    if (data === 'out' && signedIn.peek()) sessionEnded('You signed out in another tab.');
    if (data === 'in') limited(readSession).catch(() => undefined); // this tab's next request finds out
};

export async function signIn(credential: {apiKey: string} | {token: string}): Promise<void> {
    await limited(async (cancel) => {
        csrfToken = '';
        const response = await send('POST', session, credential, cancel);
        if (!response.ok) throw await problemOf(response);
        take((await response.json()) as Session);
        tabs.postMessage('in');
    });
}

export interface Provider {
    id: string;
    title: string;
}

// Where people can sign in; none while that is not known.
export async function readProviders(): Promise<Provider[]> {
    try {
        const response = await limited((cancel) => send('GET', 'api/auth/providers', null, cancel));
        return response.ok ? ((await response.json()) as Provider[]) : [];
    } catch {
        return [];
    }
}

// The server ended the session, or refuses it.
export function sessionEnded(message: string): void {
    csrfToken = '';
    signedIn.value = null;
    signInMessage.value = message;
}

export async function signOut(): Promise<void> {
    try {
        await limited((cancel) => send('DELETE', session, null, cancel));
        tabs.postMessage('out');
        sessionEnded('');
    } catch {
        signInMessage.value = '';
        failure.value = {title: 'Not signed out', detail: 'Culvert did not answer; the session is still open', code: 'no_answer', traceId: '', status: 0};
    }
}
