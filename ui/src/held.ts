// What a screen holds of its last answer, so that coming back to it shows something at once. An
// answer that has become too old meanwhile is not shown: its age would not be that of the page's link.
import {signal} from '@preact/signals';
import {onForget, silentMs} from './api.ts';
import {serverNow} from './time.ts';

export class Held<T> {
    private content = signal<T | null>(null);
    private at = 0;

    constructor() {
        onForget(() => (this.content.value = null));
    }

    get value(): T | null {
        return this.content.value;
    }

    set value(next: T | null) {
        this.at = serverNow();
        this.content.value = next;
    }

    peek(): T | null {
        return this.content.peek();
    }

    // When its screen opens.
    dropIfOld(): void {
        if (serverNow() - this.at > silentMs) this.content.value = null;
    }
}
