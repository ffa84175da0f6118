#include "agent/calls/answer.h"

#include <stdio.h>

#include "base/strbuf.h"
#include "tunnel/wire/handshake.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

static void send_answer(struct agent_stream *stream, int status, struct str content_type, struct str cause,
                        struct str body)
{
    char length[24];
    int n = snprintf(length, sizeof(length), "%zu", body.len);
    const struct http_header headers[] = {
        {STR("content-type"), content_type},
        {STR("content-length"), str_of(length, (size_t)n)},
        {STR("cache-control"), STR("no-store")},
        {STR(WIRE_HEADER_CAUSE), cause},
    };
    bool head_only = str_eq(agent_stream_request(stream)->method, STR("HEAD"));
    agent_stream_respond(stream, status, headers, cause.len ? 4 : 3, head_only || !body.len);
    if (head_only || !body.len) return;
    agent_stream_write(stream, body.at, body.len);
    agent_stream_end(stream, NULL, 0);
}

void agent_answer(struct agent_stream *stream, int status, struct str content_type, struct str body)
{
    send_answer(stream, status, content_type, STR_EMPTY, str_first(body, BODY_BYTES_MAX));
}

static void add_member(struct strbuf *body, const char *name, const char *value)
{
    strbuf_addf(body, ",\"%s\":", name);
    strbuf_add_json(body, str_c(value));
}

void agent_answer_problem(struct agent_stream *stream, int status, const char *code, const char *detail)
{
    struct strbuf body;
    strbuf_init(&body, BODY_BYTES_MAX);
    strbuf_addf(&body, "{\"type\":\"about:blank\",\"status\":%d", status);
    add_member(&body, "title", code);
    add_member(&body, "code", code);
    add_member(&body, "detail", detail);
    strbuf_add_c(&body, "}\n");
    send_answer(stream, status, STR("application/problem+json"), STR_EMPTY, strbuf_str(&body));
    strbuf_finish(&body);
}

void agent_answer_cause(struct agent_stream *stream, int status, const char *cause, const char *detail)
{
    struct strbuf body;
    strbuf_init(&body, BODY_BYTES_MAX);
    strbuf_add_c(&body, "{\"error\":");
    strbuf_add_json(&body, str_c(cause));
    strbuf_add_c(&body, ",\"message\":");
    strbuf_add_json(&body, str_c(detail));
    strbuf_add_c(&body, "}\n");
    send_answer(stream, status, STR("application/json"), str_c(cause), strbuf_str(&body));
    strbuf_finish(&body);
}
