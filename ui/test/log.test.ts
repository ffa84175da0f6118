import assert from 'node:assert/strict';
import test from 'node:test';
import {hasLogs, logPath, readEvent} from '../src/log_event.ts';

const target = {runtime: 'eu-1', group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web'};

test('the request asks for what is chosen', () => {
    const options = {previous: false, follow: true, sinceSeconds: 300, tailLines: 1000};
    const query = (path: string) => new URLSearchParams(path.split('?')[1]);
    assert.equal(query(logPath(target, options, '')).toString(), 'namespace=shop&kind=Deployment&group=apps&name=web&follow=true&sinceSeconds=300&tailLines=1000');
    const again = query(logPath(target, options, '2026-01-31T12:00:00.5Z'));
    assert.deepEqual([again.get('sinceTime'), again.get('sinceSeconds'), again.get('tailLines')], ['2026-01-31T12:00:00.5Z', null, null]);
    const previous = query(logPath(target, {...options, previous: true}, ''));
    assert.deepEqual([previous.get('previous'), previous.get('follow')], ['true', null]);
});

test('there are logs of what the agent reads, and of that alone', () => {
    const pod = {kind: 'Pod', presence: 'PRESENT'};
    assert.equal(hasLogs(pod, false), true);
    assert.equal(hasLogs(pod, true), false);
    assert.equal(hasLogs({...pod, presence: 'MISSING'}, false), false);
    assert.equal(hasLogs({...pod, kind: 'ConfigMap'}, false), false);
});

test('events are lines, notices or the end', () => {
    assert.deepEqual(readEvent('{"time":"t","pod":"p","container":"c","line":"<b>"}'), {line: {time: 't', origin: 'p/c', text: '<b>', notice: false}, ended: false});
    assert.equal(readEvent('{"event":"notice","code":"NO_LOG","message":"none yet","pod":"p"}').line?.text, 'none yet');
    assert.deepEqual(readEvent('{"event":"end"}'), {line: null, ended: true});
    assert.deepEqual(readEvent('{"event":"heartbeat"}'), {line: null, ended: false});
    assert.equal(readEvent('{').line?.notice, true);
});
