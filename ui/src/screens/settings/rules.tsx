// Rules of who may do what, and what holds without one. No change is made before its consequences
// were shown.
import {useState} from 'preact/hooks';
import {change, type Content, type Rule, type Team} from './content.ts';
import {RuleForm, type RuleInput} from './rule_form.tsx';
import {actionWord, attributeWord} from './rule_words.ts';
import {Simulation} from './simulation.tsx';

// A change that is shown and may then be made.
interface Planned {
    change: object; // AccessRuleChange
    name: string; // of its button
    mutation: string;
    variables: object;
}

const create = 'mutation NewRule($rule: CreateAbacRuleInput!) { createAbacRule(accountId: "", createAbacRuleInput: $rule) { id } }';
const update = 'mutation SetRule($rule: UpdateAbacRuleInput!) { updateAbacRule(accountId: "", updateAbacRuleInput: $rule) { id } }';
const remove = 'mutation DropRule($id: ID!) { removeAbacRule(accountId: "", id: $id) { id } }';
const setDefault = 'mutation Default($access: DefaultAccess!) { setDefaultAccess(access: $access) }';

const toCreate = (rule: RuleInput): Planned => ({change: {create: rule}, name: 'Create the rule', mutation: create, variables: {rule}});
const toRemove = (id: string): Planned => ({change: {remove: id}, name: 'Remove this rule', mutation: remove, variables: {id}});
function toUpdate(id: string, given: RuleInput): Planned {
    const rule = {...given, id, accountId: ''};
    return {change: {update: rule}, name: 'Save the rule', mutation: update, variables: {rule}};
}
function toDefault(access: string): Planned {
    return {change: {defaultAccess: access}, name: access === 'DENY' ? 'Yes: rules have to allow everything' : 'Yes: rules only deny', mutation: setDefault, variables: {access}};
}

function RuleRow({rule, teams, onEdit, onRemove}: {rule: Rule; teams: Team[]; onEdit: () => void; onRemove: () => void}) {
    return (
        <tr data-row id={`rule-${rule.id}`}>
            <td data-name="Effect"><b>{rule.effect === 'DENY' ? 'denies' : 'allows'}</b></td>
            <td data-name="To"><span class="breaks">{rule.teams.map((id) => teams.find((one) => one.id === id)?.name ?? id).join(', ')}</span></td>
            <td data-name="What">{rule.actions.map(actionWord).join(', ')}</td>
            <td data-name="Where"><span class="breaks">{rule.attributes.map((one) => `${attributeWord(one.name)} ${one.key ? `${one.key}=` : ''}${one.value}`).join(', ') || 'everywhere'}</span></td>
            <td data-name="Id"><code class="breaks">{rule.id}</code></td>
            <td data-name=""><span class="twice"><button type="button" onClick={onEdit}>Edit</button><button type="button" onClick={onRemove}>Remove</button></span></td>
        </tr>
    );
}

export function Rules({content}: {content: Content}) {
    const [planned, setPlanned] = useState<Planned | null>(null);
    const [editing, setEditing] = useState<Rule | null>(null);
    const [made, setMade] = useState(0); // forms begin anew after each change
    const allows = content.defaultAccess === 'ALLOW';
    const drop = () => setPlanned(null);
    const edit = (rule: Rule | null) => {
        drop();
        setEditing(rule);
    };
    const run = async () => {
        if (!planned || !(await change(planned.mutation, planned.variables))) return;
        edit(null);
        setMade(made + 1);
    };
    const simulation = planned && <Simulation change={planned.change} name={planned.name} run={run} onClose={drop} />;
    const isOfForm = planned && ('create' in planned.change || 'update' in planned.change);
    return (
        <section aria-labelledby="rules">
            <h2 id="rules">Rules</h2>
            <p>Where no rule says so, members may {allows ? 'do everything' : 'do nothing'}. A rule that denies is stronger than one that allows.{' '}
                <button type="button" onClick={() => { edit(null); setPlanned(toDefault(allows ? 'DENY' : 'ALLOW')); }}>{allows ? 'Allow nothing by default' : 'Allow everything by default'}</button>
            </p>
            {editing ? (
                <div class="panel below">
                    <h3>Edit the rule <code class="breaks">{editing.id}</code></h3>
                    <RuleForm key={editing.id} rule={editing} teams={content.teams} onInput={drop} onGiven={(rule) => setPlanned(toUpdate(editing.id, rule))} />
                    <p><button type="button" class="plain" onClick={() => edit(null)}>Do not edit it</button></p>
                    {isOfForm && simulation}
                </div>
            ) : content.teams.length > 0 && (
                <details class="panel below">
                    <summary>New rule</summary>
                    <RuleForm key={made} teams={content.teams} onInput={drop} onGiven={(rule) => setPlanned(toCreate(rule))} />
                    {isOfForm && simulation}
                </details>
            )}
            {!isOfForm && simulation}
            {content.abacRules.length > 0 ? (
                <div class="table-frame below">
                    <table class="listing">
                        <thead><tr><th scope="col">Effect</th><th scope="col">To</th><th scope="col">What</th><th scope="col">Where</th><th scope="col">Id</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                        <tbody>{content.abacRules.map((one) => <RuleRow key={one.id} rule={one} teams={content.teams} onEdit={() => edit(one)} onRemove={() => { edit(null); setPlanned(toRemove(one.id)); }} />)}</tbody>
                    </table>
                </div>
            ) : <p class="quiet">No rules yet.</p>}
        </section>
    );
}
