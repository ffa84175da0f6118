import assert from 'node:assert/strict';
import test from 'node:test';
import {takeEvents} from '../src/events.ts';

const text = 'retry: 1000\nid: a:b\nevent: next\ndata: {"data":{"x":": "}}\n\n:{"time":"t"}\nid: c\n\nevent: complete\ndata:\n\n';

test('events are the same however their bytes arrive', () => {
    for (let cut = 0; cut <= text.length; cut++) {
        const first = takeEvents(text.slice(0, cut));
        const second = takeEvents(first.rest + text.slice(cut));
        assert.equal(second.rest, '');
        assert.deepEqual([...first.events, ...second.events], [
            {name: 'next', data: '{"data":{"x":": "}}', comment: '', id: 'a:b'},
            {name: '', data: '', comment: '{"time":"t"}', id: 'c'},
            {name: 'complete', data: '', comment: '', id: ''},
        ]);
    }
});
