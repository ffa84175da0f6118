// Server-sent events as Culvert writes them (docs/live.md): fields of one line each.
export interface StreamEvent {
    name: string;
    data: string;
    comment: string;
    id: string;
}

// The events that are complete in the text, and the rest of it.
export function takeEvents(text: string): {events: StreamEvent[]; rest: string} {
    const blocks = text.split('\n\n');
    const rest = blocks.pop() ?? '';
    const events = blocks.map((block) => {
        const event: StreamEvent = {name: '', data: '', comment: '', id: ''};
        for (const line of block.split('\n')) {
            const at = line.indexOf(':');
            const value = line.slice(at + 1).replace(/^ /, '');
            if (at === 0) event.comment = value;
            else if (line.startsWith('event:')) event.name = value;
            else if (line.startsWith('data:')) event.data = value;
            else if (line.startsWith('id:')) event.id = value;
        }
        return event;
    });
    return {events, rest};
}
