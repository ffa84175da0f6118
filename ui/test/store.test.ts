import assert from 'node:assert/strict';
import test from 'node:test';
import {backoffMs} from '../src/backoff.ts';
import {isNotOlder, Store} from '../src/store.ts';
import {randomOf} from './random.ts';

interface Row {
    sequence: string;
    receivedAt: string;
    value: number;
}

const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();

test('answers in any order give the same rows', () => {
    const random = randomOf(11);
    for (let round = 0; round < 300; round++) {
        // The life of three objects: epochs and records that only grow, some states sent twice.
        const history: {key: string; row: Row}[] = [];
        for (const key of ['a', 'b', 'c']) {
            let epoch = 1;
            let record = 0;
            for (let n = 1; n <= 8; n++) {
                if (random() < 0.2) [epoch, record] = [epoch + 1, 0];
                record += 1 + Math.floor(random() * 1000);
                history.push({key, row: {sequence: `${epoch}.${record}`, receivedAt: at(n), value: n}});
            }
        }
        const shuffled = [...history, ...history.slice(0, 5)].map((one) => ({one, by: random()})).sort((x, y) => x.by - y.by).map(({one}) => one);
        const store = new Store<Row>();
        for (const {key, row} of shuffled) store.put(key, row);
        for (const key of ['a', 'b', 'c']) assert.equal(store.get(key)!.peek().value, 8);
    }
});

test('a record is a number, not a text', () => {
    assert.ok(isNotOlder({sequence: '1.10', receivedAt: at(1)}, {sequence: '1.9', receivedAt: at(1)}));
    assert.ok(!isNotOlder({sequence: '1.9', receivedAt: at(1)}, {sequence: '1.10', receivedAt: at(1)}));
    assert.ok(!isNotOlder({sequence: '9.9', receivedAt: at(1)}, {sequence: '10.1', receivedAt: at(1)}));
});

test('a runtime that was created anew begins again; reports over HTTP have no sequence', () => {
    assert.ok(isNotOlder({sequence: '1.1', receivedAt: at(9)}, {sequence: '7.50', receivedAt: at(1)}));
    assert.ok(isNotOlder({sequence: '0.0', receivedAt: at(2)}, {sequence: '0.0', receivedAt: at(1)}));
    assert.ok(!isNotOlder({sequence: '0.0', receivedAt: at(1)}, {sequence: '0.0', receivedAt: at(2)}));
});

test('a changed row keeps its signal, and what is not shown is forgotten', () => {
    const store = new Store<Row>();
    const held = store.put('a', {sequence: '1.1', receivedAt: at(1), value: 1});
    assert.equal(store.put('a', {sequence: '1.2', receivedAt: at(2), value: 2}), held);
    assert.equal(held.peek().value, 2);
    store.put('b', {sequence: '1.1', receivedAt: at(1), value: 1});
    store.keep(['a']);
    assert.equal(store.size, 1);
});

test('waits grow to a bound and are spread', () => {
    for (let n = 1; n < 40; n++) {
        const [low, high] = [backoffMs(n, 0), backoffMs(n, 1)];
        assert.ok(low >= 1000 && high <= 30_000 && low * 2 === high, `${n}: ${low} to ${high}`);
    }
    assert.equal(backoffMs(30, 1), 30_000);
});
