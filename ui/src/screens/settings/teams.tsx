// Teams of users, which rules are for.
import {fieldsOf} from '../../changes.ts';
import {Twice} from '../../once.tsx';
import {change, type Team, type User} from './content.ts';

function TeamCard({team, users}: {team: Team; users: User[]}) {
    const others = users.filter((user) => !team.users.some((one) => one.id === user.id));
    const add = (event: SubmitEvent) => void change('mutation Join($team: String!, $user: String!) { addTeamMember(teamId: $team, userId: $user) { id } }', {team: team.id, user: fieldsOf(event).text('user')});
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

export function Teams({teams, users}: {teams: Team[]; users: User[]}) {
    const onSubmit = (event: SubmitEvent) => {
        const {form, text} = fieldsOf(event);
        void change('mutation NewTeam($name: String!) { createTeam(name: $name) { id } }', {name: text('name')}).then((made) => made && form.reset());
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
