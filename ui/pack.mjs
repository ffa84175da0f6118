// The pack that culvertd serves; its format is described in server/ui/ui_files.h.
import {writeFileSync} from 'node:fs';
import {brotliCompressSync, constants, gzipSync} from 'node:zlib';

// A form that is not smaller than the plain one is left out. The page itself is plain only.
function formsOf(name, plain) {
    if (name === 'index.html') return [plain, Buffer.alloc(0), Buffer.alloc(0)];
    const gzip = gzipSync(plain, {level: 9});
    const brotli = brotliCompressSync(plain, {params: {[constants.BROTLI_PARAM_QUALITY]: 11}});
    return [plain, gzip, brotli].map((form, i) => (i > 0 && form.length >= plain.length ? Buffer.alloc(0) : form));
}

export function writePack(path, files) {
    const names = [...files.keys()].sort();
    const forms = names.map((name) => formsOf(name, files.get(name)));
    const list = names.map((name, i) => `${name} ${forms[i].map((form) => form.length).join(' ')}\n`).join('');
    writeFileSync(path, Buffer.concat([Buffer.from(`culvert-ui 1\n${list}\n`), ...forms.flat()]));
}
