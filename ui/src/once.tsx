// What is shown once, and a button that asks before it does what cannot be undone.
import {useState} from 'preact/hooks';

export function Copy({text, label}: {text: string; label: string}) {
    const [done, setDone] = useState('');
    const copy = () => navigator.clipboard.writeText(text).then(() => setDone('copied'), () => setDone('this browser does not permit it: select the text'));
    return <span><button type="button" onClick={() => void copy()}>{label}</button> <span class="quiet" role="status">{done}</span></span>;
}

export function Secret({title, token, children}: {title: string; token: string; children?: preact.ComponentChildren}) {
    return (
        <div class="once" role="status">
            <p><b>{title}</b> It is shown this once; keep it where secrets are kept.</p>
            <pre class="code" tabIndex={0} aria-label="Token">{token}</pre>
            <p><Copy text={token} label="Copy the token" /></p>
            {children}
        </div>
    );
}

export function Twice({name, sure, run, isPrimary}: {name: string; sure: string; run: () => Promise<void>; isPrimary?: boolean}) {
    const [isAsked, setAsked] = useState(false);
    if (!isAsked) return <button type="button" onClick={() => setAsked(true)}>{name}</button>;
    return (
        <span class="twice">
            <button type="button" class={isPrimary ? 'primary' : ''} ref={(button) => button?.focus()} onClick={() => { setAsked(false); void run(); }}>{sure}</button>
            <button type="button" class="plain" onClick={() => setAsked(false)}>Keep</button>
        </span>
    );
}
