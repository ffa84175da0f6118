// Why a user may do something with an application, or may not: the platform's decision, with the
// rule that made it.
import {useEffect, useRef, useState} from 'preact/hooks';
import {request} from '../../api.ts';
import {fieldsOf, reasonOf} from '../../changes.ts';
import type {Rule, User} from './content.ts';
import {actions, actionWord} from './rule_words.ts';

interface Permit {
    action: string;
    allowed: boolean;
    reason: string;
    rule: string | null;
}
interface Place {
    runtime: string;
    namespace: string;
    name: string;
}

const reasons: Record<string, string> = {
    UNLIMITED: 'no rules limit this user', ALLOW_RULE: 'a rule allows it', DENY_RULE: 'a rule denies it', DEFAULT_ALLOW: 'no rule is about it, and the default allows it',
    DEFAULT_DENY: 'no rule is about it, and the default allows nothing', ROLE: 'the role of the user does not allow it', NOT_FOUND: 'there is no such application',
};

const find = `query Named($filters: ApplicationsFilterArgs) { applications(filters: $filters, pagination: {first: 2}) { edges { node { metadata { runtime namespace name } } } } }`;
const ask = `query Explain($user: String!, $objects: [PermissionObject!]!, $actions: [AbacActionNames!]!) {
  explainPermissions(userId: $user, objects: $objects, actions: $actions) { action allowed reason rule }
}`;

// A name, or RUNTIME/NAMESPACE/NAME.
async function placeOf(text: string, cancel: AbortSignal): Promise<Place> {
    const [runtime, namespace, name, more] = text.split('/');
    if (runtime && namespace && name && more === undefined) return {runtime, namespace, name};
    const {data} = await request<{applications: {edges: {node: {metadata: Place}}[]}}>(find, {filters: {applications: [text]}}, cancel);
    const found = data.applications.edges.map((one) => one.node.metadata);
    if (!found[0]) throw new Error(`There is no application “${text}”.`);
    if (found.length > 1) throw new Error(`Several applications are called “${text}”: write RUNTIME/NAMESPACE/NAME.`);
    return found[0];
}

function Permits({permits, place, user, rules}: {permits: Permit[]; place: Place; user: string; rules: Rule[]}) {
    return (
        <>
            <p class="breaks below" role="status">What <b>{user}</b> may do with {place.runtime}/{place.namespace}/{place.name}:</p>
            <div class="table-frame below">
                <table class="listing">
                    <thead><tr><th scope="col">Action</th><th scope="col">Allowed</th><th scope="col">Why</th><th scope="col">Rule</th></tr></thead>
                    <tbody>
                        {permits.map((one) => (
                            <tr key={one.action} data-row>
                                <td data-name="Action">{actionWord(one.action)}</td>
                                <td data-name="Allowed"><b>{one.allowed ? 'yes' : 'no'}</b></td>
                                <td data-name="Why">{reasons[one.reason] ?? one.reason}</td>
                                <td data-name="Rule">{one.rule && <code class="breaks">{one.rule}</code>}{one.rule && !rules.some((rule) => rule.id === one.rule) && <span class="quiet"> changed meanwhile</span>}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
        </>
    );
}

type Answer = {permits: Permit[]; place: Place; user: string} | {problem: string} | 'asking' | null;

export function Explain({users, rules}: {users: User[]; rules: Rule[]}) {
    const [answer, setAnswer] = useState<Answer>(null);
    const asked = useRef<AbortController | null>(null);
    useEffect(() => () => asked.current?.abort('cancelled'), []);
    const onSubmit = (event: SubmitEvent) => {
        const {text} = fieldsOf(event);
        const action = text('action');
        const user = users.find((one) => one.id === text('user'));
        asked.current?.abort('cancelled');
        const mine = (asked.current = new AbortController());
        const run = async (): Promise<Answer> => {
            const place = await placeOf(text('application'), mine.signal);
            const variables = {user: text('user'), objects: [place], actions: action ? [action] : actions.map(([one]) => one)};
            const {data} = await request<{explainPermissions: Permit[]}>(ask, variables, mine.signal);
            return {permits: data.explainPermissions, place, user: user?.name ?? ''};
        };
        setAnswer('asking');
        run().catch((error): Answer => ({problem: error instanceof Error ? error.message : reasonOf(error)})).then((done) => {
            if (asked.current === mine) setAnswer(done);
        });
    };
    return (
        <section aria-labelledby="explain">
            <h2 id="explain">Who may do what, and why</h2>
            <form class="form list-filters" aria-label="Explain" onSubmit={onSubmit}>
                <label>User <select name="user">{users.filter((one) => !one.isDisabled).map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}</select></label>
                <label>Action <select name="action"><option value="">every action</option>{actions.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
                <label>Application <input name="application" required maxLength={760} autocomplete="off" placeholder="name or RUNTIME/NAMESPACE/NAME" /></label>
                <button type="submit">Explain</button>
            </form>
            {answer === 'asking' && <p role="status">Asking…</p>}
            {answer && answer !== 'asking' && ('problem' in answer ? <p class="invalid" role="alert">{answer.problem}</p> : <Permits {...answer} rules={rules} />)}
        </section>
    );
}
