#include "agent/kube/kube_fetch.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { DEPTH_MAX = 128, TOKENS_MAX = 2000000 };

struct kube_fetch {
    struct kube_request *request;
    struct strbuf body;
    void (*on_done)(void *arg, int status, json_t *value, const struct error *err);
    void *arg;
};

static enum kube_body_verdict on_body(void *arg, const char *at, size_t len)
{
    struct kube_fetch *fetch = arg;
    return strbuf_add(&fetch->body, at, len) ? KUBE_BODY_TAKEN : KUBE_BODY_STOP;
}

static void fetch_free(struct kube_fetch *fetch)
{
    strbuf_finish(&fetch->body);
    mem_free(fetch);
}

static void on_done(void *arg, int status, const struct error *err)
{
    struct kube_fetch *fetch = arg;
    static const struct json_limits limits = {
        .bytes_max = KUBE_FETCH_BYTES_MAX, .depth_max = DEPTH_MAX, .tokens_max = TOKENS_MAX};
    json_t *value = NULL;
    struct error unreadable;
    // The decoder's message may quote the document: it is replaced.
    if (!err && status == 200 && json_decode(strbuf_str(&fetch->body), &limits, &value, NULL) != ERROR_NONE) {
        error_set(&unreadable, ERROR_PROTOCOL, "the answer is not JSON, or over the limits");
        err = &unreadable;
    }
    fetch->on_done(fetch->arg, status, value, err);
    json_decref(value);
    fetch_free(fetch);
}

struct kube_fetch *kube_fetch_start(struct kube_client *client, const char *path,
                                    void (*on_fetched)(void *arg, int status, json_t *value, const struct error *err),
                                    void *arg)
{
    struct kube_fetch *fetch = mem_zalloc(sizeof *fetch);
    fetch->on_done = on_fetched;
    fetch->arg = arg;
    strbuf_init(&fetch->body, KUBE_FETCH_BYTES_MAX);
    fetch->request = kube_client_get(
        client,
        &(struct kube_request_options){
            .path = path, .timeout_ms = KUBE_FETCH_TIMEOUT_MS, .arg = fetch, .on_body = on_body, .on_done = on_done});
    if (fetch->request) return fetch;
    fetch_free(fetch);
    return NULL;
}

void kube_fetch_cancel(struct kube_fetch *fetch)
{
    if (!fetch) return;
    kube_request_cancel(fetch->request);
    fetch_free(fetch);
}
