// The form of a rule, new or as it is. Where its rule has several attributes they are all there.
import {useState} from 'preact/hooks';
import {fieldsOf} from '../../changes.ts';
import type {Rule, Team} from './content.ts';
import {actions, actionWord, attributes, attributeWord} from './rule_words.ts';

export interface RuleInput {
    entityType: string;
    effect: string;
    teams: string[];
    actions: string[];
    tags: string[];
    attributes: {name: string; key?: string; value: string}[];
}

interface Place {
    name: string;
    text: string; // of a label: key=value
}

function attributeOf({name, text}: Place): RuleInput['attributes'][number] {
    if (name !== 'LABEL') return {name, value: text};
    const [key, ...rest] = text.split('=');
    return {name, key: key ?? '', value: rest.join('=')};
}

// A name of the list, or one that a client of another version has stored.
const withOwn = (list: [string, string][], own: string[], word: (value: string) => string) =>
    [...list, ...own.filter((value) => !list.some(([one]) => one === value)).map((value): [string, string] => [value, word(value)])];

export function RuleForm({rule, teams, onInput, onGiven}: {rule?: Rule | undefined; teams: Team[]; onInput: () => void; onGiven: (rule: RuleInput) => void}) {
    const [places, setPlaces] = useState<Place[]>(() => (rule?.attributes.length ? rule.attributes.map((one) => ({name: one.name, text: one.key ? `${one.key}=${one.value}` : one.value})) : [{name: 'RUNTIME', text: ''}]));
    const change = (index: number, next: Partial<Place>) => setPlaces(places.map((one, i) => (i === index ? {...one, ...next} : one)));
    const onSubmit = (event: SubmitEvent) => {
        const {text, all} = fieldsOf(event);
        const given = places.map((one) => ({...one, text: one.text.trim()})).filter((one) => one.text);
        onGiven({entityType: 'gitopsApplications', effect: text('effect'), teams: all('team'), actions: all('action'), tags: rule?.tags ?? [], attributes: given.map(attributeOf)});
    };
    return (
        <form class="form step wide" aria-label={rule ? 'Rule' : 'New rule'} onSubmit={onSubmit} onInput={onInput}>
            <label>It <select name="effect"><option value="ALLOW" selected={rule?.effect !== 'DENY'}>allows</option><option value="DENY" selected={rule?.effect === 'DENY'}>denies</option></select></label>
            <fieldset class="facet"><legend>To whom</legend>{teams.map((one) => <label key={one.id}><input type="checkbox" name="team" value={one.id} defaultChecked={rule?.teams.includes(one.id) ?? false} /> {one.name}</label>)}</fieldset>
            <fieldset class="facet"><legend>What</legend>{withOwn(actions, rule?.actions ?? [], actionWord).map(([value, name]) => <label key={value}><input type="checkbox" name="action" value={value} defaultChecked={rule?.actions.includes(value) ?? false} /> {name}</label>)}</fieldset>
            {places.map((one, index) => (
                <fieldset key={index} class="facet place">
                    <legend>{index ? 'And, of another attribute; or, of the same' : 'Where'}</legend>
                    <label>Where the <select value={one.name} onChange={(event) => change(index, {name: event.currentTarget.value})}>{withOwn(attributes, rule?.attributes.map((each) => each.name) ?? [], attributeWord).map(([value, name]) => <option key={value} value={value} selected={value === one.name}>{name}</option>)}</select></label>
                    <label>is (empty: everywhere; a label as key=value) <input maxLength={250} autocomplete="off" value={one.text} onInput={(event) => change(index, {text: event.currentTarget.value})} /></label>
                </fieldset>
            ))}
            <p class="twice"><button type="button" onClick={() => setPlaces([...places, {name: 'LABEL', text: ''}])}>Add a condition</button> <button type="submit">Preview the change</button></p>
        </form>
    );
}
