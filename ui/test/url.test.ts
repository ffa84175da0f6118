import assert from 'node:assert/strict';
import test from 'node:test';
import {applicationPath, decodeList, emptyFilters, encodeList, type FilterKey, filterKeys, type ListView, parseRoute, parseTyped, single, unknownKeys} from '../src/url.ts';
import {randomOf} from './random.ts';

const isSingle = (key: string) => (single as readonly string[]).includes(key);
const texts = ['a', 'b c', 'ns:x', 'é✓', '%2F', '&=?#', '"><script>', 'x'.repeat(300), '-', '!', '+', '😀'];

test('every view comes back from its URL, and equal views have equal URLs', () => {
    const random = randomOf(7);
    for (let i = 0; i < 2000; i++) {
        const filters = emptyFilters();
        for (const key of filterKeys)
            for (let n = Math.floor(random() * 4); n > 0; n--) filters[key].push(texts[Math.floor(random() * texts.length)]!);
        const view: ListView = {filters, sort: random() < 0.5 ? '-health' : '', view: random() < 0.5 ? 'tiles' : '', group: random() < 0.3 ? 'ns' : '', after: random() < 0.3 ? 'Y3Vyc29y/+=' : '', before: random() < 0.3 ? 'YmVmb3Jl' : ''};
        const url = encodeList(view);
        const again = decodeList(url);
        assert.equal(encodeList(again), url);
        for (const key of filterKeys) {
            const expected = isSingle(key) ? filters[key].slice(0, 1) : [...new Set(filters[key])].sort();
            assert.deepEqual(again.filters[key], expected, key);
        }
        const shuffled = {...view, filters: Object.fromEntries(Object.entries(filters).reverse().map(([key, values]) => [key, isSingle(key) ? values : [...values].reverse()])) as Record<FilterKey, string[]>};
        assert.equal(encodeList(shuffled), url);
    }
});

test('a URL from outside is bounded, and what is not known is named', () => {
    const many = Array.from({length: 500}, (_, i) => `ns=${i}`).join('&');
    assert.equal(decodeList(`?${many}`).filters.ns.length, 20);
    assert.equal(decodeList(`?q=${'x'.repeat(5000)}`).filters.q[0]!.length, 300);
    assert.deepEqual(decodeList('?health=&health=%20').filters.health, []);
    assert.equal(decodeList('?after=a&before=b').before, '');
    assert.deepEqual(unknownKeys('?q=1&colour=name&colour=x&sort=health&after=z'), ['colour']);
    assert.equal(decodeList('?sort=drop').sort, '');
});

test('typed words become filters, and wrong ones are named', () => {
    assert.deepEqual(parseTyped('runtime:eu-3 health:out-of check out'), {filters: {runtime: ['eu-3'], health: ['OUT_OF'], q: ['check out']}, invalid: []});
    assert.deepEqual(parseTyped('label:team=core ns:').invalid, ['ns:']);
    assert.deepEqual(parseTyped('colour:red').invalid, ['colour:red']);
    assert.deepEqual(parseTyped('  ').filters, {});
});

test('routes', () => {
    assert.deepEqual(parseRoute('ui/'), {page: 'home'});
    assert.deepEqual(parseRoute('ui/apps/'), {page: 'applications'});
    const path = applicationPath('eu/3', 'a b', 'ü%');
    assert.deepEqual(parseRoute(path), {page: 'application', runtime: 'eu/3', namespace: 'a b', name: 'ü%'});
    assert.deepEqual(parseRoute(applicationPath('r', null, 'n')), {page: 'application', runtime: 'r', namespace: '-', name: 'n'});
    for (const bad of ['', 'apps', 'ui/apps/a', 'ui/apps/a/b/c/d', 'ui/%E0%A4%A', 'ui/nothing', 'ui/runtimes/a/b']) assert.deepEqual(parseRoute(bad), {page: 'unknown'}, bad);
});
