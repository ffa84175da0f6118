// support-bundle: one file of JSON with what support needs to know, without secrets.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/query.h"
#include "cli/scrub.h"

enum { ROWS_MAX = 500, SETTINGS_BYTES_MAX = 1024 * 1024 };

// clang-format off
const struct option_spec support_bundle_options[] = {
    {"settings", 0, "FILE", "support-bundle: settings of culvertd or culvert-agent, without secrets; may be repeated"},
    {"metrics-url", 0, "URL", "support-bundle: of an admin listener; may be repeated"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

struct bundle {
    const struct invocation *invocation;
    json_t *tree, *problems; // problems: what is not there or cut, and why
};

static void add_problem(struct bundle *bundle, const char *part, const char *why)
{
    json_array_append_new(bundle->problems, json_pack("{s:s, s:s?}", "part", part, "problem", why));
}

static void add_rows(struct bundle *bundle, const char *name)
{
    const struct noun *noun = noun_find(name);
    struct query query;
    struct error err;
    json_t *rows = json_array(), *page = NULL;
    query_init(&query, noun, noun->fields);
    query.limit = ROWS_MAX;
    enum error_code code;
    do {
        code = query_next(&query, bundle->invocation->client, &page, &err);
        if (code != ERROR_NONE) break;
        json_array_extend(rows, page);
        json_decref(page);
    } while (!query.is_over && query.count < ROWS_MAX);
    if (code != ERROR_NONE) add_problem(bundle, name, err.text);
    if (code == ERROR_NONE && !query.is_over) add_problem(bundle, name, "only the first 500 are here");
    json_object_set_new(bundle->tree, noun->others[0], rows);
    query_finish(&query);
}

static void add_field(struct bundle *bundle, const char *field, const char *document)
{
    struct error err;
    json_t *data = NULL;
    if (client_query(bundle->invocation->client, document, NULL, field, &data, &err) != ERROR_NONE) {
        add_problem(bundle, field, err.text);
        return;
    }
    json_object_set(bundle->tree, field, json_object_get(data, field));
    json_decref(data);
}

// "name = value" by line, as members: scrub_json() judges their names. Comments stay out.
static json_t *settings_of(char *text)
{
    json_t *settings = json_object();
    struct str rest = str_c(text), line, name;
    bool has_more = true;
    while (has_more) {
        has_more = str_cut(&rest, '\n', &line);
        line = str_trim(line);
        if (!line.len || line.at[0] == '#' || !str_cut(&line, '=', &name)) continue;
        name = str_trim(name);
        struct str value = str_trim(line);
        char *key = mem_strndup(name.at, name.len);
        json_t *shown = json_stringn(value.at ? value.at : "", value.len);
        json_object_set_new(settings, key, shown ? shown : json_string(SCRUBBED));
        mem_free(key);
    }
    return settings;
}

static void add_settings(struct bundle *bundle, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        add_problem(bundle, path, strerror(errno));
        return;
    }
    char *text = mem_zalloc(SETTINGS_BYTES_MAX + 1);
    size_t len = fread(text, 1, SETTINGS_BYTES_MAX, file);
    if (getc(file) != EOF) add_problem(bundle, path, "only its first MiB is here");
    fclose(file);
    text[len] = '\0';
    json_t *all = json_object_get(bundle->tree, "settings");
    json_object_set_new(all, path, settings_of(text));
    mem_free_secret(text, SETTINGS_BYTES_MAX + 1);
}

static void add_admin(struct bundle *bundle, const char *url)
{
    static const char *const paths[] = {"/readyz", "/metrics"};
    json_t *answers = json_pack("{s:s?}", "address", url);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct error err;
        struct strbuf text;
        strbuf_init(&text, CLIENT_ANSWER_BYTES_MAX);
        char *whole = mem_printf("%s%s", url, paths[i]);
        if (client_fetch(whole, &text, &err) == ERROR_NONE) {
            json_object_set_new(answers, paths[i], json_stringn(text.at ? text.at : "", text.len));
        } else {
            add_problem(bundle, whole, err.text);
        }
        mem_free(whole);
        strbuf_finish(&text);
    }
    json_array_append_new(json_object_get(bundle->tree, "admin"), answers);
}

static void collect(struct bundle *bundle)
{
    const struct arguments *arguments = bundle->invocation->arguments;
    char now[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(clock_wall_ms(), now);
    json_object_set_new(bundle->tree, "createdAt", json_string(now));
    json_object_set_new(bundle->tree, "culvert", json_string(CULVERT_VERSION));
    json_object_set_new(bundle->tree, "platform", json_string(bundle->invocation->context.url));
    json_object_set_new(bundle->tree, "settings", json_object());
    json_object_set_new(bundle->tree, "admin", json_array());
    add_field(bundle, "me", "{ me { id isAdmin status runtimeName activeAccount { id name } } }");
    add_field(bundle, "limitsStatus", "{ limitsStatus { status storage { bytes rows bytesMax rowsMax refused } } }");
    add_rows(bundle, "runtime");
    add_rows(bundle, "cluster");
    add_rows(bundle, "operation");
    for (size_t i = 0; i < arguments->option_count; i++) {
        const char *name = arguments->options[i].name;
        if (strcmp(name, "settings") == 0) add_settings(bundle, arguments->options[i].value);
        if (strcmp(name, "metrics-url") == 0) add_admin(bundle, arguments->options[i].value);
    }
}

// A new file for its owner alone; "-" is stdout.
static enum error_code write_file(const char *path, const json_t *tree, struct error *err)
{
    bool is_stdout = strcmp(path, "-") == 0;
    int fd = is_stdout ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = is_stdout ? stdout : fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) return error_set(err, ERROR_INVALID, "%.300s cannot be created: %s", path, strerror(errno));
    bool is_written = json_dumpf(tree, file, JSON_INDENT(2)) == 0 && putc('\n', file) != EOF;
    if (!is_stdout && fclose(file) != 0) is_written = false;
    return is_written ? ERROR_NONE
                      : error_set(err, ERROR_INVALID, "%.300s cannot be written: %s", path, strerror(errno));
}

int verb_support_bundle(struct invocation *invocation)
{
    struct error err;
    if (invocation->word_count != 1) {
        error_set(&err, ERROR_INVALID, "usage: culvert support-bundle FILE [--settings FILE] [--metrics-url URL]");
        return command_fail(&err);
    }
    struct bundle bundle = {.invocation = invocation, .tree = json_object(), .problems = json_array()};
    collect(&bundle);
    json_object_set(bundle.tree, "problems", bundle.problems);
    json_t *scrubbed = scrub_json(bundle.tree, str_c(invocation->context.token));
    enum error_code code = write_file(invocation->words[0], scrubbed, &err);
    size_t count = json_array_size(bundle.problems);
    if (code == ERROR_NONE && strcmp(invocation->words[0], "-") != 0)
        fprintf(stderr, "%s is written; read it before you pass it on\n", invocation->words[0]);
    if (code == ERROR_NONE && count)
        fprintf(stderr, "warning: %zu parts are missing or cut: see \"problems\"\n", count);
    json_decref(scrubbed);
    json_decref(bundle.tree);
    json_decref(bundle.problems);
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
