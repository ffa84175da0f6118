import assert from 'node:assert/strict';
import test from 'node:test';
import {type TreeNode, why, type WhyInput} from '../src/why.ts';
import {safeUrl, shortRevision} from '../src/words.ts';

const well: WhyInput = {healthStatus: 'HEALTHY', healthMessage: null, syncStatus: 'SYNCED', freshness: 'live', errors: [], operationState: null, syncPolicy: 'Manual'};
const runtime = {name: 'eu-3', disconnectCause: 'PINGS_MISSED'};
let uid = 0;
const node = (kind: string, name: string, more: Partial<TreeNode> = {}): TreeNode => ({
    group: '', kind, namespace: 'x', name, uid: String(++uid), cluster: 'in-cluster', parentRefs: [], createdAt: null, images: [], health: null, status: null,
    presence: 'PRESENT', missingRight: null, requiresPruning: false, freshness: 'live', ...more,
});

test('an application that is well needs no box', () => {
    assert.equal(why(well, [], runtime, 'live'), null);
});

test('a runtime that is away comes before everything else', () => {
    const found = why({...well, freshness: 'disconnected', healthStatus: 'DEGRADED'}, [], runtime, 'live');
    assert.equal(found?.title, 'Runtime eu-3 is not connected');
    assert.ok(found?.detail.includes('15 s'));
});

test('a failed operation names the resource that failed', () => {
    const resources = [{kind: 'Service', name: 'ok', namespace: 'x', message: null, status: 'Synced', hookPhase: null}, {kind: 'Job', name: 'db', namespace: 'x', message: 'BackoffLimitExceeded', status: null, hookPhase: 'Failed'}];
    const found = why({...well, operationState: {phase: 'Failed', message: 'one or more tasks failed', syncResult: {resources}}}, [], runtime, 'live');
    assert.equal(found?.detail, 'Job db: BackoffLimitExceeded');
});

test('of degraded resources the deepest with a reason is named', () => {
    const deployment = node('Deployment', 'web', {health: {status: 'Degraded', message: 'exceeded its deadline'}});
    const set = node('ReplicaSet', 'web-1', {parentRefs: [{uid: deployment.uid!}], health: {status: 'Degraded', message: null}});
    const pod = node('Pod', 'web-1-a', {parentRefs: [{uid: set.uid!}], health: {status: 'Degraded', message: 'ImagePullBackOff'}});
    const found = why({...well, healthStatus: 'DEGRADED'}, [deployment, pod, set], runtime, 'live');
    assert.equal(found?.title, 'Pod web-1-a is degraded');
    assert.equal(found?.detail, 'ImagePullBackOff');
});

test('owners that own each other do not hang the page', () => {
    const a = node('A', 'a', {health: {status: 'Degraded', message: 'x'}});
    const b = node('B', 'b', {parentRefs: [{uid: a.uid!}]});
    a.parentRefs = [{uid: b.uid!}];
    assert.equal(why({...well, healthStatus: 'DEGRADED'}, [a, b], runtime, 'live')?.title, 'A a is degraded');
});

test('out of sync counts what differs, and only while that is known', () => {
    const nodes = [node('ConfigMap', 'c', {status: 'OUT_OF_SYNC'}), node('Service', 's', {status: 'SYNCED'})];
    assert.equal(why({...well, syncStatus: 'OUT_OF_SYNC'}, nodes, runtime, 'live')?.title, '1 resource differs from Git');
    assert.equal(why({...well, syncStatus: 'OUT_OF_SYNC'}, nodes, runtime, 'lost'), null);
});

test('only http and https become links', () => {
    for (const bad of ['javascript:alert(1)', 'data:text/html,x', ' ', 'git@host:x', null]) assert.equal(safeUrl(bad), null, String(bad));
    assert.equal(safeUrl('https://git.example/x'), 'https://git.example/x');
    assert.equal(shortRevision('f1867a81c859bbb6536993901b49d195c465fc7a'), 'f1867a8');
    assert.equal(shortRevision('v1.2.3'), 'v1.2.3');
});
