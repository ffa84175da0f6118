// Enrollment tokens, with which agents create their own runtimes.
import {useState} from 'preact/hooks';
import {fieldsOf} from '../../changes.ts';
import {Secret, Twice} from '../../once.tsx';
import {Age} from '../../parts.tsx';
import {absolute} from '../../time.ts';
import {change, type Enrollment} from './content.ts';

const lives: [number, string][] = [[3600, '1 hour'], [86_400, '1 day'], [604_800, '7 days'], [2_592_000, '30 days']];
const states: Record<string, string> = {VALID: 'valid', USED_UP: 'used up', EXPIRED: 'expired', REVOKED: 'revoked'};

function NewEnrollment() {
    const [made, setMade] = useState<{name: string; token: string} | null>(null);
    const onSubmit = (event: SubmitEvent) => {
        const {form, text} = fieldsOf(event);
        const variables = {name: text('name'), uses: Number(text('uses')), life: Number(text('life')), pattern: text('pattern') || null};
        void change<{createEnrollmentToken: {token: string}}>('mutation Enroll($name: String!, $uses: Int, $life: Int, $pattern: String) { createEnrollmentToken(name: $name, usesMax: $uses, expiresInSeconds: $life, namePattern: $pattern) { token } }', variables).then((done) => {
            if (!done) return;
            setMade({name: variables.name, token: done.createEnrollmentToken.token});
            form.reset();
        });
    };
    return (
        <>
            <form class="form list-filters" aria-label="New enrollment token" onSubmit={onSubmit}>
                <label>Name <input name="name" required maxLength={60} autocomplete="off" /></label>
                <label>Runtimes <input name="uses" type="number" required min={1} max={10_000} defaultValue="1" /></label>
                <label>With names like <input name="pattern" maxLength={64} pattern="[a-z0-9*\-]*" placeholder="edge-*" autocomplete="off" /></label>
                <label>Ends after <select name="life">{lives.map(([value, name]) => <option key={value} value={value} selected={value === 86_400}>{name}</option>)}</select></label>
                <button type="submit">Create</button>
            </form>
            {made && <Secret title={`The enrollment token “${made.name}”.`} token={made.token}><p><button type="button" onClick={() => setMade(null)}>I have it</button></p></Secret>}
        </>
    );
}

export function Enrollments({tokens}: {tokens: Enrollment[]}) {
    return (
        <section aria-labelledby="enrollments">
            <h2 id="enrollments">Enrollment tokens</h2>
            <p>An agent that has one creates its own runtime.</p>
            <NewEnrollment />
            {tokens.length > 0 && (
                <div class="table-frame below">
                    <table class="listing">
                        <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Runtimes</th><th scope="col">With names like</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                        <tbody>
                            {tokens.map((one) => (
                                <tr key={one.id} data-row>
                                    <td data-name="Name"><b class="breaks">{one.name}</b></td>
                                    <td data-name="State"><span>{states[one.status] ?? one.status}{one.status === 'VALID' && <> until <time dateTime={one.expiresAt}>{absolute(one.expiresAt)}</time></>}</span></td>
                                    <td data-name="Runtimes"><span class="breaks">{one.uses} of {one.usesMax} <span class="quiet">{one.runtimes.join(', ')}</span></span></td>
                                    <td data-name="With names like"><code class="breaks">{one.namePattern}</code></td>
                                    <td data-name="Last used">{one.lastUsedAt ? <Age time={one.lastUsedAt} /> : 'never'}</td>
                                    <td data-name="">{one.status === 'VALID' && <Twice name="Revoke" sure={`Revoke ${one.name}`} run={async () => void (await change('mutation DropEnrollment($id: String!) { revokeEnrollmentToken(id: $id) }', {id: one.id}))} />}</td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
        </section>
    );
}
