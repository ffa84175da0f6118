// Users of the account: added, invited, given a role, disabled.
import {useState} from 'preact/hooks';
import {signedIn} from '../../api.ts';
import {fieldsOf} from '../../changes.ts';
import {Secret, Twice} from '../../once.tsx';
import {Age} from '../../parts.tsx';
import {change, type User} from './content.ts';

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

export function Users({users}: {users: User[]}) {
    const [invited, setInvited] = useState<{name: string; url: string} | null>(null);
    const invite = async (name: string) => {
        const made = await change<{createSignInLink: {token: string}}>('mutation Invite($name: String!) { createSignInLink(userName: $name) { token } }', {name});
        if (made) setInvited({name, url: `${new URL('ui/sign-in', document.baseURI).href}#token=${made.createSignInLink.token}`});
    };
    const onSubmit = (event: SubmitEvent) => {
        const {form, text} = fieldsOf(event);
        const name = text('name');
        void change('mutation NewUser($name: String!, $email: String!, $role: UserRole!) { createUser(name: $name, email: $email, role: $role) { id } }', {name, email: text('email'), role: text('role')}).then((made) => {
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
