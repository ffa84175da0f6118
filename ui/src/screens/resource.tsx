// One resource of an application, in a panel beside the list: what is known of it, and the logs of its pods.
// The URL names it (`node`), so that a copied link opens it.
import {useEffect, useState} from 'preact/hooks';
import {Actions} from '../actions.tsx';
import {LogReader} from '../log.ts';
import {hasLogs, type LogLine, type LogOptions, type LogTarget} from '../log_event.ts';
import {Age, State} from '../parts.tsx';
import {ResourceEvents} from './kubernetes_events.tsx';
import {go, href} from '../router.ts';
import {absolute} from '../time.ts';
import type {Freshness} from '../tone.ts';
import type {TreeNode} from '../why.ts';
import {clusterName, count} from '../words.ts';

const linesShown = 2000;

export function nodeKey(node: TreeNode): string {
    return [node.group ?? '', node.kind ?? '', node.namespace ?? '', node.name ?? ''].join('/');
}

// ---- logs ----------------------------------------------------------------------------------

const sinces: [number, string][] = [[0, 'all that is kept'], [300, '5 minutes'], [3600, '1 hour'], [86400, '1 day']];

function Line({line, withOrigin, withTime}: {line: LogLine; withOrigin: boolean; withTime: boolean}) {
    if (line.notice) return <div class="log-notice">{line.origin ? `${line.origin}: ` : ''}{line.text}</div>;
    return (
        <div class="log-line">
            {withTime && <span class="log-time">{absolute(line.time)} </span>}
            {withOrigin && <span class="log-origin">{line.origin} </span>}
            {line.text}
        </div>
    );
}

const stateWords = {opening: 'Asking the cluster for the log…', open: 'Following', ended: 'Complete', waiting: 'Interrupted, trying again', failed: 'No log'};

function Lines({reader, filter, withTime, wrap}: {reader: LogReader; filter: string; withTime: boolean; wrap: boolean}) {
    void reader.version.value;
    const needle = filter.toLowerCase();
    const chosen = needle ? reader.lines.filter((line) => line.notice || line.text.toLowerCase().includes(needle)) : reader.lines;
    const shown = chosen.slice(-linesShown);
    const origins = new Set(shown.filter((line) => !line.notice).map((line) => line.origin));
    const element = (pre: HTMLElement | null) => {
        // The newest line stays in view unless the reader has scrolled up.
        if (pre && pre.dataset.held !== 'true') pre.scrollTop = pre.scrollHeight;
    };
    const onScroll = (event: Event) => {
        const pre = event.currentTarget as HTMLElement;
        pre.dataset.held = String(pre.scrollHeight - pre.scrollTop - pre.clientHeight > 40);
    };
    const state = reader.state.value;
    return (
        <>
            <p class={`log-state ${state === 'failed' ? 'log-failed' : 'quiet'}`} role="status">
                {stateWords[state]}{reader.message.value ? `: ${reader.message.value}` : ''}
                {reader.lines.length > 0 && `. ${count(chosen.filter((line) => !line.notice).length, 'line')}${needle ? ' with this text' : ''}`}
                {(reader.dropped > 0 || chosen.length > linesShown) && `, the newest ${shown.length} are shown`}
            </p>
            <pre class={`log ${wrap ? 'log-wrap' : ''}`} tabIndex={0} aria-label="Log" ref={element} onScroll={onScroll}>
                {shown.map((line) => <Line key={line.number} line={line} withOrigin={origins.size > 1} withTime={withTime} />)}
            </pre>
        </>
    );
}

function Check({name, value, onChange}: {name: string; value: boolean; onChange: (value: boolean) => void}) {
    return <label><input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} /> {name}</label>;
}

function Logs({target}: {target: LogTarget}) {
    const [options, setOptions] = useState<LogOptions>({previous: false, follow: true, sinceSeconds: 0, tailLines: 1000});
    const [filter, setFilter] = useState('');
    const [withTime, setWithTime] = useState(false);
    const [wrap, setWrap] = useState(true);
    const key = JSON.stringify([target, options]);
    const [reader, setReader] = useState<LogReader | null>(null);
    useEffect(() => { // not while rendering: what is never shown would never be closed
        const made = new LogReader(target, options);
        setReader(made);
        return () => made.close();
    }, [key]);
    const set = (change: Partial<LogOptions>) => setOptions({...options, ...change});
    return (
        <section class="logs" aria-label="Logs">
            <div class="bar">
                <label>Filter <input type="search" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></label>
                <label>Since{' '}
                    <select value={String(options.sinceSeconds)} onChange={(event) => set({sinceSeconds: Number(event.currentTarget.value)})}>
                        {sinces.map(([seconds, name]) => <option key={seconds} value={String(seconds)}>{name}</option>)}
                    </select>
                </label>
                <Check name="Follow" value={options.follow && !options.previous} onChange={(follow) => set({follow, previous: false})} />
                <Check name="Before the last restart" value={options.previous} onChange={(previous) => set({previous})} />
                <Check name="Times" value={withTime} onChange={setWithTime} />
                <Check name="Wrap" value={wrap} onChange={setWrap} />
            </div>
            {reader && <Lines reader={reader} filter={filter} withTime={withTime} wrap={wrap} />}
        </section>
    );
}

// ---- the panel -----------------------------------------------------------------------------

function Summary({node, freshness}: {node: TreeNode; freshness: Freshness}) {
    const images = (node.images ?? []).filter(Boolean);
    return (
        <dl class="pairs">
            <dt>Health</dt><dd>{node.health?.status ? <State state={node.health.status} freshness={freshness} /> : 'none'}</dd>
            {node.health?.message && <><dt>Message</dt><dd class="breaks">{node.health.message}</dd></>}
            <dt>Git</dt><dd>{node.status && node.status !== 'UNKNOWN' ? <State state={node.status} freshness={freshness} /> : 'not compared'}{node.requiresPruning ? ', no longer in Git' : ''}</dd>
            <dt>Namespace</dt><dd>{node.namespace ?? 'none'}</dd>
            {node.cluster && <><dt>Cluster</dt><dd class="breaks">{clusterName(node.cluster)}</dd></>}
            <dt>Group</dt><dd>{node.group || 'core'}</dd>
            {images.length > 0 && <><dt>Images</dt><dd class="breaks">{images.map((image) => <div key={image}>{image}</div>)}</dd></>}
            <dt>Created</dt><dd><Age time={node.createdAt} /></dd>
            {node.missingRight && <><dt>Missing right</dt><dd class="breaks">{node.missingRight.message}</dd></>}
        </dl>
    );
}

// isElsewhere: in a cluster that the agent only reads; logs and operations are of its own.
export function ResourcePanel({node, isElsewhere, runtime, freshness, params, base}: {node: TreeNode; isElsewhere: boolean; runtime: string; freshness: Freshness; params: URLSearchParams; base: string}) {
    const to = (panel: string) => {
        const next = new URLSearchParams(params);
        if (panel === '') next.delete('node');
        panel === 'logs' ? next.set('panel', panel) : next.delete('panel');
        return `${base}${next.size ? `?${next}` : ''}`;
    };
    const withLogs = hasLogs(node, isElsewhere);
    const panel = params.get('panel') === 'logs' && withLogs ? 'logs' : 'summary';
    useEffect(() => {
        const onKey = (event: KeyboardEvent) => {
            if (event.key === 'Escape') go(to(''));
        };
        addEventListener('keydown', onKey);
        return () => removeEventListener('keydown', onKey);
    });
    const target = {runtime, group: node.group ?? '', kind: node.kind ?? '', namespace: node.namespace ?? '', name: node.name ?? ''};
    return (
        <section class="panel resource-panel" aria-label={`${node.kind} ${node.name}`}>
            <div class="card-head">
                <h2><span class="kind">{node.kind}</span> {node.name}</h2>
                <a href={href(to(''))} aria-label="Close">Close</a>
            </div>
            {!isElsewhere && node.presence === 'PRESENT' && target.namespace && <Actions target={target} only={(id) => target.kind !== 'Application' || id !== 'TERMINATE_SYNC'} />}
            <nav class="tabs" aria-label="Parts of the resource">
                <a href={href(to('summary'))} aria-current={panel === 'summary' ? 'page' : undefined}>Summary</a>
                {withLogs && <a href={href(to('logs'))} aria-current={panel === 'logs' ? 'page' : undefined}>Logs</a>}
            </nav>
            {panel === 'logs' ? <Logs target={target} /> : <><Summary node={node} freshness={node.freshness ?? freshness} /><ResourceEvents node={node} runtime={runtime} seen={node.health?.message ?? ''} /></>}
        </section>
    );
}
