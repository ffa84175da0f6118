// Runs the unit tests: esbuild turns test/*.test.ts into modules, node's own runner runs them.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'esbuild';

const top = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'culvert-ui-'));
const tests = readdirSync(join(top, 'test')).filter((name) => name.endsWith('.test.ts'));
await build({
    entryPoints: tests.map((name) => join(top, 'test', name)),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node18',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: folder,
    outExtension: {'.js': '.mjs'},
});
const names = tests.map((name) => join(folder, name.replace(/\.ts$/, '.mjs')));
const done = spawnSync(process.execPath, ['--test', ...names], {stdio: 'inherit', cwd: top});
rmSync(folder, {recursive: true, force: true});
process.exit(done.status ?? 1);
