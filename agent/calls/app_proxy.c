#include "agent/calls/app_proxy.h"

#include "agent/calls/answer.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

struct app_proxy_call {
    const struct agent_app_proxy_options *options;
    struct strbuf body; // of a GraphQL request
    bool graphql, answered;
};

// ---- GraphQL ---------------------------------------------------------------------------------------------------

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_blank(struct str *s)
{
    while (s->len && (str_has_byte(STR(" \t\r\n,"), s->at[0])))
        *s = str_from(*s, 1);
}

static struct str take_name(struct str *s)
{
    size_t n = 0;
    skip_blank(s);
    while (n < s->len && is_name_byte(s->at[n]))
        n++;
    struct str name = str_first(*s, n);
    *s = str_from(*s, n);
    return name;
}

static bool take_byte(struct str *s, char byte)
{
    skip_blank(s);
    if (!s->len || s->at[0] != byte) return false;
    *s = str_from(*s, 1);
    return true;
}

static bool add_field(struct strbuf *out, struct str name, const struct agent_app_proxy_options *options)
{
    const char *value = NULL;
    if (str_eq(name, STR("version"))) value = options->version;
    if (str_eq(name, STR("platformHost"))) value = options->platform_host;
    if (str_eq(name, STR("platformVersion"))) value = options->version;
    if (str_eq(name, STR("__typename"))) value = "VersionInfo";
    if (!value) return false;
    strbuf_add_json(out, name);
    strbuf_add_byte(out, ':');
    strbuf_add_json(out, str_c(value));
    return true;
}

// `query Name { versionInfo { version platformHost platformVersion } }`: names only, and that is all the agent serves.
static bool answer_version_info(struct str query, const struct agent_app_proxy_options *options, struct strbuf *out)
{
    struct str rest = query;
    struct str word = take_name(&rest);
    if (word.len && !str_eq(word, STR("query"))) return false;
    if (word.len) take_name(&rest);
    if (!take_byte(&rest, '{') || !str_eq(take_name(&rest), STR("versionInfo")) || !take_byte(&rest, '{')) return false;
    strbuf_add_c(out, "{\"data\":{\"versionInfo\":{");
    for (bool first = true; !take_byte(&rest, '}'); first = false) {
        if (!first) strbuf_add_byte(out, ',');
        if (!add_field(out, take_name(&rest), options)) return false;
    }
    if (!take_byte(&rest, '}')) return false;
    skip_blank(&rest);
    strbuf_add_c(out, "}}}");
    return !rest.len;
}

static void answer_graphql(struct app_proxy_call *call, struct agent_stream *stream)
{
    struct error err = {0};
    json_t *json = NULL;
    struct strbuf out;
    strbuf_init(&out, BODY_BYTES_MAX);
    int status = 200;
    if (call->body.overflow || json_decode(strbuf_str(&call->body), NULL, &json, &err)) {
        status = call->body.overflow ? 413 : 400;
        strbuf_add_c(&out, "{\"errors\":[{\"message\":\"the body is not a GraphQL request\"}]}");
    } else if (!answer_version_info(json_get_str(json, "query"), call->options, &out)) {
        strbuf_clear(&out);
        strbuf_add_c(&out,
                     "{\"errors\":[{\"message\":\"this runtime's agent answers only versionInfo\"}],\"data\":null}");
    }
    agent_answer(stream, status, STR("application/json"), strbuf_str(&out));
    json_decref(json);
    strbuf_finish(&out);
}

// ---- stream ----------------------------------------------------------------------------------------------------

static void on_data(void *arg, struct agent_stream *stream, const uint8_t *at, size_t len)
{
    struct app_proxy_call *call = arg;
    if (call->graphql && !call->answered) strbuf_add(&call->body, at, len);
    agent_stream_consumed(stream, len);
}

static void on_end(void *arg, struct agent_stream *stream)
{
    struct app_proxy_call *call = arg;
    if (!call->graphql || call->answered) return;
    call->answered = true;
    answer_graphql(call, stream);
}

static void on_writable(void *arg, struct agent_stream *stream)
{
    (void)arg;
    (void)stream;
}

static void on_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    struct app_proxy_call *call = arg;
    (void)stream;
    (void)code;
    strbuf_finish(&call->body);
    mem_free(call);
}

void agent_app_proxy_start(const struct agent_app_proxy_options *options, struct agent_stream *stream, struct str path)
{
    static const struct agent_stream_events events = {
        .on_data = on_data, .on_end = on_end, .on_writable = on_writable, .on_close = on_close};
    const struct agent_stream_request *request = agent_stream_request(stream);
    struct str rest = path, only_path;
    str_cut(&rest, '?', &only_path);
    bool read = str_eq(request->method, STR("GET")) || str_eq(request->method, STR("HEAD"));
    struct app_proxy_call *call = mem_zalloc(sizeof(*call));
    call->options = options;
    strbuf_init(&call->body, BODY_BYTES_MAX);
    agent_stream_attach(stream, &events, call);

    if (read && str_eq(only_path, STR("/app-proxy/api/readyz"))) {
        agent_answer(stream, 200, STR("text/plain; charset=utf-8"), STR("OK"));
    } else if (read && str_eq(only_path, STR("/app-proxy/api/healthz"))) {
        agent_answer(stream, 200, STR("application/json"), STR("{\"status\":\"ok\"}"));
    } else if (str_eq(request->method, STR("POST")) && str_eq(only_path, STR("/app-proxy/api/graphql"))) {
        call->graphql = true;
    } else {
        agent_answer(stream, 404, STR("application/json"), STR("{\"error\":\"not-found\"}"));
    }
    if (!call->graphql) call->answered = true;
}
