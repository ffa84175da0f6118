// Settings of the account, for its admins: users, teams, and the rules of who may do what.
import {signal} from '@preact/signals';
import {useState} from 'preact/hooks';
import {onForget, request, RequestError, signedIn} from '../api.ts';
import {Held} from '../held.ts';
import {Secret, Twice} from '../once.tsx';
import {Age, Empty, PartialErrors, Waiting} from '../parts.tsx';
import {reload, useWatch} from '../poll.ts';
import {href} from '../router.ts';

interface User {
    id: string;
    name: string;
    email: string;
    role: string;
    isService: boolean;
    isDisabled: boolean;
    createdAt: string;
}
interface Team {
    id: string;
    name: string;
    users: {id: string; name: string}[];
}
interface Rule {
    id: string;
    effect: string;
    teams: string[];
    actions: string[];
    attributes: {name: string; key: string | null; value: string}[];
}
interface Content {
    users: User[];
    teams: Team[];
    abacRules: Rule[];
    defaultAccess: string;
}

const shown = new Held<{content: Content; errors: {message: string}[]}>();
const problem = signal('');
onForget(() => (problem.value = ''));

const query = `query Settings {
  users { id name email role isService isDisabled createdAt }
  teams { id name users { id name } }
  abacRules(accountId: "", entityType: gitopsApplications) { id effect teams actions attributes { name key value } }
  defaultAccess
}`;

async function load(cancel: AbortSignal): Promise<void> {
    const {data, errors} = await request<Content>(query, {}, cancel);
    data.users.sort((a, b) => a.name.localeCompare(b.name));
    shown.value = {content: data, errors};
}

// Whether it was done.
async function change<T>(mutation: string, variables: object): Promise<T | null> {
    problem.value = '';
    try {
        const {data} = await request<T>(mutation, variables);
        reload();
        return data;
    } catch (error) {
        problem.value = error instanceof RequestError ? error.message : String(error);
        return null;
    }
}

function fieldsOf(event: SubmitEvent): (name: string) => string {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    return (name) => form.get(name)?.toString().trim() ?? '';
}

// ---- users ---------------------------------------------------------------------------------

const roles: Record<string, string> = {MEMBER: 'member', READ_ONLY: 'reads only', ADMIN: 'admin'};
const setUser = 'mutation SetUser($id: String!, $role: UserRole, $isDisabled: Boolean) { updateUser(id: $id, role: $role, isDisabled: $isDisabled) { id } }';
const roleOptions = (current: string) => Object.entries(roles).map(([value, name]) => <option key={value} value={value} selected={value === current}>{name}</option>);

function UserRow({user, onLink}: {user: User; onLink: (name: string) => void}) {
    const isMe = user.name === signedIn.value?.user;
    return (
        <tr data-row>
            <td data-name="Name"><span><b class="breaks">{user.name}</b>{isMe && <span class="quiet"> you</span>}{user.isService && <span class="quiet"> a program</span>}</span></td>
            <td data-name="Email"><span class="breaks">{user.email}</span></td>
            <td data-name="Role">
                {isMe ? roles[user.role] : <select aria-label={`Role of ${user.name}`} value={user.role} onChange={(event) => void change(setUser, {id: user.id, role: event.currentTarget.value})}>{roleOptions(user.role)}</select>}
            </td>
            <td data-name="Since"><Age time={user.createdAt} /></td>
            <td data-name="">
                <span class="twice">
                    {!user.isService && !user.isDisabled && <button type="button" onClick={() => onLink(user.name)}>Invite</button>}
                    {user.isDisabled ? <button type="button" onClick={() => void change(setUser, {id: user.id, isDisabled: false})}>Enable</button>
                        : !isMe && <Twice name="Disable" sure={`Disable ${user.name}`} run={async () => void (await change(setUser, {id: user.id, isDisabled: true}))} />}
                    {!isMe && <Twice name="Delete" sure={`Delete ${user.name}`} run={async () => void (await change('mutation DropUser($id: String!) { deleteUser(id: $id) }', {id: user.id}))} />}
                </span>
            </td>
        </tr>
    );
}

function Users({users}: {users: User[]}) {
    const [invited, setInvited] = useState<{name: string; url: string} | null>(null);
    const invite = async (name: string) => {
        const made = await change<{createSignInLink: {token: string}}>('mutation Invite($name: String!) { createSignInLink(userName: $name) { token } }', {name});
        if (made) setInvited({name, url: `${new URL('ui/sign-in', document.baseURI).href}#token=${made.createSignInLink.token}`});
    };
    const onSubmit = (event: SubmitEvent) => {
        const given = fieldsOf(event);
        const form = event.currentTarget as HTMLFormElement;
        const name = given('name');
        void change('mutation NewUser($name: String!, $email: String!, $role: UserRole!) { createUser(name: $name, email: $email, role: $role) { id } }', {name, email: given('email'), role: given('role')}).then((made) => {
            if (!made) return;
            form.reset();
            void invite(name);
        });
    };
    return (
        <section aria-labelledby="users">
            <h2 id="users">Users</h2>
            <form class="form list-filters" aria-label="New user" onSubmit={onSubmit}>
                <label>Name <input name="name" required maxLength={100} autocomplete="off" /></label>
                <label>Email <input name="email" type="email" required maxLength={200} autocomplete="off" /></label>
                <label>Role <select name="role">{roleOptions('')}</select></label>
                <button type="submit">Add</button>
            </form>
            {invited && <Secret title={`The link that signs ${invited.name} in.`} token={invited.url}><p><button type="button" onClick={() => setInvited(null)}>I have it</button></p></Secret>}
            <div class="table-frame below">
                <table class="listing">
                    <thead><tr><th scope="col">Name</th><th scope="col">Email</th><th scope="col">Role</th><th scope="col">Since</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                    <tbody>{users.map((one) => <UserRow key={one.id} user={one} onLink={(name) => void invite(name)} />)}</tbody>
                </table>
            </div>
        </section>
    );
}

// ---- teams ---------------------------------------------------------------------------------

function TeamCard({team, users}: {team: Team; users: User[]}) {
    const others = users.filter((user) => !team.users.some((one) => one.id === user.id));
    const add = (event: SubmitEvent) => void change('mutation Join($team: String!, $user: String!) { addTeamMember(teamId: $team, userId: $user) { id } }', {team: team.id, user: fieldsOf(event)('user')});
    return (
        <li class="card" data-row>
            <div class="card-head"><h3 class="breaks">{team.name}</h3><Twice name="Delete" sure="Delete this team" run={async () => void (await change('mutation DropTeam($id: String!) { deleteTeam(id: $id) }', {id: team.id}))} /></div>
            <ul class="chips" aria-label={`Members of ${team.name}`}>
                {team.users.map((user) => <li key={user.id}><button type="button" title={`Remove ${user.name} from ${team.name}`} onClick={() => void change('mutation Leave($team: String!, $user: String!) { removeTeamMember(teamId: $team, userId: $user) { id } }', {team: team.id, user: user.id})}>{user.name} <span aria-hidden="true">×</span><span class="hidden">remove</span></button></li>)}
            </ul>
            {others.length > 0 && <form class="form list-filters" onSubmit={add}><label>Member <select name="user">{others.map((user) => <option key={user.id} value={user.id}>{user.name}</option>)}</select></label><button type="submit">Add</button></form>}
        </li>
    );
}

function Teams({teams, users}: {teams: Team[]; users: User[]}) {
    const onSubmit = (event: SubmitEvent) => {
        const form = event.currentTarget as HTMLFormElement;
        void change('mutation NewTeam($name: String!) { createTeam(name: $name) { id } }', {name: fieldsOf(event)('name')}).then((made) => made && form.reset());
    };
    return (
        <section aria-labelledby="teams">
            <h2 id="teams">Teams</h2>
            <form class="form list-filters" aria-label="New team" onSubmit={onSubmit}>
                <label>Name <input name="name" required maxLength={100} autocomplete="off" /></label>
                <button type="submit">Create</button>
            </form>
            {teams.length > 0 ? <ul class="cards below">{teams.map((one) => <TeamCard key={one.id} team={one} users={users} />)}</ul> : <p class="quiet">None yet. Rules are for teams.</p>}
        </section>
    );
}

// ---- rules ---------------------------------------------------------------------------------

const actions: [string, string][] = [
    ['VIEW', 'view'], ['SYNC', 'sync'], ['REFRESH', 'refresh'], ['TERMINATE_SYNC', 'terminate a sync'], ['APP_ROLLBACK', 'roll back'], ['VIEW_POD_LOGS', 'read logs'], ['DELETE_RESOURCE', 'delete resources'],
    ['ROLLOUT_PAUSE', 'pause rollouts'], ['ROLLOUT_RESUME', 'resume rollouts'], ['ROLLOUT_PROMOTE_FULL', 'promote rollouts fully'], ['ROLLOUT_ABORT', 'abort rollouts'], ['ROLLOUT_RETRY', 'retry rollouts'],
];
const attributes: [string, string][] = [['RUNTIME', 'runtime'], ['NAMESPACE', 'namespace'], ['CLUSTER', 'cluster'], ['LABEL', 'label']];
const wordOf = (list: [string, string][], value: string) => list.find(([one]) => one === value)?.[1] ?? value.toLowerCase().replaceAll('_', ' ');

function NewRule({teams}: {teams: Team[]}) {
    const onSubmit = (event: SubmitEvent) => {
        event.preventDefault();
        const form = event.currentTarget as HTMLFormElement;
        const data = new FormData(form);
        const text = (name: string) => data.get(name)?.toString().trim() ?? '';
        const value = text('value');
        const attribute = {name: text('attribute'), ...(text('attribute') === 'LABEL' ? {key: value.split('=')[0], value: value.split('=').slice(1).join('=')} : {value})};
        const rule = {entityType: 'gitopsApplications', effect: text('effect'), teams: data.getAll('team'), actions: data.getAll('action'), attributes: value ? [attribute] : []};
        void change('mutation NewRule($rule: CreateAbacRuleInput!) { createAbacRule(accountId: "", createAbacRuleInput: $rule) { id } }', {rule}).then((made) => made && form.reset());
    };
    return (
        <details class="panel below">
            <summary>New rule</summary>
            <form class="form step wide" aria-label="New rule" onSubmit={onSubmit}>
                <label>It <select name="effect"><option value="ALLOW">allows</option><option value="DENY">denies</option></select></label>
                <fieldset class="facet"><legend>To whom</legend>{teams.map((one) => <label key={one.id}><input type="checkbox" name="team" value={one.id} /> {one.name}</label>)}</fieldset>
                <fieldset class="facet"><legend>What</legend>{actions.map(([value, name]) => <label key={value}><input type="checkbox" name="action" value={value} /> {name}</label>)}</fieldset>
                <label>Where the <select name="attribute">{attributes.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
                <label>is (empty: everywhere; a label as key=value) <input name="value" maxLength={250} autocomplete="off" /></label>
                <p><button type="submit">Create the rule</button></p>
            </form>
        </details>
    );
}

function RuleRow({rule, teams}: {rule: Rule; teams: Team[]}) {
    return (
        <tr data-row>
            <td data-name="Effect"><b>{rule.effect === 'DENY' ? 'denies' : 'allows'}</b></td>
            <td data-name="To"><span class="breaks">{rule.teams.map((id) => teams.find((one) => one.id === id)?.name ?? id).join(', ')}</span></td>
            <td data-name="What">{rule.actions.map((one) => wordOf(actions, one)).join(', ')}</td>
            <td data-name="Where"><span class="breaks">{rule.attributes.map((one) => `${wordOf(attributes, one.name)} ${one.key ? `${one.key}=` : ''}${one.value}`).join(', ') || 'everywhere'}</span></td>
            <td data-name="Id"><code class="breaks">{rule.id}</code></td>
            <td data-name=""><Twice name="Remove" sure="Remove this rule" run={async () => void (await change('mutation DropRule($id: ID!) { removeAbacRule(accountId: "", id: $id) { id } }', {id: rule.id}))} /></td>
        </tr>
    );
}

function Rules({content}: {content: Content}) {
    const allows = content.defaultAccess === 'ALLOW';
    return (
        <section aria-labelledby="rules">
            <h2 id="rules">Rules</h2>
            <p>Where no rule says so, members may {allows ? 'do everything' : 'do nothing'}. A rule that denies is stronger than one that allows.{' '}
                <Twice name={allows ? 'Allow nothing by default' : 'Allow everything by default'} sure={allows ? 'Yes: rules have to allow everything' : 'Yes: rules only deny'} run={async () => void (await change('mutation Default($access: DefaultAccess!) { setDefaultAccess(access: $access) }', {access: allows ? 'DENY' : 'ALLOW'}))} />
            </p>
            {content.teams.length > 0 && <NewRule teams={content.teams} />}
            {content.abacRules.length > 0 && (
                <div class="table-frame below">
                    <table class="listing">
                        <thead><tr><th scope="col">Effect</th><th scope="col">To</th><th scope="col">What</th><th scope="col">Where</th><th scope="col">Id</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                        <tbody>{content.abacRules.map((one) => <RuleRow key={one.id} rule={one} teams={content.teams} />)}</tbody>
                    </table>
                </div>
            )}
        </section>
    );
}

export function Settings() {
    const isAdmin = signedIn.value?.isAdmin ?? false;
    const head = <header class="page-head"><h1>Settings</h1></header>;
    if (!isAdmin) return <>{head}<Empty title="For admins of the account"><p>Your own sessions and keys are under <a href={href('ui/me')}>Your account</a>.</p></Empty></>;
    return <>{head}<Parts /></>;
}

function Parts() {
    useWatch(shown, load, '');
    const at = shown.value;
    if (!at) return <Waiting />;
    return (
        <>
            <PartialErrors errors={at.errors} />
            {problem.value && <p class="invalid" role="alert">{problem.value}</p>}
            <Users users={at.content.users} />
            <Teams teams={at.content.teams} users={at.content.users} />
            <Rules content={at.content} />
        </>
    );
}
