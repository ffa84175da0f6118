// Changes that forms and buttons of a screen ask for: one at a time says why it failed, and what is
// shown is read again after one that succeeded.
import {signal} from '@preact/signals';
import {onForget, RequestError} from './api.ts';
import {reload} from './poll.ts';

export function reasonOf(error: unknown): string {
    return error instanceof RequestError ? error.message : String(error);
}

export class Changes {
    readonly problem = signal('');

    constructor() {
        onForget(() => (this.problem.value = ''));
    }

    // null: it failed.
    async run<T>(change: () => Promise<T>): Promise<T | null> {
        this.problem.value = '';
        try {
            const done = await change();
            reload();
            return done;
        } catch (error) {
            this.problem.value = reasonOf(error);
            return null;
        }
    }
}

// The fields of a form that is submitted, without the blanks around them.
export function fieldsOf(event: SubmitEvent): {form: HTMLFormElement; text: (name: string) => string; all: (name: string) => string[]} {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form);
    return {form, text: (name) => data.get(name)?.toString().trim() ?? '', all: (name) => data.getAll(name).map(String)};
}
