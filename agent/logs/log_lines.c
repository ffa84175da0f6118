#include "agent/logs/log_lines.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

// ---- lines --------------------------------------------------------------------------------------

void log_lines_init(struct log_lines *lines)
{
    *lines = (struct log_lines){0};
    strbuf_init(&lines->pending, LOG_LINE_BYTES_MAX);
}

void log_lines_finish(struct log_lines *lines)
{
    strbuf_finish(&lines->pending);
}

// The API puts the time and a space before each line; what has none is text as a whole.
static struct str take_time(struct log_lines *lines, struct str line)
{
    struct str rest = line, time;
    int64_t any_ms;
    lines->time[0] = '\0';
    if (!str_cut(&rest, ' ', &time)) rest = STR_EMPTY;
    if (time.len >= LOG_TIME_BYTES || clock_parse_rfc3339(time, &any_ms, NULL) != ERROR_NONE) return line;
    snprintf(lines->time, sizeof lines->time, "%.*s", STR_ARG(time));
    return rest;
}

static void give(struct log_lines *lines, bool is_piece, void (*on_line)(void *, const struct log_line *), void *arg)
{
    struct str text = strbuf_str(&lines->pending);
    if (!lines->in_line) text = take_time(lines, text);
    if (!is_piece && str_ends(text, STR("\r"))) text.len--;
    const struct log_line line = {str_c(lines->time), text, is_piece};
    on_line(arg, &line);
    strbuf_clear(&lines->pending);
    lines->in_line = is_piece;
}

void log_lines_feed(struct log_lines *lines, const char *at, size_t len,
                    void (*on_line)(void *arg, const struct log_line *line), void *arg)
{
    while (len > 0) {
        const char *end = memchr(at, '\n', len);
        size_t part = end ? (size_t)(end - at) : len, room = LOG_LINE_BYTES_MAX - lines->pending.len;
        bool is_cut = part > room;
        if (is_cut) part = room;
        strbuf_add(&lines->pending, at, part);
        at += part;
        len -= part;
        if (is_cut) {
            give(lines, true, on_line, arg);
        } else if (end) {
            give(lines, false, on_line, arg);
            at++;
            len--;
        }
    }
}

void log_lines_end(struct log_lines *lines, void (*on_line)(void *arg, const struct log_line *line), void *arg)
{
    if (lines->pending.len || lines->in_line) give(lines, false, on_line, arg);
    strbuf_shrink(&lines->pending);
}

void log_lines_break_off(struct log_lines *lines, void (*on_line)(void *arg, const struct log_line *line), void *arg)
{
    if (!lines->in_line) strbuf_clear(&lines->pending);
    log_lines_end(lines, on_line, arg);
}

// ---- forms --------------------------------------------------------------------------------------

static void add_member(struct strbuf *out, const char *name, struct str value)
{
    if (!value.len) return;
    if (out->len && out->at[out->len - 1] != '{') strbuf_add_byte(out, ',');
    strbuf_addf(out, "\"%s\":", name);
    strbuf_add_json(out, value);
}

static void add_origin(const struct log_origin *origin, struct strbuf *out)
{
    add_member(out, "namespace", origin->ns);
    add_member(out, "pod", origin->pod);
    add_member(out, "container", origin->container);
}

void log_form_line(const struct log_form *form, const struct log_origin *origin, const struct log_line *line,
                   struct strbuf *out)
{
    if (form->is_json) {
        strbuf_add_byte(out, '{');
        add_member(out, "time", line->time);
        add_origin(origin, out);
        strbuf_add_c(out, out->at[out->len - 1] == '{' ? "\"line\":" : ",\"line\":");
        strbuf_add_json(out, line->text);
        strbuf_add_c(out, line->is_piece ? ",\"partial\":true}\n" : "}\n");
        return;
    }
    if (form->has_origin) strbuf_addf(out, "[pod/%.*s/%.*s] ", STR_ARG(origin->pod), STR_ARG(origin->container));
    if (form->has_time && line->time.len) strbuf_addf(out, "%.*s ", STR_ARG(line->time));
    strbuf_add_str(out, line->text);
    strbuf_add_byte(out, '\n');
}

void log_form_event(const struct log_form *form, const struct log_origin *origin, const char *event, const char *code,
                    const char *message, struct strbuf *out)
{
    if (form->is_json) {
        strbuf_add_byte(out, '{');
        add_member(out, "event", str_c(event));
        add_member(out, "code", str_c(code));
        add_member(out, "message", str_c(message));
        add_origin(origin, out);
        strbuf_add_c(out, "}\n");
    } else if (message && *message) {
        strbuf_add_c(out, "# ");
        if (origin->pod.len) strbuf_addf(out, "%.*s", STR_ARG(origin->pod));
        if (origin->container.len) strbuf_addf(out, "/%.*s", STR_ARG(origin->container));
        strbuf_addf(out, "%s%s\n", origin->pod.len ? ": " : "", message);
    }
}
