#include "server/ui/ui_site.h"

#include <stdio.h>

#include "server/http/h2o_listener.h"
#include "server/ui/ui_files.h"

#define ASSETS "/ui/assets/"

// Scripts, styles, images and requests of the page's own origin only; no inline script or style, no
// string ever becomes markup or script (Trusted Types), no frame may hold the page.
#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "                 \
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'self'; "                \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

static const struct http_header fixed[] = {
    {{"content-security-policy", 23}, {POLICY, sizeof POLICY - 1}},
    {{"cross-origin-opener-policy", 26}, {"same-origin", 11}},
    {{"cross-origin-embedder-policy", 28}, {"require-corp", 12}},
    {{"cross-origin-resource-policy", 28}, {"same-origin", 11}},
    {{"referrer-policy", 15}, {"no-referrer", 11}},
    {{"permissions-policy", 18}, {"camera=(), geolocation=(), microphone=(), payment=(), usb=()", 60}},
    {{"x-content-type-options", 22}, {"nosniff", 7}},
};
enum { FIXED = sizeof fixed / sizeof *fixed, HEADERS_MAX = FIXED + 4 };

struct head {
    struct http_header list[HEADERS_MAX];
    size_t count;
};

static void add(struct head *head, struct str name, struct str value)
{
    head->list[head->count++] = (struct http_header){name, value};
}

static struct head head_of(struct str content_type, struct str cache_control)
{
    struct head head = {.count = 0};
    for (size_t i = 0; i < FIXED; i++)
        head.list[head.count++] = fixed[i];
    add(&head, STR("content-type"), content_type);
    add(&head, STR("cache-control"), cache_control);
    return head;
}

static void answer_index(const struct ui_files *files, struct listener_request *request)
{
    struct head head = head_of(STR("text/html; charset=utf-8"), STR("no-cache"));
    struct str etag = ui_files_index_etag(files);
    add(&head, STR("etag"), etag);
    bool same = str_eq(listener_request_header(request, STR("if-none-match")), etag);
    listener_request_answer_bare(request, same ? 304 : 200, head.list, head.count,
                                 same ? STR_EMPTY : ui_files_index(files));
}

static void answer_file(const struct ui_files *files, struct listener_request *request, struct str name)
{
    static const struct str encodings[] = {[UI_BROTLI] = {"br", 2}, [UI_GZIP] = {"gzip", 4}};
    const struct ui_file *file = ui_files_find(files, name);
    if (!file || str_eq(name, STR("index.html"))) {
        listener_request_problem(request,
                                 &(struct http_problem){.status = 404,
                                                        .code = "not_found",
                                                        .detail = STR("this version of the web UI has no such file")},
                                 NULL, 0);
        return;
    }
    enum ui_encoding encoding = ui_file_choose(file, listener_request_header(request, STR("accept-encoding")));
    struct head head = head_of(str_c(file->content_type), STR("public, max-age=31536000, immutable"));
    add(&head, STR("vary"), STR("accept-encoding"));
    if (encoding != UI_PLAIN) add(&head, STR("content-encoding"), encodings[encoding]);
    listener_request_answer_bare(request, 200, head.list, head.count, file->forms[encoding]);
}

// A browser that opens the listener itself gets to the UI; other clients read what it is.
static bool wants_page(const struct listener_request *request)
{
    struct str accept = listener_request_header(request, STR("accept")), one;
    while (accept.len) {
        str_cut(&accept, ',', &one);
        struct str type;
        str_cut(&one, ';', &type);
        if (str_eq_nocase(str_trim(type), STR("text/html"))) return true;
    }
    return false;
}

static void redirect(const struct ui_files *files, struct listener_request *request)
{
    char location[UI_BASE_PATH_BYTES_MAX + sizeof "ui/"];
    snprintf(location, sizeof location, "%.*sui/", STR_ARG(ui_files_base_path(files)));
    const struct http_header headers[] = {
        {STR("location"), str_c(location)}, {STR("cache-control"), STR("no-store")}, {STR("vary"), STR("accept")}};
    listener_request_answer_bare(request, 302, headers, sizeof headers / sizeof *headers, STR_EMPTY);
}

struct str ui_site_local_path(const struct ui_files *files, struct str path)
{
    if (!files) return path;
    struct str base = ui_files_base_path(files);
    return str_starts(path, base) ? str_from(path, base.len - 1) : path;
}

bool ui_site_take(const struct ui_files *files, struct listener_request *request, struct str local_path)
{
    if (!files) return false;
    bool at_root = (str_eq(local_path, STR("/")) && wants_page(request)) || str_eq(local_path, STR("/ui"));
    if (!at_root && !str_starts(local_path, STR("/ui/"))) return false;
    struct str method = listener_request_method(request);
    if (!str_eq(method, STR("GET")) && !str_eq(method, STR("HEAD"))) {
        const struct http_header allow = {STR("allow"), STR("GET, HEAD")};
        listener_request_problem(request,
                                 &(struct http_problem){.status = 405,
                                                        .code = "method_not_allowed",
                                                        .detail = STR("files of the web UI are read by GET and HEAD")},
                                 &allow, 1);
    } else if (at_root) {
        redirect(files, request);
    } else if (str_starts(local_path, STR(ASSETS))) {
        answer_file(files, request, str_from(local_path, sizeof ASSETS - 1));
    } else {
        answer_index(files, request);
    }
    return true;
}
