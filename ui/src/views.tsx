// Views of the list of applications that this browser's user keeps: a name and the URL's parameters.
import {signal} from '@preact/signals';
import {href, search} from './router.ts';

const key = 'culvert.views';
const viewsMax = 20;
interface View {
    name: string;
    search: string;
}

function read(): View[] {
    try {
        const held = JSON.parse(localStorage.getItem(key) ?? '[]') as unknown;
        return Array.isArray(held) ? held.filter((one): one is View => typeof one?.name === 'string' && typeof one?.search === 'string').slice(0, viewsMax) : [];
    } catch {
        return [];
    }
}

const views = signal(read());
const isNaming = signal(false);

function keep(next: View[]): void {
    views.value = next.slice(-viewsMax);
    localStorage.setItem(key, JSON.stringify(views.peek()));
}

export function SavedViews() {
    const here = search.value;
    const held = views.value.find((one) => one.search === here);
    const onSubmit = (event: SubmitEvent) => {
        event.preventDefault();
        const name = new FormData(event.currentTarget as HTMLFormElement).get('name')?.toString().trim().slice(0, 60);
        if (name) keep([...views.peek().filter((one) => one.name !== name), {name, search: here}]);
        isNaming.value = false;
    };
    return (
        <div class="views">
            {views.value.map((one) => <a key={one.name} class="button" href={href(`ui/apps${one.search}`)} aria-current={one === held ? 'true' : undefined}>{one.name}</a>)}
            {held && <button type="button" class="plain" onClick={() => keep(views.peek().filter((one) => one !== held))}>Forget this view</button>}
            {!held && here && !isNaming.value && <button type="button" class="plain" onClick={() => (isNaming.value = true)}>Keep this view</button>}
            {isNaming.value && <form onSubmit={onSubmit}><label>Name <input name="name" maxLength={60} required /></label> <button type="submit">Keep</button></form>}
        </div>
    );
}
