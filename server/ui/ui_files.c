#include "server/ui/ui_files.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define PACK_MAGIC "culvert-ui 1"
// ui/src/index.html has it in its <base>.
#define BASE_PLACEHOLDER "__CULVERT_BASE__"

enum { INDEX_BYTES_MAX = 64 * 1024 };

struct ui_files {
    struct ui_file files[UI_FILES_MAX]; // sorted by name
    size_t count;
    char *index; // with the base path
    size_t index_len;
    char etag[UI_ETAG_BYTES];
    char base_path[UI_BASE_PATH_BYTES_MAX + 1];
    char *memory; // the pack, where it was read from a file
};

static const struct {
    struct str end;
    const char *type;
} types[] = {
    {{".js", 3}, "text/javascript; charset=utf-8"},
    {{".css", 4}, "text/css; charset=utf-8"},
    {{".html", 5}, "text/html; charset=utf-8"},
    {{".svg", 4}, "image/svg+xml"},
    {{".png", 4}, "image/png"},
    {{".txt", 4}, "text/plain; charset=utf-8"},
    {{".woff2", 6}, "font/woff2"},
};

static const char *type_of(struct str name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (name.len > types[i].end.len && str_ends(name, types[i].end)) return types[i].type;
    return NULL;
}

static bool is_path_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
}

static bool is_name(struct str name)
{
    if (name.len == 0 || name.len > UI_FILE_NAME_BYTES_MAX || name.at[0] == '.') return false;
    for (size_t i = 0; i < name.len; i++)
        if (!is_path_byte(name.at[i])) return false;
    return true;
}

bool ui_base_path_is_valid(struct str base_path)
{
    if (base_path.len == 0 || base_path.len > UI_BASE_PATH_BYTES_MAX) return false;
    if (base_path.at[0] != '/' || base_path.at[base_path.len - 1] != '/') return false;
    struct str rest = str_from(base_path, 1), segment;
    while (rest.len) {
        str_cut(&rest, '/', &segment);
        if (segment.len == 0 || str_eq(segment, STR(".")) || str_eq(segment, STR(".."))) return false;
        for (size_t i = 0; i < segment.len; i++)
            if (!is_path_byte(segment.at[i]) && segment.at[i] != '~') return false;
    }
    return true;
}

// ---- the pack ---------------------------------------------------------------------------------

static enum error_code take_size(struct str *line, size_t *out, struct error *err)
{
    struct str word;
    uint64_t value;
    str_cut(line, ' ', &word);
    if (parse_u64(word, 0, UI_PACK_BYTES_MAX, &value, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "UI pack: invalid size \"%.*s\", must be 0 to %d", STR_ARG(word),
                         UI_PACK_BYTES_MAX);
    *out = (size_t)value;
    return ERROR_NONE;
}

// One line of the list; sizes in the order of the line: plain, gzip, brotli.
static enum error_code take_line(struct str line, struct ui_file *out, struct error *err)
{
    static const enum ui_encoding order[] = {UI_PLAIN, UI_GZIP, UI_BROTLI};
    struct ui_file file = {0};
    str_cut(&line, ' ', &file.name);
    file.content_type = type_of(file.name);
    if (!is_name(file.name) || !file.content_type)
        return error_set(err, ERROR_INVALID, "UI pack: invalid file name \"%.*s\"", STR_ARG(str_first(file.name, 200)));
    for (size_t i = 0; i < UI_ENCODINGS; i++) {
        size_t size;
        enum error_code code = take_size(&line, &size, err);
        if (code != ERROR_NONE) return code;
        file.forms[order[i]].len = size;
    }
    if (line.len || !file.forms[UI_PLAIN].len)
        return error_set(err, ERROR_INVALID, "UI pack: the line of %.*s must have three sizes, the first above 0",
                         STR_ARG(file.name));
    *out = file;
    return ERROR_NONE;
}

static enum error_code take_list(struct ui_files *files, struct str *pack, struct error *err)
{
    struct str line;
    if (!str_cut(pack, '\n', &line) || !str_eq(line, STR(PACK_MAGIC)))
        return error_set(err, ERROR_INVALID, "UI pack: does not start with \"" PACK_MAGIC "\"");
    for (;;) {
        if (!str_cut(pack, '\n', &line))
            return error_set(err, ERROR_INVALID, "UI pack: the list of files does not end");
        if (line.len == 0) return ERROR_NONE;
        if (files->count == UI_FILES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "UI pack: more than %d files", UI_FILES_MAX);
        enum error_code code = take_line(line, &files->files[files->count], err);
        if (code != ERROR_NONE) return code;
        files->count++;
    }
}

static enum error_code take_bytes(struct ui_files *files, struct str pack, struct error *err)
{
    static const enum ui_encoding order[] = {UI_PLAIN, UI_GZIP, UI_BROTLI};
    for (size_t i = 0; i < files->count; i++) {
        for (size_t k = 0; k < UI_ENCODINGS; k++) {
            struct str *form = &files->files[i].forms[order[k]];
            if (form->len > pack.len)
                return error_set(err, ERROR_INVALID, "UI pack: ends within %.*s", STR_ARG(files->files[i].name));
            *form = str_first(pack, form->len);
            pack = str_from(pack, form->len);
        }
    }
    if (pack.len) return error_set(err, ERROR_INVALID, "UI pack: %zu bytes too many", pack.len);
    return ERROR_NONE;
}

static int compare_files(const void *a, const void *b)
{
    return str_compare(((const struct ui_file *)a)->name, ((const struct ui_file *)b)->name);
}

static void make_etag(struct ui_files *files)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)files->index, files->index_len, digest);
    size_t at = 0;
    files->etag[at++] = '"';
    for (size_t i = 0; i < 16; i++, at += 2)
        snprintf(files->etag + at, 3, "%02x", digest[i]);
    files->etag[at++] = '"';
    files->etag[at] = '\0';
}

// The placeholder stands once in the page, and is replaced by exact comparison.
static enum error_code make_index(struct ui_files *files, struct error *err)
{
    const struct ui_file *page = ui_files_find(files, STR("index.html"));
    if (!page) return error_set(err, ERROR_INVALID, "UI pack: has no index.html");
    struct str text = page->forms[UI_PLAIN];
    const char *found =
        text.len <= INDEX_BYTES_MAX ? memmem(text.at, text.len, BASE_PLACEHOLDER, sizeof BASE_PLACEHOLDER - 1) : NULL;
    if (!found)
        return error_set(err, ERROR_INVALID, "UI pack: index.html has no " BASE_PLACEHOLDER " in its first %d bytes",
                         INDEX_BYTES_MAX);
    size_t before = (size_t)(found - text.at);
    struct strbuf index;
    strbuf_init(&index, INDEX_BYTES_MAX + UI_BASE_PATH_BYTES_MAX);
    strbuf_add(&index, text.at, before);
    strbuf_add_c(&index, files->base_path);
    strbuf_add_str(&index, str_from(text, before + sizeof BASE_PLACEHOLDER - 1));
    files->index_len = index.len;
    files->index = strbuf_detach(&index);
    make_etag(files);
    return ERROR_NONE;
}

static enum error_code load(struct ui_files *files, struct str pack, struct error *err)
{
    if (pack.len > UI_PACK_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "UI pack: %zu bytes, the limit is %d", pack.len, UI_PACK_BYTES_MAX);
    enum error_code code = take_list(files, &pack, err);
    if (code == ERROR_NONE) code = take_bytes(files, pack, err);
    if (code != ERROR_NONE) return code;
    qsort(files->files, files->count, sizeof *files->files, compare_files);
    for (size_t i = 1; i < files->count; i++)
        if (str_eq(files->files[i].name, files->files[i - 1].name))
            return error_set(err, ERROR_INVALID, "UI pack: %.*s is listed twice", STR_ARG(files->files[i].name));
    return make_index(files, err);
}

struct ui_files *ui_files_create(struct str pack, struct str base_path, struct error *err)
{
    if (!ui_base_path_is_valid(base_path)) {
        (void)error_set(err, ERROR_INVALID, "invalid base path \"%.*s\", must start and end with a slash",
                        STR_ARG(str_first(base_path, UI_BASE_PATH_BYTES_MAX)));
        return NULL;
    }
    struct ui_files *files = mem_zalloc(sizeof *files);
    memcpy(files->base_path, base_path.at, base_path.len);
    if (load(files, pack, err) == ERROR_NONE) return files;
    ui_files_destroy(files);
    return NULL;
}

static char *read_pack(const char *name, size_t *out_len, struct error *err)
{
    FILE *file = fopen(name, "rbe");
    if (!file) {
        (void)error_set(err, ERROR_INVALID, "ui.file: cannot open %s: %s", name, strerror(errno));
        return NULL;
    }
    struct strbuf pack;
    strbuf_init(&pack, (size_t)UI_PACK_BYTES_MAX + 1);
    for (;;) {
        char *room = strbuf_reserve(&pack, 64 * 1024);
        size_t got = room ? fread(room, 1, 64 * 1024, file) : 0;
        if (got == 0) break;
        strbuf_commit(&pack, got);
    }
    bool bad = ferror(file) || pack.overflow;
    (void)fclose(file);
    *out_len = pack.len;
    if (!bad && pack.len) return strbuf_detach(&pack);
    strbuf_finish(&pack);
    (void)error_set(err, ERROR_INVALID, "ui.file: %s cannot be read, is empty or larger than %d bytes", name,
                    UI_PACK_BYTES_MAX);
    return NULL;
}

struct ui_files *ui_files_open(const char *file, struct str base_path, struct error *err)
{
    size_t len;
    char *pack = read_pack(file, &len, err);
    if (!pack) return NULL;
    struct ui_files *files = ui_files_create(str_of(pack, len), base_path, err);
    if (files)
        files->memory = pack;
    else
        mem_free(pack);
    return files;
}

void ui_files_destroy(struct ui_files *files)
{
    if (!files) return;
    mem_free(files->index);
    mem_free(files->memory);
    mem_free(files);
}

struct str ui_files_index(const struct ui_files *files)
{
    return str_of(files->index, files->index_len);
}

struct str ui_files_index_etag(const struct ui_files *files)
{
    return str_c(files->etag);
}

struct str ui_files_base_path(const struct ui_files *files)
{
    return str_c(files->base_path);
}

const struct ui_file *ui_files_find(const struct ui_files *files, struct str name)
{
    const struct ui_file key = {.name = name};
    return bsearch(&key, files->files, files->count, sizeof *files->files, compare_files);
}

// ---- Accept-Encoding --------------------------------------------------------------------------

// "q=0", "q=0.000": refused. All other weights count alike: the order of preference is ours.
static bool is_refused(struct str parameters)
{
    struct str one;
    while (parameters.len) {
        str_cut(&parameters, ';', &one);
        one = str_trim(one);
        if (!str_starts_nocase(one, STR("q="))) continue;
        one = str_from(one, 2);
        for (size_t i = 0; i < one.len; i++)
            if (one.at[i] != '0' && one.at[i] != '.') return false;
        return true;
    }
    return false;
}

enum ui_encoding ui_file_choose(const struct ui_file *file, struct str accept_encoding)
{
    static const struct str names[] = {[UI_BROTLI] = {"br", 2}, [UI_GZIP] = {"gzip", 4}};
    enum { UNNAMED, ACCEPTED, REFUSED } named[UI_PLAIN] = {UNNAMED}, any = REFUSED;
    struct str one;
    while (accept_encoding.len) {
        struct str coding;
        str_cut(&accept_encoding, ',', &one);
        str_cut(&one, ';', &coding);
        coding = str_trim(coding);
        for (size_t i = 0; i < UI_PLAIN; i++)
            if (str_eq_nocase(coding, names[i])) named[i] = is_refused(one) ? REFUSED : ACCEPTED;
        if (str_eq(coding, STR("*"))) any = is_refused(one) ? REFUSED : ACCEPTED;
    }
    for (size_t i = 0; i < UI_PLAIN; i++)
        if (file->forms[i].len && (named[i] == ACCEPTED || (named[i] == UNNAMED && any == ACCEPTED)))
            return (enum ui_encoding)i;
    return UI_PLAIN;
}
