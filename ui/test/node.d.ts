// What the tests use of node; the package of its types is not needed for that.
declare module 'node:test' {
    export default function test(name: string, run: () => void | Promise<void>): void;
}
declare module 'node:assert/strict' {
    interface Assert {
        equal(actual: unknown, expected: unknown, message?: string): void;
        deepEqual(actual: unknown, expected: unknown, message?: string): void;
        ok(value: unknown, message?: string): void;
    }
    const assert: Assert;
    export default assert;
}
declare module 'node:fs' {
    export function readFileSync(path: string, encoding: 'utf8'): string;
    export function readdirSync(path: string, options: {recursive: boolean}): string[];
}
