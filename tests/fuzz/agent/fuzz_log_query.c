// The query of a request for logs: what is taken leads to paths of pods/log alone; and the bytes
// as a container's log give lines without a line feed, whatever pieces they come in.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/logs/log_lines.h"
#include "agent/logs/log_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void on_line(void *arg, const struct log_line *line)
{
    static const struct log_form forms[] = {{.is_json = true}, {.has_origin = true, .has_time = true}};
    size_t *bytes = arg;
    if (line->text.len > LOG_LINE_BYTES_MAX || str_has_byte(line->text, '\n')) abort();
    *bytes += line->text.len;
    for (size_t i = 0; i < 2; i++) {
        const struct log_origin origin = {STR("ns"), STR("pod"), STR("container")};
        struct strbuf out;
        strbuf_init(&out, LOG_TEXT_BYTES_MAX);
        log_form_line(&forms[i], &origin, line, &out);
        if (out.overflow || memchr(out.at, '\n', out.len) != out.at + out.len - 1) abort();
        strbuf_finish(&out);
    }
}

static void feed(const uint8_t *at, size_t len, size_t piece)
{
    struct log_lines lines;
    size_t bytes = 0;
    log_lines_init(&lines);
    for (size_t i = 0; i < len; i += piece)
        log_lines_feed(&lines, (const char *)at + i, piece < len - i ? piece : len - i, on_line, &bytes);
    log_lines_end(&lines, on_line, &bytes);
    if (bytes > len) abort();
    log_lines_finish(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct log_query query;
    if (len) {
        feed(at, len, len);
        feed(at, len, 7);
    }
    if (log_query_parse(str_of((const char *)at, len), &query, NULL) != ERROR_NONE) return 0;
    struct strbuf path;
    strbuf_init(&path, 64 * 1024);
    log_query_add_path(&query, str_c(query.ns), str_c(query.name), STR("container"), NULL, &path);
    if (strncmp(path.at, "/api/v1/namespaces/", 19) != 0 || strstr(path.at, "/.") || strchr(path.at, '#')) abort();
    for (const char *c = path.at; *c; c++)
        if (*c <= ' ' || *c > '~') abort();
    strbuf_finish(&path);
    return 0;
}
