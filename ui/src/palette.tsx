// One box for everything: pages, what may be done on this page, and, by name, applications, runtimes and clusters.
import {useEffect, useState} from 'preact/hooks';
import {request, RequestError, signedIn} from './api.ts';
import {useDialog} from './dialog.ts';
import {keys, paletteIsOpen} from './keys.ts';
import {pages} from './pages.ts';
import {go} from './router.ts';
import {applicationPath, runtimePath} from './url.ts';

interface Hit {
    kind: string;
    name: string;
    beside: string; // where it is
    run: () => void;
}

const pauseMs = 80;
const hitsMax = 8; // of a kind
const clustersMax = 100;
const lengthMax = 100;

interface Named {
    edges: {node: {metadata: {name: string; namespace?: string | null; runtime?: string}}}[];
}

const query = `query Search($text: String!) {
  applications(pagination: {first: ${hitsMax}}, filters: {text: $text}) { edges { node { metadata { name namespace runtime } } } }
  runtimes(pagination: {first: 100}) { edges { node { metadata { name } } } }
  clusters(pagination: {first: ${clustersMax}}) { edges { node { metadata { name runtime } } } }
}`;

async function find(text: string, cancel: AbortSignal): Promise<Hit[]> {
    const {data} = await request<{applications: Named; runtimes: Named; clusters: Named}>(query, {text}, cancel);
    const hits = (kind: string, found: Named, run: (one: Named['edges'][0]['node']['metadata']) => void): Hit[] =>
        found.edges.map(({node: {metadata: one}}) => ({kind, name: one.name, beside: [one.runtime, one.namespace].filter(Boolean).join(' / '), run: () => run(one)}))
            .filter((one) => matches(one, text) || kind === 'Application').slice(0, hitsMax);
    return [
        ...hits('Application', data.applications, (one) => go(applicationPath(one.runtime ?? '', one.namespace ?? '', one.name))),
        ...hits('Runtime', data.runtimes, (one) => go(runtimePath(one.name))),
        ...hits('Cluster', data.clusters, (one) => go(`ui/clusters?runtime=${encodeURIComponent(one.runtime ?? '')}`)),
    ];
}

function matches(hit: {name: string}, text: string): boolean {
    return hit.name.toLowerCase().includes(text.toLowerCase());
}

// What is known without asking: the buttons of this page that may be pressed, pages, and what the keys do.
function known(): Hit[] {
    const buttons = [...document.querySelectorAll<HTMLElement>('main [data-action]:not([aria-disabled])')];
    const doing = keys.filter((one) => !one.keys.startsWith('g ') && one.keys.length === 1 && !'/jk[]sr'.includes(one.keys));
    return [
        ...buttons.slice(0, 20).map((one) => ({kind: 'Action', name: one.textContent ?? '', beside: one.closest('[role=group]')?.getAttribute('aria-label')?.replace(/^Actions on /, '') ?? '', run: () => one.click()})),
        ...pages.filter((one) => !one.forAdmins || signedIn.peek()?.isAdmin).map((one) => ({kind: 'Page', name: one.name, beside: '', run: () => go(one.to)})),
        {kind: 'Page', name: 'Your account, sessions and API keys', beside: '', run: () => go('ui/me')},
        ...doing.map((one) => ({kind: 'Action', name: one.does.charAt(0).toUpperCase() + one.does.slice(1), beside: '', run: one.run})),
    ];
}

function Results({hits, at, choose}: {hits: Hit[]; at: number; choose: (hit: Hit) => void}) {
    return (
        <ul id="palette-hits" role="listbox" aria-label="Results" class="hits">
            {hits.map((hit, i) => (
                <li key={`${hit.kind}/${hit.name}/${hit.beside}`} id={`hit-${i}`} role="option" aria-selected={i === at} onClick={() => choose(hit)}>
                    <span class="quiet">{hit.kind}</span> <span class="breaks">{hit.name}</span> <span class="quiet breaks">{hit.beside}</span>
                </li>
            ))}
        </ul>
    );
}

function Box({close}: {close: () => void}) {
    const [text, setText] = useState('');
    const [found, setFound] = useState<{of: string; hits: Hit[]}>({of: '', hits: []});
    const [problem, setProblem] = useState('');
    const [at, setAt] = useState(0);
    const [here] = useState(known);
    const asked = text.trim();
    useEffect(() => {
        setProblem('');
        if (!asked) return setFound({of: '', hits: []});
        const cancel = new AbortController();
        const timer = setTimeout(() => {
            find(asked, cancel.signal).then((hits) => setFound({of: asked, hits}), (error: unknown) => {
                if (!cancel.signal.aborted) setProblem(error instanceof RequestError ? error.message : String(error));
            });
        }, pauseMs);
        return () => {
            clearTimeout(timer);
            cancel.abort('cancelled');
        };
    }, [asked]);
    const hits = [...here.filter((one) => matches(one, asked)), ...(asked ? found.hits : [])].slice(0, 40);
    const current = Math.min(at, hits.length - 1);
    useEffect(() => document.getElementById(`hit-${current}`)?.scrollIntoView({block: 'nearest'}), [current]);
    const choose = (hit: Hit) => {
        close();
        hit.run();
    };
    const onKeyDown = (event: KeyboardEvent) => {
        const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
        if (step && hits.length) {
            event.preventDefault();
            setAt((current + step + hits.length) % hits.length);
        } else if (event.key === 'Enter') {
            event.preventDefault();
            const hit = hits[current];
            if (hit && (!asked || found.of === asked || problem || current < hits.length - found.hits.length)) choose(hit);
        }
    };
    return (
        <>
            <input type="text" role="combobox" aria-label="Search" aria-expanded="true" aria-controls="palette-hits" aria-activedescendant={hits.length ? `hit-${current}` : undefined}
                placeholder="An application, runtime, cluster, page or action" maxLength={lengthMax} autocomplete="off" value={text}
                onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={onKeyDown} />
            <Results hits={hits} at={current} choose={choose} />
            <p class="quiet" role="status">{problem ? `Nothing could be asked: ${problem}` : asked && found.of !== asked ? 'Searching' : hits.length ? '' : 'Nothing has this name.'}</p>
        </>
    );
}

export function Palette() {
    const open = paletteIsOpen.value;
    const {dialog, onClose} = useDialog(open, () => (paletteIsOpen.value = false));
    const close = () => {
        dialog.current?.close(); // at once, so that what runs next finds no dialog and its own focus stays
        paletteIsOpen.value = false;
    };
    return (
        <dialog ref={dialog} class="help palette" aria-label="Search and commands" onClose={onClose} onClick={(event) => { if (event.target === dialog.current) close(); }}>
            {open && <Box close={close} />}
        </dialog>
    );
}
