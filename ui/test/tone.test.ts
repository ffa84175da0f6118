import assert from 'node:assert/strict';
import {readdirSync, readFileSync} from 'node:fs';
import test from 'node:test';
import {type Freshness, freshnessClass, type Link, severity, tone, toneOfResult} from '../src/tone.ts';

const states = ['HEALTHY', 'PROGRESSING', 'DEGRADED', 'MISSING', 'SUSPENDED', 'UNKNOWN', 'TERMINATED', 'SYNCED', 'OUT_OF_SYNC', 'SYNCING', 'Succeeded', 'Failed', null, undefined, '', 'SOMETHING_NEW'];
const freshnesses: Freshness[] = ['live', 'lagging', 'stale', 'disconnected'];
const links: Link[] = ['live', 'lost'];

test('nothing has a colour that is not known now', () => {
    for (const state of states)
        for (const freshness of freshnesses)
            for (const link of links) {
                const isNow = link === 'live' && (freshness === 'live' || freshness === 'lagging');
                assert.equal(tone(state, freshness, link) === 'past', !isNow, `${state} ${freshness} ${link}`);
            }
    assert.equal(toneOfResult('Succeeded', 'lost'), 'past');
    for (const freshness of freshnesses) assert.equal(freshnessClass(freshness, 'lost'), 'tone-past');
});

test('states have their colour while they are known', () => {
    const expected: Record<string, string> = {HEALTHY: 'good', SYNCED: 'good', PROGRESSING: 'busy', DEGRADED: 'bad', MISSING: 'warn', OUT_OF_SYNC: 'warn', SUSPENDED: 'paused', UNKNOWN: 'unknown', SOMETHING_NEW: 'unknown', Failed: 'bad'};
    for (const [state, colour] of Object.entries(expected)) assert.equal(tone(state, 'live', 'live'), colour, state);
    assert.equal(freshnessClass('disconnected', 'live'), 'tone-bad');
});

test('worst first', () => {
    const order = ['DEGRADED', 'MISSING', 'PROGRESSING', 'SUSPENDED', 'UNKNOWN', 'HEALTHY'];
    for (let i = 1; i < order.length; i++) assert.ok(severity(order[i - 1]) < severity(order[i]), order[i]);
});

test('only tone.ts and tone.css know the colours of states', () => {
    const files = readdirSync('src', {recursive: true}).filter((name) => /\.(tsx?|css)$/.test(name));
    assert.ok(files.length > 10);
    for (const name of files) {
        const text = readFileSync(`src/${name}`, 'utf8');
        if (!name.endsWith('tone.css')) assert.ok(!text.includes('--tone-'), `${name} uses a colour of states`);
        if (!/(^|\/)tone\.(ts|css)$/.test(name)) assert.ok(!/tone-(?!past)[a-z]/.test(text), `${name} chooses a tone itself`);
        // Neutral colours are tokens, too: a literal would be a colour that no theme knows.
        if (/\.tsx?$/.test(name)) assert.ok(!/#[0-9a-f]{3,8}\b|\brgb\(/i.test(text.replace(/href="#[a-z]+"/g, '')), `${name} has a literal colour`);
    }
});

test('no markup is made of text', () => {
    for (const name of readdirSync('src', {recursive: true}).filter((one) => /\.tsx?$/.test(one)))
        assert.ok(!/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(readFileSync(`src/${name}`, 'utf8')), name);
});
