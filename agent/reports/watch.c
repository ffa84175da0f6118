#include "agent/reports/watch.h"

#include <assert.h>
#include <string.h>

#include "agent/reports/json_splitter.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"

enum {
    PAGE_LIMIT = 250,
    WATCH_SECONDS = 300,
    SILENCE_MS = 30000,
    RETRY_BASE_MS = 500,
    RETRY_CAP_MS = 30000,
    ABSENT_RETRY_MS = 60000,
    REFUSED_RETRY_MS = 1000, // the first wait after a 403 or 404
    RENEW_SPREAD_MS = 500,
    LIFE_MS_MIN = 1000,
    VERSION_BYTES_MAX = 256,
    CONTINUE_BYTES_MAX = 16 * 1024,
    OBJECT_DEPTH_MAX = 128,
    OBJECT_TOKENS_MAX = 2000000,
};

// What is being done; what is known is enum watch_state.
enum watch_step {
    STEP_WAITING_LIST,  // until retry_at_ms, then a list from its beginning
    STEP_LISTING,       // a page is being read
    STEP_WAITING_PAGE,  // the next page is requested in the next tick or when reading is allowed
    STEP_WAITING_WATCH, // until retry_at_ms, then a watch from resource_version
    STEP_WATCHING,
};

struct watch {
    struct watch_options options;
    char *path; // of the collection
    enum watch_state state;
    enum watch_step step;
    struct kube_request *request;
    struct json_splitter splitter;
    struct backoff backoff;
    char *resource_version; // where to watch from
    char *page;             // continue token, NULL: the first page
    bool listed;            // the last list has completed, or the kind cannot be listed
    bool was_followed;      // a list has completed, and no 404 came since
    unsigned refusals;      // 403 and 404 in a row, since the last outage
    bool partial;           // of the last list some was skipped
    bool skips;             // of the one that is being read
    bool must_relist;       // this exchange proved that the version is too old
    bool heard;             // this watch gave at least one event
    int in_callback;
    bool destroyed;
    uint64_t retry_at_ms, heard_at_ms, silence_max_ms;
    uint64_t marked_at_ms,
        mark_gap_max_ms;     // the last bookmark of this watch or its begin; between two of them, 0: none
    uint64_t blind_since_ms; // 0: all is seen
    uint64_t restarts;
};

static const struct json_limits object_limits = {
    .bytes_max = JSON_SPLITTER_OBJECT_BYTES_MAX, .depth_max = OBJECT_DEPTH_MAX, .tokens_max = OBJECT_TOKENS_MAX};

// ---- life ----------------------------------------------------------------------------------------------------

static char *copy_text(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

struct watch *watch_create(const struct watch_options *options)
{
    struct watch *watch = mem_zalloc(sizeof *watch);
    struct watch_options *o = &watch->options;
    *o = *options;
    o->group = copy_text(options->group);
    o->version = copy_text(options->version);
    o->plural = copy_text(options->plural);
    o->kind = copy_text(options->kind);
    o->ns = copy_text(options->ns);
    o->label_selector = copy_text(options->label_selector);
    if (!o->page_limit) o->page_limit = PAGE_LIMIT;
    if (!o->watch_seconds) o->watch_seconds = WATCH_SECONDS;
    if (!o->silence_ms) o->silence_ms = SILENCE_MS;
    if (!o->absent_retry_ms) o->absent_retry_ms = ABSENT_RETRY_MS;
    backoff_init(&watch->backoff, o->retry_base_ms ? o->retry_base_ms : RETRY_BASE_MS,
                 o->retry_cap_ms ? o->retry_cap_ms : RETRY_CAP_MS);
    AUTO_FREE char *root =
        *o->group ? mem_printf("/apis/%s/%s", o->group, o->version) : mem_printf("/api/%s", o->version);
    watch->path =
        o->ns ? mem_printf("%s/namespaces/%s/%s", root, o->ns, o->plural) : mem_printf("%s/%s", root, o->plural);
    return watch;
}

static void watch_free(struct watch *watch)
{
    const char *texts[] = {watch->options.group, watch->options.version, watch->options.plural,
                           watch->options.kind,  watch->options.ns,      watch->options.label_selector};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mem_free((char *)texts[i]);
    mem_free(watch->path);
    mem_free(watch->resource_version);
    mem_free(watch->page);
    mem_free(watch);
}

static void drop_request(struct watch *watch)
{
    if (!watch->request) return;
    kube_request_cancel(watch->request);
    watch->request = NULL;
    // A splitter must not be taken from under its own feed: then the callback that runs does it at its end.
    if (!watch->in_callback) json_splitter_finish(&watch->splitter);
}

void watch_destroy(struct watch *watch)
{
    if (!watch || watch->destroyed) return;
    watch->destroyed = true;
    drop_request(watch);
    if (!watch->in_callback) watch_free(watch);
}

// Leaves a callback; false: the watch is gone, or the exchange is.
static bool leave(struct watch *watch)
{
    if (--watch->in_callback) return !watch->destroyed && watch->request;
    bool alive = !watch->destroyed && watch->request;
    if (!watch->request) json_splitter_finish(&watch->splitter);
    if (watch->destroyed) watch_free(watch);
    return alive;
}

static void set_text(char **text, struct str fresh)
{
    if (*text && str_eq(str_c(*text), fresh)) return;
    mem_free(*text);
    *text = fresh.len ? mem_strndup(fresh.at, fresh.len) : NULL;
}

// ---- transitions ---------------------------------------------------------------------------------------------

static bool may_become(enum watch_state from, enum watch_state to)
{
    switch (to) {
    case WATCH_UNKNOWN: return false;
    case WATCH_FOLLOWED:
    case WATCH_NOT_SERVED: return true;
    case WATCH_BLIND: return from == WATCH_UNKNOWN || from == WATCH_FOLLOWED;
    case WATCH_FORBIDDEN: return from != WATCH_FOLLOWED && from != WATCH_DENIED;
    case WATCH_DENIED: return true;
    }
    return false;
}

// Blindness that goes on has begun with its first cause.
static void set_state(struct watch *watch, enum watch_state state)
{
    if (state == watch->state) return;
    assert(may_become(watch->state, state));
    bool is_blind = state == WATCH_BLIND || state == WATCH_DENIED;
    assert(!watch->blind_since_ms == (watch->state != WATCH_BLIND && watch->state != WATCH_DENIED));
    watch->state = state;
    if (!is_blind)
        watch->blind_since_ms = 0;
    else if (!watch->blind_since_ms)
        watch->blind_since_ms = clock_mono_ms();
}

static void wait_until(struct watch *watch, enum watch_step step, uint64_t wait_ms)
{
    watch->step = step;
    watch->retry_at_ms = clock_mono_ms() + wait_ms;
}

static void restart_list(struct watch *watch, uint64_t wait_ms)
{
    drop_request(watch);
    mem_free(watch->page);
    watch->page = NULL;
    wait_until(watch, STEP_WAITING_LIST, wait_ms);
}

void watch_relist(struct watch *watch)
{
    watch->listed = false;
    restart_list(watch, 0);
}

void watch_renew(struct watch *watch, uint64_t since_ms)
{
    if (watch->step != STEP_WATCHING || !watch->request || watch->heard_at_ms >= since_ms) return;
    drop_request(watch);
    if (may_become(watch->state, WATCH_BLIND)) set_state(watch, WATCH_BLIND);
    if (since_ms < watch->blind_since_ms) watch->blind_since_ms = since_ms;
    watch->restarts++;
    wait_until(watch, STEP_WAITING_WATCH, id_random_below(RENEW_SPREAD_MS));
}

static void finish_list(struct watch *watch, int status)
{
    watch->listed = true;
    if (status != 403) watch->partial = watch->skips && status == 200;
    watch->options.events->on_listed(watch->options.arg, watch, status);
}

static void log_state(const struct watch *watch, enum log_level level, const char *event, int status,
                      const struct error *err)
{
    if (!log_wants(level)) return;
    log_write(level, "watch", event,
              LOG_FIELDS(log_c("kind", watch->options.kind), log_c("group", watch->options.group),
                         log_c("namespace", watch->options.ns ? watch->options.ns : ""), log_int("status", status),
                         log_c("error", err ? err->text : "")));
}

// 1 s, 2 s, 4 s ... up to absent_retry_ms, spread by a half.
static uint64_t refused_wait_ms(struct watch *watch)
{
    uint64_t max_ms = watch->options.absent_retry_ms, wait_ms = REFUSED_RETRY_MS;
    for (unsigned i = 0; i < watch->refusals && wait_ms < max_ms; i++)
        wait_ms *= 2;
    if (wait_ms > max_ms) wait_ms = max_ms;
    watch->refusals++;
    return wait_ms / 2 + id_random_below(wait_ms + 1);
}

// The list was answered 403 or 404.
static void on_refused(struct watch *watch, int status)
{
    enum watch_state before = watch->state, now = WATCH_NOT_SERVED;
    if (status == 403) now = watch->was_followed || watch->options.needed ? WATCH_DENIED : WATCH_FORBIDDEN;
    if (status == 404) watch->was_followed = false;
    if (now != before) watch->refusals = 0;
    set_state(watch, now);
    restart_list(watch, refused_wait_ms(watch));
    bool is_news = now != before;
    if (is_news && status == 403) log_state(watch, LOG_WARN, "not_allowed", status, NULL);
    if (is_news && status == 404) log_state(watch, LOG_INFO, "not_served", status, NULL);
    if (is_news || !watch->listed) finish_list(watch, status);
}

// Something else than success ended an exchange.
static void on_trouble(struct watch *watch, int status, const struct error *err)
{
    bool was_listing = watch->step == STEP_LISTING;
    watch->restarts++;
    if (was_listing && (status == 403 || status == 404)) {
        on_refused(watch, status);
        return;
    }
    if (status == 410) {
        restart_list(watch, id_random_below(1000));
        return;
    }
    // An API server that comes back from an outage may refuse what it has not loaded the rules for yet.
    watch->refusals = 0;
    if (may_become(watch->state, WATCH_BLIND)) set_state(watch, WATCH_BLIND);
    uint64_t wait_ms = backoff_next_ms(&watch->backoff);
    // An API that is away is logged once, and then now and then.
    if (watch->backoff.failures % 20 == 1) log_state(watch, LOG_WARN, "interrupted", status, err);
    if (was_listing || status == 403 || status == 404)
        restart_list(watch, wait_ms);
    else
        wait_until(watch, STEP_WAITING_WATCH, wait_ms);
}

static bool may_read(const struct watch *watch)
{
    return !watch->options.events->may_read || watch->options.events->may_read(watch->options.arg);
}

static void begin_page(struct watch *watch);

static void on_page(struct watch *watch)
{
    json_t *envelope;
    struct error err;
    struct str text = json_splitter_envelope(&watch->splitter);
    enum error_code code =
        text.len ? json_decode(text, NULL, &envelope, &err) : error_set(&err, ERROR_PROTOCOL, "the list ended early");
    if (code != ERROR_NONE) {
        error_set(&err, ERROR_PROTOCOL, "the list is not complete");
        on_trouble(watch, 200, &err);
        return;
    }
    const json_t *metadata = json_get_object(envelope, "metadata");
    struct str page = json_get_str(metadata, "continue"), version = json_get_str(metadata, "resourceVersion");
    bool fits = page.len <= CONTINUE_BYTES_MAX && version.len && version.len <= VERSION_BYTES_MAX;
    if (fits) {
        set_text(&watch->page, page);
        set_text(&watch->resource_version, version);
    }
    json_decref(envelope);
    if (!fits) {
        error_set(&err, ERROR_PROTOCOL, "the list has no resourceVersion");
        on_trouble(watch, 200, &err);
    } else if (watch->page) {
        wait_until(watch, STEP_WAITING_PAGE, 0);
        if (!may_read(watch)) return;
        json_splitter_finish(&watch->splitter);
        begin_page(watch);
    } else {
        bool was_refused = watch_is_absent(watch) || watch_is_forbidden(watch);
        if (was_refused) log_state(watch, LOG_INFO, "served_again", 200, NULL);
        watch->was_followed = true;
        watch->refusals = 0;
        set_state(watch, WATCH_FOLLOWED);
        backoff_reset(&watch->backoff);
        wait_until(watch, STEP_WAITING_WATCH, 0);
        finish_list(watch, 200);
    }
}

static void on_done(void *arg, int status, const struct error *err)
{
    struct watch *watch = arg;
    watch->request = NULL;
    watch->in_callback++;
    if (watch->splitter.skipped && watch->step == STEP_LISTING) watch->skips = true;
    if (watch->splitter.skipped) log_state(watch, LOG_WARN, "objects_too_large", status, NULL);
    if (watch->must_relist) {
        restart_list(watch, id_random_below(1000));
    } else if (err || status != 200) {
        on_trouble(watch, status, err);
    } else if (watch->step == STEP_LISTING) {
        on_page(watch);
    } else {
        // The watch reached its time-out. One that ended at once without a word would spin: it waits.
        bool lived = watch->heard || clock_mono_ms() - watch->heard_at_ms >= LIFE_MS_MIN;
        uint64_t wait_ms = lived ? id_random_below(200) : backoff_next_ms(&watch->backoff);
        wait_until(watch, STEP_WAITING_WATCH, wait_ms);
    }
    leave(watch);
}

// ---- objects -------------------------------------------------------------------------------------------------

static void give(struct watch *watch, enum watch_event event, json_t *object)
{
    const struct watch_options *o = &watch->options;
    // Items of built-in lists come without their type.
    json_object_set_new(object, "kind", json_string(o->kind));
    AUTO_FREE char *api = *o->group ? mem_printf("%s/%s", o->group, o->version) : mem_strdup(o->version);
    json_object_set_new(object, "apiVersion", json_string(api));
    o->events->on_object(o->arg, watch, event, object);
}

static json_t *decode(struct watch *watch, struct str text)
{
    json_t *value;
    // The decoder's message may quote the object: it is not logged.
    if (json_decode(text, &object_limits, &value, NULL) == ERROR_NONE) return value;
    log_state(watch, LOG_WARN, "object_unreadable", 200, NULL);
    return NULL;
}

static bool on_list_item(void *arg, struct str text)
{
    struct watch *watch = arg;
    json_t *object = decode(watch, text);
    if (object)
        give(watch, WATCH_LISTED, object);
    else
        watch->skips = true;
    json_decref(object);
    return !watch->destroyed && watch->request;
}

static void note_version(struct watch *watch, const json_t *object)
{
    struct str version = json_str(json_path(object, "metadata", "resourceVersion", NULL));
    if (version.len && version.len <= VERSION_BYTES_MAX) set_text(&watch->resource_version, version);
}

// A watch that is silent for more than twice the longest time between two of its bookmarks does not live any more,
// whatever its connection looks like.
static void note_bookmark(struct watch *watch)
{
    uint64_t now_ms = clock_mono_ms(), gap_ms = now_ms - watch->marked_at_ms;
    watch->marked_at_ms = now_ms;
    if (gap_ms > watch->mark_gap_max_ms) watch->mark_gap_max_ms = gap_ms;
    uint64_t rhythm_ms = 2 * watch->mark_gap_max_ms + watch->options.silence_ms / 6;
    if (rhythm_ms < watch->silence_max_ms) watch->silence_max_ms = rhythm_ms;
}

static bool on_watch_event(void *arg, struct str text)
{
    struct watch *watch = arg;
    json_t *event = decode(watch, text);
    json_t *object = json_get_object(event, "object");
    struct str type = json_get_str(event, "type");
    if (object && str_eq(type, STR("ERROR"))) {
        // 410 Gone above all; what else the server has to complain about, a fresh list mends, too.
        watch->must_relist = true;
        watch->restarts++;
        log_state(watch, LOG_INFO, "watch_expired", (int)json_get_int(object, "code", 0), NULL);
        json_decref(event);
        return false;
    }
    bool bookmark = str_eq(type, STR("BOOKMARK")), deleted = str_eq(type, STR("DELETED"));
    if (object && (bookmark || deleted || str_eq(type, STR("ADDED")) || str_eq(type, STR("MODIFIED")))) {
        if (!watch->heard) backoff_reset(&watch->backoff);
        watch->heard = true;
        note_version(watch, object);
        if (bookmark) note_bookmark(watch);
        if (!bookmark) give(watch, deleted ? WATCH_DELETED : WATCH_CHANGED, object);
    }
    json_decref(event);
    return !watch->destroyed && watch->request;
}

static enum kube_body_verdict on_body(void *arg, const char *at, size_t len)
{
    struct watch *watch = arg;
    watch->heard_at_ms = clock_mono_ms();
    if (!may_read(watch)) {
        watch->heard_at_ms = UINT64_MAX; // not silent: held back
        return KUBE_BODY_PAUSE;
    }
    struct error err;
    watch->in_callback++;
    enum error_code code = json_splitter_feed(&watch->splitter, at, len, &err);
    return leave(watch) && code == ERROR_NONE ? KUBE_BODY_TAKEN : KUBE_BODY_STOP;
}

void watch_resume(struct watch *watch)
{
    if (!watch->request || watch->heard_at_ms != UINT64_MAX) return;
    watch->heard_at_ms = clock_mono_ms();
    kube_request_resume(watch->request);
}

// ---- exchanges -----------------------------------------------------------------------------------------------

static void add_escaped(struct strbuf *out, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (const char *c = text; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' ||
                     *c == '_' || *c == '.' || *c == '~';
        if (plain)
            strbuf_add_byte(out, *c);
        else
            strbuf_add(out, (char[]){'%', digits[(unsigned char)*c >> 4], digits[*c & 15]}, 3);
    }
}

static void begin(struct watch *watch, enum watch_step step, const struct strbuf *path, uint64_t silence_max_ms)
{
    bool list = step == STEP_LISTING;
    watch->must_relist = false;
    watch->heard = false;
    json_splitter_init(&watch->splitter, list ? JSON_SPLITTER_LIST : JSON_SPLITTER_SEQUENCE,
                       list ? on_list_item : on_watch_event, watch);
    watch->request = kube_client_get(
        watch->options.client,
        &(struct kube_request_options){.path = path->at, .arg = watch, .on_body = on_body, .on_done = on_done});
    if (!watch->request) { // too many requests at once: later
        json_splitter_finish(&watch->splitter);
        watch->retry_at_ms = clock_mono_ms() + backoff_next_ms(&watch->backoff);
        return;
    }
    watch->step = step;
    watch->heard_at_ms = watch->marked_at_ms = clock_mono_ms();
    watch->silence_max_ms = silence_max_ms;
}

static void add_selector(const struct watch *watch, struct strbuf *path)
{
    if (!watch->options.label_selector) return;
    strbuf_add_c(path, "&labelSelector=");
    add_escaped(path, watch->options.label_selector);
}

static void begin_page(struct watch *watch)
{
    if (!watch->page) {
        watch->skips = false;
        watch->options.events->on_listing(watch->options.arg, watch);
    }
    struct strbuf path;
    strbuf_init(&path, 64 * 1024);
    strbuf_addf(&path, "%s?limit=%u", watch->path, watch->options.page_limit);
    add_selector(watch, &path);
    if (watch->page) {
        strbuf_add_c(&path, "&continue=");
        add_escaped(&path, watch->page);
    }
    begin(watch, STEP_LISTING, &path, watch->options.silence_ms);
    strbuf_finish(&path);
}

static void begin_watch(struct watch *watch)
{
    // Spread, so that the watches of many kinds do not all end together.
    uint64_t seconds = watch->options.watch_seconds;
    seconds += id_random_below(seconds / 5 + 1);
    struct strbuf path;
    strbuf_init(&path, 64 * 1024);
    strbuf_addf(&path, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%llu", watch->path,
                (unsigned long long)seconds);
    add_selector(watch, &path);
    strbuf_add_c(&path, "&resourceVersion=");
    add_escaped(&path, watch->resource_version);
    begin(watch, STEP_WATCHING, &path, seconds * 1000 + watch->options.silence_ms);
    strbuf_finish(&path);
}

void watch_tick(struct watch *watch, uint64_t now_ms)
{
    if (watch->request) {
        if (watch->state == WATCH_BLIND && watch->step == STEP_WATCHING && kube_request_status(watch->request) == 200)
            set_state(watch, WATCH_FOLLOWED);
        if (watch->heard_at_ms == UINT64_MAX || now_ms < watch->heard_at_ms + watch->silence_max_ms) return;
        struct error err;
        error_set(&err, ERROR_TIMEOUT, "no data for %llu ms", (unsigned long long)watch->silence_max_ms);
        drop_request(watch);
        on_trouble(watch, 0, &err);
        return;
    }
    if (now_ms < watch->retry_at_ms || !may_read(watch)) return;
    if (watch->step == STEP_WAITING_WATCH)
        begin_watch(watch);
    else
        begin_page(watch);
}

// ---- looks ---------------------------------------------------------------------------------------------------

bool watch_is_listed(const struct watch *watch)
{
    return watch->listed;
}

enum watch_state watch_state(const struct watch *watch)
{
    return watch->state;
}

bool watch_is_absent(const struct watch *watch)
{
    return watch->state == WATCH_NOT_SERVED;
}

bool watch_is_forbidden(const struct watch *watch)
{
    return watch->state == WATCH_FORBIDDEN || watch->state == WATCH_DENIED;
}

bool watch_is_partial(const struct watch *watch)
{
    return watch->partial;
}

uint64_t watch_blind_since_ms(const struct watch *watch)
{
    return watch->blind_since_ms;
}

uint64_t watch_restarts(const struct watch *watch)
{
    return watch->restarts;
}

const char *watch_kind(const struct watch *watch)
{
    return watch->options.kind;
}

const char *watch_ns(const struct watch *watch)
{
    return watch->options.ns;
}

const char *watch_group(const struct watch *watch)
{
    return watch->options.group;
}

const char *watch_version(const struct watch *watch)
{
    return watch->options.version;
}
