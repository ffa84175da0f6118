// Small pieces that all screens share.
import type {ComponentChildren} from 'preact';
import {failure, lastAnswer, link, retryAt} from './api.ts';
import {Icon, stateIcons} from './icons.tsx';
import {isLoading, reload} from './poll.ts';
import {href} from './router.ts';
import {absolute, age, duration, now} from './time.ts';
import {type Freshness, freshnessClass, isKnown, resultClass, severity, toneClass} from './tone.ts';
import {runtimePath} from './url.ts';
import {causeOf, freshnessWords, stateWord} from './words.ts';

export interface RuntimeRef {
    metadata: {name: string};
    freshness: Freshness;
    lagSeconds: number | null;
    since: string | null;
    disconnectCause: string | null;
}

// A state of now: grey, hatched and in the past tense where it is not known now.
export function State({state, freshness, brief}: {state: string | null; freshness: Freshness; brief?: boolean}) {
    const known = isKnown(freshness, link.value);
    const word = stateWord(state);
    return (
        <span class={`state ${toneClass(state, freshness, link.value)}`}>
            <Icon name={stateIcons[(state ?? '').toUpperCase()] ?? 'unknown'} />
            <span class={brief ? 'brief' : ''}>{known ? word : `was ${word}`}</span>
        </span>
    );
}

// How something ended.
export function Result({result}: {result: string | null}) {
    return (
        <span class={`state ${resultClass(result, link.value)}`}>
            <Icon name={stateIcons[(result ?? '').toUpperCase()] ?? 'unknown'} />
            <span>{stateWord(result)}</span>
        </span>
    );
}

// How old what is shown is, and why.
export function AsOf({freshness, seen, runtime}: {freshness: Freshness; seen: string | null; runtime?: RuntimeRef | undefined}) {
    if (link.value !== 'live')
        return <span class="as-of tone-past"><Icon name="clock" /> as of {absolute(new Date(lastAnswer.value).toISOString())}</span>;
    if (freshness === 'live') return <span class="as-of quiet" title={absolute(seen)}>live</span>;
    if (freshness === 'lagging')
        return (
            <span class={`as-of ${freshnessClass(freshness, link.value)}`} title={absolute(seen)}>
                <Icon name="clock" /> {runtime?.lagSeconds != null ? `${Math.round(runtime.lagSeconds)} s behind` : 'catching up'}
            </span>
        );
    if (freshness === 'stale') return <span class="as-of tone-past" title={absolute(seen)}><Icon name="clock" /> as of {age(seen) || 'an unknown time'}</span>;
    return (
        <span class="as-of tone-past" title={runtime ? causeOf(runtime.disconnectCause).what : ''}>
            <Icon name="link" /> not connected{runtime?.since ? ` for ${duration(now.value - Date.parse(runtime.since))}` : ''}
        </span>
    );
}

export function Connection({runtime}: {runtime: RuntimeRef}) {
    const {freshness} = runtime;
    return (
        <span class={`state ${freshnessClass(freshness, link.value)}`}>
            <Icon name={freshness === 'live' ? 'dot' : freshness === 'disconnected' ? 'link' : 'clock'} />
            <span>{link.value === 'live' ? freshnessWords[freshness] : `was ${freshnessWords[freshness].toLowerCase()}`}</span>
        </span>
    );
}

export function RuntimeLink({name}: {name: string}) {
    return <a href={href(runtimePath(name))}>{name}</a>;
}

export function Age({time}: {time: string | null | undefined}) {
    if (!time) return null;
    return <time dateTime={time} title={absolute(time)}>{age(time)}</time>;
}

// The page's own link, when it is lost; everything below is grey then.
export function LinkBar() {
    const problem = failure.value;
    if (link.value === 'live' || !lastAnswer.value) return null;
    const wait = Math.max(0, retryAt.value - now.value);
    return (
        <div class="link-bar" role="alert">
            <Icon name="link" />
            <span>
                Not connected to Culvert for {duration(now.value - lastAnswer.value)}
                {problem ? `: ${problem.detail || problem.title}` : ''}. Shown: {absolute(new Date(lastAnswer.value).toISOString())}.
                {isLoading.value ? ' Retrying now.' : wait > 0 ? ` Retrying in ${duration(wait)}.` : ''}
            </span>
            <button type="button" onClick={reload}>Retry now</button>
        </div>
    );
}

// What a screen shows instead of its content: an error, or a skeleton while nothing has arrived.
export function Waiting({rows = 6}: {rows?: number}) {
    const problem = failure.value;
    if (problem)
        return (
            <div class="notice" role="alert">
                <h2>{problem.title}</h2>
                <p>{problem.detail}</p>
                {problem.traceId && <p class="quiet">Trace id <code>{problem.traceId}</code>{problem.code ? <> · <code>{problem.code}</code></> : null}</p>}
                <button type="button" onClick={reload}>Retry now</button>
            </div>
        );
    return (
        <div class="skeletons" role="status" aria-label="Loading">
            {Array.from({length: rows}, (_, i) => <div key={i} class="skeleton" />)}
        </div>
    );
}

export function Empty({title, children}: {title: string; children?: ComponentChildren}) {
    return <div class="notice"><h2>{title}</h2>{children}</div>;
}

export function PartialErrors({errors}: {errors: {message: string}[]}) {
    if (!errors.length) return null;
    return <p class="partial" role="alert">A part of this page is missing: {errors[0]?.message}</p>;
}

export interface Finding {
    level: string;
    title: string;
    message: string;
    suggestion: string | null;
    lastSeen: string;
}

// Errors and warnings with what to do about them.
export function Findings({findings, freshness}: {findings: (Finding | null)[]; freshness: Freshness}) {
    const list = findings.filter((one): one is Finding => one !== null).sort((a, b) => severity(a.level) - severity(b.level));
    return (
        <ul class="findings">
            {list.map((one, i) => (
                <li key={i}>
                    <p class="finding-title">
                        <span class={`state ${toneClass(one.level, freshness, link.value)}`}><Icon name="warn" /><span>{stateWord(one.level)}</span></span>
                        <strong>{one.title}</strong>
                        <span class="quiet">seen <Age time={one.lastSeen} /></span>
                    </p>
                    <p>{one.message}</p>
                    {one.suggestion && <p class="cure">What helps: {one.suggestion}</p>}
                </li>
            ))}
        </ul>
    );
}
