#include "agent/calls/app_proxy.h"

#include "agent/calls/answer.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

struct app_proxy_call {
    const struct agent_app_proxy_options *options;
    struct agent_stream *stream; // NULL: the client has left
    struct strbuf body;          // of a GraphQL request
    char *user;
    bool graphql, answered;
    bool is_executing;
};

static void free_if_over(struct app_proxy_call *call)
{
    if (call->stream || call->is_executing) return;
    strbuf_finish(&call->body);
    mem_free(call->user);
    mem_free(call);
}

// ---- GraphQL ------------------------------------------------------------------------------------

static void on_executed(void *arg, int status, struct str body)
{
    struct app_proxy_call *call = arg;
    call->is_executing = false;
    if (call->stream) agent_answer(call->stream, status, STR("application/json"), body);
    free_if_over(call);
}

static void answer_graphql(struct app_proxy_call *call)
{
    call->is_executing = true;
    if (call->body.overflow)
        on_executed(call, 413, STR("{\"errors\":[{\"message\":\"the request is larger than 64 KiB\"}]}"));
    else
        app_proxy_graphql_execute(call->options->graphql, strbuf_str(&call->body), str_c(call->user), on_executed,
                                  call);
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
    (void)stream;
    call->answered = true;
    answer_graphql(call);
}

static void on_room(void *arg, struct agent_stream *stream)
{
    (void)arg;
    (void)stream;
}

static void on_close(void *arg, struct agent_stream *stream, uint32_t code)
{
    struct app_proxy_call *call = arg;
    (void)stream;
    (void)code;
    call->stream = NULL;
    free_if_over(call);
}

static struct str find_accept(const struct agent_stream_request *request)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq(request->headers[i].name, STR("accept"))) return request->headers[i].value;
    return STR_EMPTY;
}

void agent_app_proxy_start(const struct agent_app_proxy_options *options, struct agent_stream *stream, struct str path,
                           struct str user)
{
    static const struct agent_stream_events events = {
        .on_data = on_data, .on_end = on_end, .on_room = on_room, .on_close = on_close};
    const struct agent_stream_request *request = agent_stream_request(stream);
    struct str rest = path, only_path;
    if (!str_cut(&rest, '?', &only_path)) rest = STR_EMPTY;
    bool read = str_eq(request->method, STR("GET")) || str_eq(request->method, STR("HEAD"));
    if (options->logs && str_eq(request->method, STR("GET")) &&
        str_eq(only_path, STR("/app-proxy/api/applications/logs"))) {
        logs_start(options->logs, stream,
                   &(struct logs_request){.query = rest, .accept = find_accept(request), .user = user});
        return;
    }
    struct app_proxy_call *call = mem_zalloc(sizeof(*call));
    call->options = options;
    call->stream = stream;
    call->user = mem_strndup(user.at, user.len);
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
