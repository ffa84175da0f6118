// Builds the web UI: `node build.mjs [--out FOLDER]` (default dist). Writes index.html, assets/ and
// ui.pack, which culvertd serves. The same sources give the same bytes.
import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {brotliCompressSync, constants} from 'node:zlib';
import {build} from 'esbuild';
import {writePack} from './pack.mjs';

const top = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf('--out');
const out = resolve(at > 0 ? process.argv[at + 1] : join(top, 'dist'));

const result = await build({
    entryPoints: {app: join(top, 'src/main.tsx')},
    bundle: true,
    minify: true,
    format: 'esm',
    target: ['chrome109', 'firefox115', 'safari16'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: '/',
    write: false,
    legalComments: 'none',
    absWorkingDir: top,
});

const files = new Map();
function add(name, end, bytes) {
    const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
    files.set(`${name}.${hash}.${end}`, Buffer.from(bytes));
    return `${name}.${hash}.${end}`;
}
const of = (end) => result.outputFiles.find((file) => file.path.endsWith(end)).contents;
const page = readFileSync(join(top, 'src/index.html'), 'utf8')
    .replace('__SCRIPT__', add('app', 'js', of('.js')))
    .replace('__STYLE__', add('app', 'css', of('.css')))
    .replace('__ICON__', add('icon', 'svg', readFileSync(join(top, 'src/icon.svg'))));

rmSync(out, {recursive: true, force: true});
mkdirSync(join(out, 'assets'), {recursive: true});
for (const [name, bytes] of files) writeFileSync(join(out, 'assets', name), bytes);
writeFileSync(join(out, 'index.html'), page);
files.set('index.html', Buffer.from(page));
writePack(join(out, 'ui.pack'), files);

// The budget of the first list: everything that the browser fetches before it (docs/ui.md).
const budget = 60 * 1024;
const size = (bytes) => brotliCompressSync(bytes, {params: {[constants.BROTLI_PARAM_QUALITY]: 11}}).length;
const script = size(of('.js'));
const style = size(of('.css'));
console.log(`ui: script ${script} B and style ${style} B brotli, ${script + style} of ${budget} B to the first list`);
if (script + style > budget) {
    console.error('ui: the first list is over its budget');
    process.exit(1);
}
