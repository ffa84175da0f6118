#include "api/events/event_body.h"

#include "api/http/inflate.h"

enum { RATIO_MAX = 100 };

static bool is_plain(const struct api_request *request)
{
    return request->content_encoding.len == 0 || str_eq_nocase(request->content_encoding, STR("identity"));
}

bool api_event_body(struct api_request *request, struct strbuf *inflated, struct str *out)
{
    size_t most = request->api->options.events_bytes_max;
    strbuf_init(inflated, most);
    if (request->principal.kind != PRINCIPAL_RUNTIME) {
        api_respond_problem(request, 403, "forbidden",
                            "events require a runtime token, which identifies their runtime");
        return false;
    }
    if (is_plain(request)) {
        *out = request->body;
        return true;
    }
    if (!str_eq_nocase(request->content_encoding, STR("gzip"))) {
        api_respond_problem(request, 415, "unsupported_media_type", "the Content-Encoding must be gzip or none");
        return false;
    }
    struct error err;
    if (inflate_gzip(request->body, most, RATIO_MAX, inflated, &err) == ERROR_NONE) {
        *out = inflated->len ? strbuf_str(inflated) : STR("");
        return true;
    }
    strbuf_finish(inflated);
    api_respond_error(request, &err);
    return false;
}
