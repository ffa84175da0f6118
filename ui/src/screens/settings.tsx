// Settings of the account, for its admins: users, teams, and the rules of who may do what.
import {signedIn} from '../api.ts';
import {Empty, PartialErrors, Waiting} from '../parts.tsx';
import {useWatch} from '../poll.ts';
import {href} from '../router.ts';
import {changes, load, shown} from './settings/content.ts';
import {Enrollments} from './settings/enrollments.tsx';
import {Explain} from './settings/explain.tsx';
import {Rules} from './settings/rules.tsx';
import {Teams} from './settings/teams.tsx';
import {Users} from './settings/users.tsx';

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
            {changes.problem.value && <p class="invalid" role="alert">{changes.problem.value}</p>}
            <Users users={at.content.users} />
            <Teams teams={at.content.teams} users={at.content.users} />
            <Rules content={at.content} />
            <Explain users={at.content.users} rules={at.content.abacRules} />
            <Enrollments tokens={at.content.enrollmentTokens} />
        </>
    );
}
