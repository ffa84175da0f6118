// The log of a resource's pods, as it arrives from the cluster: one stream, a bounded buffer, and what
// became of it in words. Lines are texts; nothing of them is interpreted.
import {signal} from '@preact/signals';
import {problemOf, RequestError, stream} from './api.ts';
import {backoffMs} from './backoff.ts';
import {type LogLine, type LogOptions, logPath, type LogTarget, readEvent} from './log_event.ts';

export const linesMax = 20_000;
const pieceMax = 1024 * 1024; // of a line that has not ended

export type LogState = 'opening' | 'open' | 'ended' | 'waiting' | 'failed';

export class LogReader {
    readonly version = signal(0); // counts changes of what is below
    readonly state = signal<LogState>('opening');
    readonly message = signal('');
    lines: LogLine[] = [];
    dropped = 0;
    private cancel = new AbortController();
    private newest = new Map<string, string>(); // of each origin, the time of its last line
    private frame = 0;
    private failures = 0;
    private timer: ReturnType<typeof setTimeout> | undefined;

    constructor(private target: LogTarget, private options: LogOptions) {
        void this.run('');
    }

    close(): void {
        clearTimeout(this.timer);
        cancelAnimationFrame(this.frame);
        this.cancel.abort('cancelled');
    }

    private changed(): void {
        this.frame ||= requestAnimationFrame(() => {
            this.frame = 0;
            this.version.value++;
        });
    }

    private add(line: Omit<LogLine, 'number'>): void {
        if (!line.notice && line.time) {
            if (line.time <= (this.newest.get(line.origin) ?? '')) return; // sent again after a reconnect
            this.newest.set(line.origin, line.time);
        }
        this.lines.push({...line, number: this.dropped + this.lines.length});
        if (this.lines.length > linesMax * 1.1) {
            this.dropped += this.lines.length - linesMax;
            this.lines = this.lines.slice(-linesMax);
        }
    }

    // True: the answer came to its end.
    private async read(body: ReadableStream<Uint8Array>): Promise<boolean> {
        const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
        let rest = '';
        let whole = false;
        for (;;) {
            const {done, value} = await reader.read();
            if (done) return whole;
            const parts = (rest + value).split('\n');
            rest = (parts.pop() ?? '').slice(0, pieceMax);
            for (const part of parts) {
                const {line, ended} = readEvent(part);
                if (line) this.add(line);
                whole ||= ended;
            }
            this.failures = 0;
            this.changed();
        }
    }

    private async run(since: string): Promise<void> {
        try {
            const response = await stream(logPath(this.target, this.options, since), 'application/x-ndjson', this.cancel.signal);
            if (!response.ok) throw await problemOf(response);
            this.state.value = 'open';
            this.message.value = '';
            if (response.body && (await this.read(response.body))) this.state.value = 'ended';
            else this.retry('the connection ended');
        } catch (error) {
            if (this.cancel.signal.aborted) return;
            const problem = error instanceof RequestError ? error.problem : null;
            const isFinal = problem !== null && problem.status >= 400 && problem.status < 500;
            if (isFinal || !this.options.follow) {
                this.state.value = 'failed';
                this.message.value = problem ? problem.detail || problem.title : String(error);
            } else {
                this.retry(problem ? problem.detail || problem.title : 'the connection was lost');
            }
        }
    }

    private retry(why: string): void {
        if (this.cancel.signal.aborted) return;
        if (!this.options.follow) {
            this.state.value = 'failed';
            this.message.value = `${why}: what is shown is not the whole log`;
            return;
        }
        this.state.value = 'waiting';
        this.message.value = why;
        const last = [...this.newest.values()].sort().at(-1) ?? '';
        this.timer = setTimeout(() => void this.run(last), backoffMs(++this.failures, Math.random()));
    }
}
