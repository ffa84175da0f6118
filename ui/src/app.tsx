// The frame around every screen: navigation, the page's own link, help.
import {useEffect} from 'preact/hooks';
import {Confirm, OperationChips} from './actions.tsx';
import {lastAnswer, link, signedIn, signOut} from './api.ts';
import {useDialog} from './dialog.ts';
import {Icon} from './icons.tsx';
import {helpIsOpen, keys, paletteIsOpen} from './keys.ts';
import {following} from './live.ts';
import {pages} from './pages.ts';
import {Palette} from './palette.tsx';
import {Empty, LinkBar} from './parts.tsx';
import {href, route} from './router.ts';
import {ApplicationPage} from './screens/application.tsx';
import {Applications} from './screens/applications.tsx';
import {Device} from './screens/device.tsx';
import {Home} from './screens/home.tsx';
import {Install} from './screens/install.tsx';
import {ListPage, listTitle} from './screens/lists.tsx';
import {Me} from './screens/me.tsx';
import {RuntimePage, Runtimes} from './screens/runtimes.tsx';
import {Settings} from './screens/settings.tsx';
import {leaveSignIn, Mark, SignIn} from './screens/sign_in.tsx';
import {applyTheme, nextTheme, theme} from './theme.ts';
import {duration, now} from './time.ts';
import {linkClass} from './tone.ts';

function Screen() {
    const at = route.value;
    switch (at.page) {
        case 'home': return <Home />;
        case 'applications': return <Applications />;
        case 'application': return <ApplicationPage key={`${at.runtime}/${at.namespace}/${at.name}`} runtime={at.runtime} namespace={at.namespace} name={at.name} />;
        case 'runtimes': return <Runtimes />;
        case 'runtime': return <RuntimePage key={at.name} name={at.name} />;
        case 'list': return <ListPage key={at.list} name={at.list} />;
        case 'me': return <Me />;
        case 'settings': return <Settings />;
        case 'install': return <Install />;
        case 'device': return <Device />;
        default: return <><header class="page-head"><h1>No such page</h1></header><Empty title="This address leads nowhere"><p><a href={href('ui/')}>Home</a></p></Empty></>;
    }
}

const titles = {list: '', home: 'Home', applications: 'Applications', application: '', runtimes: 'Runtimes', runtime: '', me: 'Your account', install: 'Add a runtime', device: 'Sign in a command line', settings: 'Settings', unknown: 'No such page'};

function Navigation() {
    const {page} = route.value;
    const here = page === 'list' ? route.value.list : page;
    return (
        <nav class="navigation" aria-label="Main">
            {pages.filter((one) => !one.forAdmins).map(({to, name, icon, of}) => <a key={to} href={href(to)} aria-current={of.includes(here) ? 'page' : undefined}><Icon name={icon} /> <span>{name}</span></a>)}
        </nav>
    );
}

function LinkState() {
    if (!lastAnswer.value) return null;
    return (
        <span class={`link-state ${linkClass(link.value)}`}>
            <Icon name={link.value === 'live' ? 'dot' : 'link'} />
            <span>{link.value === 'live' ? (following.value ? 'live' : 'connected') : `no answer for ${duration(now.value - lastAnswer.value)}`}</span>
        </span>
    );
}

function Top() {
    const themeNames = {system: 'as the system', light: 'light', dark: 'dark'};
    return (
        <header class="top">
            <a class="brand" href={href('ui/')}><Mark /> <span>Culvert</span></a>
            <Navigation />
            <div class="top-end">
                <LinkState />
                <button type="button" class="quiet-button" onClick={() => (paletteIsOpen.value = true)} title="Search (Ctrl K)"><Icon name="search" /><span class="hidden">Search</span></button>
                <button type="button" class="quiet-button" onClick={() => applyTheme(nextTheme())} title={`Theme: ${themeNames[theme.value]}`}><Icon name="theme" /><span class="hidden">Theme: {themeNames[theme.value]}</span></button>
                <button type="button" class="quiet-button wide-only" onClick={() => (helpIsOpen.value = true)} title="Keys"><Icon name="keys" /><span class="hidden">Keys</span></button>
                {signedIn.value?.isAdmin && <a class="button quiet-button" href={href('ui/settings')} title="Settings" aria-current={route.value.page === 'settings' ? 'page' : undefined}><Icon name="sliders" /><span class="hidden">Settings</span></a>}
                <a class="who" href={href('ui/me')} title={`Your account: ${signedIn.value?.user} of ${signedIn.value?.account}`} aria-current={route.value.page === 'me' ? 'page' : undefined}>{signedIn.value?.user}</a>
                <button type="button" class="quiet-button" onClick={() => void signOut()} title="Sign out"><Icon name="out" /><span class="hidden">Sign out</span></button>
            </div>
        </header>
    );
}

function Help() {
    const {dialog, onClose} = useDialog(helpIsOpen.value, () => (helpIsOpen.value = false));
    return (
        <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}>
            <h2 id="help-title">Keys</h2>
            <dl class="pairs">
                {keys.map((key) => <><dt key={key.keys}>{key.keys.split(' ').map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd key={`${key.keys}d`}>{key.does}</dd></>)}
                <dt><kbd>Enter</kbd></dt><dd>open the row that has the focus</dd>
            </dl>
            <button type="button" onClick={() => (helpIsOpen.value = false)}>Close</button>
        </dialog>
    );
}

export function App() {
    const at = route.value;
    const title = at.page === 'application' || at.page === 'runtime' ? at.name : at.page === 'list' ? listTitle(at.list) : titles[at.page];
    useEffect(() => {
        document.title = `${title} · Culvert`;
    }, [title]);
    useEffect(() => {
        if (signedIn.value) leaveSignIn();
    }, [signedIn.value]);
    if (signedIn.value === undefined) return null;
    if (!signedIn.value) return <SignIn />;
    return (
        <>
            <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to content</a>
            <Top />
            <LinkBar />
            <main id="main" tabIndex={-1} class={link.value === 'live' ? '' : 'is-old'}><Screen /></main>
            <Help />
            <Palette />
            <Confirm />
            <OperationChips />
        </>
    );
}
