#include "api/live/live_window.h"

#include <assert.h>
#include <string.h>

#include "api/compile/compiled_read.h"
#include "api/http/request.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"

enum { ID_BYTES_MAX = 800 };

// ---- keys ---------------------------------------------------------------------------------------

static bool is_key(const struct table_node *node, const void *id)
{
    return str_eq(TABLE_OWNER(node, struct live_key, node)->id, *(const struct str *)id);
}

static uint64_t hash_of(const struct live_window *window, struct str id)
{
    return hash_end(hash_part(window->by_id.seed, id));
}

static struct live_key *find(const struct live_window *window, struct str id)
{
    struct table_node *node = table_find(&window->by_id, hash_of(window, id), is_key, &id);
    return node ? TABLE_OWNER(node, struct live_key, node) : NULL;
}

static enum error_code check_id(struct str id, struct error *err)
{
    struct str rest = id, runtime, ns;
    bool is_good = id.len <= ID_BYTES_MAX && str_cut(&rest, '/', &runtime) && runtime.len && str_cut(&rest, '/', &ns) &&
                   rest.len && !str_has_byte(rest, '/');
    if (is_good) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "invalid id \"%.*s\": expected RUNTIME/NAMESPACE/NAME",
                     STR_ARG(str_first(id, 100)));
}

enum error_code live_window_init(struct live_window *window, const struct live_window_type *type, const struct str *ids,
                                 size_t count, struct error *err)
{
    if (count < 1 || count > LIVE_DELTAS_MAX)
        return error_set(err, ERROR_INVALID, "ids: %zu are given, accepted are 1 to %d", count, LIVE_DELTAS_MAX);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (check_id(ids[i], err) != ERROR_NONE) return err->code;
        bytes += ids[i].len;
    }
    *window =
        (struct live_window){.type = type, .texts = mem_alloc(bytes), .keys = mem_array(count, sizeof *window->keys)};
    table_init(&window->by_id);
    char *to = window->texts;
    for (size_t i = 0; i < count; i++) {
        if (find(window, ids[i])) {
            live_window_finish(window);
            return error_set(err, ERROR_INVALID, "ids: \"%.*s\" is given twice", STR_ARG(str_first(ids[i], 100)));
        }
        struct live_key *key = &window->keys[window->count++];
        memcpy(to, ids[i].at, ids[i].len);
        key->id = str_of(to, ids[i].len);
        to += ids[i].len;
        table_add(&window->by_id, &key->node, hash_of(window, key->id));
    }
    live_window_mark_all(window);
    return ERROR_NONE;
}

void live_window_finish(struct live_window *window)
{
    for (size_t i = 0; i < window->count; i++)
        table_remove(&window->by_id, &window->keys[i].node);
    if (window->type) table_finish(&window->by_id);
    mem_free(window->keys);
    mem_free(window->texts);
    *window = (struct live_window){0};
}

static bool mark(struct live_window *window, struct live_key *key)
{
    if (key->is_dirty) return false;
    key->is_dirty = true;
    window->dirty++;
    return true;
}

void live_window_mark_all(struct live_window *window)
{
    for (size_t i = 0; i < window->count; i++)
        mark(window, &window->keys[i]);
}

static bool mark_runtime(struct live_window *window, struct str runtime)
{
    bool any = false;
    for (size_t i = 0; i < window->count; i++) {
        struct str id = window->keys[i].id;
        if (id.len > runtime.len && str_starts(id, runtime) && id.at[runtime.len] == '/')
            any |= mark(window, &window->keys[i]);
    }
    return any;
}

bool live_window_mark(struct live_window *window, const struct change *change)
{
    if (change->ref.group.len == 0 && str_eq(change->ref.kind, STR("Runtime")))
        return mark_runtime(window, change->ref.name);
    if (!str_eq(change->ref.kind, str_c(window->type->kind)) || !str_eq(change->ref.group, str_c(window->type->group)))
        return false;
    char text[ID_BYTES_MAX];
    size_t len = 0;
    const struct str parts[] = {change->runtime, STR("/"), change->ref.ns, STR("/"), change->ref.name};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].len > sizeof text - len) return false;
        if (parts[i].len) memcpy(text + len, parts[i].at, parts[i].len);
        len += parts[i].len;
    }
    struct live_key *key = find(window, str_of(text, len));
    return key && mark(window, key);
}

// ---- one event ----------------------------------------------------------------------------------

// In the request's arena.
struct window_read {
    struct api_request *request;
    struct live_event *event;
    const struct gql_selected *selected;
    struct gql_collection *payload, *delta; // what is selected of the event, and of each delta
    struct gql_selected node;               // the object of a delta
    json_t *arguments;
    struct strbuf deltas; // with commas
    gql_written on_written;
    void *arg;
};

static const struct bound_query *query_of(struct api_request *request, const struct live_window_type *type)
{
    const struct api_options *options = &request->api->options;
    for (size_t i = 0; i < options->resolver_count; i++) {
        const struct gql_resolver *resolver = &options->resolvers[i];
        if (resolver->kind != GQL_QUERY || strcmp(resolver->field, type->list) != 0) continue;
        assert(resolver->resolve_selected == compiled_read_resolve);
        struct bound_query *query = arena_dup(request->arena, resolver->with, sizeof *query);
        if (type->object) query->field = type->object;
        return query;
    }
    assert(false); // the module names a list that is declared
    return NULL;
}

static const struct gql_type *type_of(const struct window_read *read, const struct gql_field_def *def)
{
    return gql_schema_type(read->selected->projection->schema, gql_type_ref_name(&def->type));
}

static struct gql_collected *field_of(struct gql_collection *collection, const char *name)
{
    for (size_t i = 0; collection && i < collection->count; i++)
        if (str_eq(collection->fields[i].field->name, str_c(name))) return &collection->fields[i];
    return NULL;
}

// deltas { node { ... } }: once, because it is what is read and compared.
static enum error_code set_selection(struct window_read *read, struct error *err)
{
    struct gql_projection *projection = read->selected->projection;
    const struct gql_type *payload = type_of(read, read->selected->def);
    read->payload = gql_collect_inner(projection, read->selected->field, payload);
    struct gql_collected *deltas = field_of(read->payload, "deltas");
    if (!deltas) return error_set(err, ERROR_INVALID, "select deltas { id node { ... } }");
    const struct gql_type *delta = type_of(read, gql_type_field(payload, STR("deltas")));
    read->delta = gql_collect_inner(projection, deltas, delta);
    struct gql_collected *node = field_of(read->delta, "node");
    size_t nodes = 0;
    for (size_t i = 0; read->delta && i < read->delta->count; i++)
        nodes += str_eq(read->delta->fields[i].field->name, STR("node"));
    if (nodes != 1) return error_set(err, ERROR_INVALID, "select deltas { node { ... } } once");
    read->node = (struct gql_selected){.projection = projection,
                                       .def = gql_type_field(delta, STR("node")),
                                       .field = node,
                                       .arguments = read->arguments,
                                       .answer_bytes_max = read->selected->answer_bytes_max};
    return ERROR_NONE;
}

static enum error_code set_window(struct window_read *read, const struct live_window_type *type, struct error *err)
{
    struct live_event *event = read->event;
    const json_t *arguments = read->selected->arguments, *list = json_object_get(arguments, "ids");
    struct str ids[LIVE_DELTAS_MAX];
    size_t count = json_array_size(list);
    if (json_object_get(json_get_object(arguments, "filters"), "ids"))
        return error_set(err, ERROR_INVALID, "filters.ids: the window has its own argument ids");
    for (size_t i = 0; i < count && i < LIVE_DELTAS_MAX; i++)
        ids[i] = json_str(json_array_get(list, i));
    if (!list) {
        ids[0] = str_c(arena_printf(read->request->arena, "%s/%s/%s",
                                    json_string_value(json_object_get(arguments, "runtime")),
                                    json_string_value(json_object_get(arguments, "namespace")),
                                    json_string_value(json_object_get(arguments, "name"))));
        count = 1;
    }
    enum error_code code = live_window_init(event->window, type, ids, count, err);
    if (code == ERROR_NONE && (code = event->admit(event->arg, err)) != ERROR_NONE) live_window_finish(event->window);
    if (code == ERROR_NONE) {
        if (event->hint_count != count) event->hint = NULL;
        event->is_reset = !event->hint;
    }
    return code;
}

static uint64_t digest_of(struct str text)
{
    uint8_t hash[ID_SHA256_BYTES];
    uint64_t digest;
    id_sha256(text.at, text.len, hash);
    memcpy(&digest, hash, sizeof digest);
    return (uint32_t)digest ? digest : digest + 1; // neither it nor its lower half is 0
}

static void write_delta(struct window_read *read, struct str id, struct str node)
{
    struct strbuf *out = &read->deltas;
    strbuf_add_byte(out, '{');
    for (size_t i = 0; i < read->delta->count; i++) {
        struct str name = read->delta->fields[i].field->name;
        if (i) strbuf_add_byte(out, ',');
        strbuf_add_json(out, read->delta->fields[i].key);
        strbuf_add_byte(out, ':');
        if (str_eq(name, STR("node")))
            strbuf_add_str(out, node);
        else
            strbuf_add_json(out, str_eq(name, STR("id")) ? id : read->delta->type->name);
    }
    strbuf_add_byte(out, '}');
}

// Does the client know this already?
static bool is_known(const struct live_event *event, const struct live_key *key, uint64_t state)
{
    if (!event->is_first) return key->state == state;
    return event->hint && event->hint[key - event->window->keys] == (uint32_t)state;
}

static void on_row(void *arg, struct str id, struct str text)
{
    struct window_read *read = arg;
    struct live_event *event = read->event;
    struct live_key *key = find(event->window, id);
    if (!key || !key->is_asked) return;
    uint64_t state = digest_of(text);
    key->is_seen = true;
    if (!is_known(event, key, state)) {
        if (event->deltas++) strbuf_add_byte(&read->deltas, ',');
        write_delta(read, key->id, text);
    }
    key->state = state;
}

static size_t write_removed(struct live_event *event, struct strbuf *out)
{
    size_t removed = 0;
    strbuf_add_byte(out, '[');
    for (size_t i = 0; i < event->window->count; i++) {
        struct live_key *key = &event->window->keys[i];
        if (!key->is_asked || key->is_seen) continue;
        // Of the first event: the client asked for it and is answered, unless it knows.
        if (event->is_first ? event->is_reset || event->hint[i] : key->state != 0) {
            if (removed++) strbuf_add_byte(out, ',');
            strbuf_add_json(out, key->id);
        }
        key->state = 0;
    }
    strbuf_add_byte(out, ']');
    return removed;
}

static void write_payload(struct window_read *read, struct strbuf *out)
{
    struct strbuf removed;
    strbuf_init(&removed, read->selected->answer_bytes_max);
    size_t gone = write_removed(read->event, &removed);
    read->event->is_empty = !read->event->is_first && !gone && !read->event->deltas;
    strbuf_add_byte(out, '{');
    for (size_t i = 0; i < read->payload->count; i++) {
        struct str name = read->payload->fields[i].field->name;
        if (i) strbuf_add_byte(out, ',');
        strbuf_add_json(out, read->payload->fields[i].key);
        strbuf_add_byte(out, ':');
        if (str_eq(name, STR("deltas"))) {
            strbuf_add_byte(out, '[');
            strbuf_add_str(out, strbuf_str(&read->deltas));
            strbuf_add_byte(out, ']');
        } else if (str_eq(name, STR("removed"))) {
            strbuf_add_str(out, strbuf_str(&removed));
        } else if (str_eq(name, STR("reset"))) {
            strbuf_add_c(out, read->event->is_reset ? "true" : "false");
        } else {
            strbuf_add_json(out, read->payload->type->name);
        }
    }
    strbuf_add_byte(out, '}');
    if (read->deltas.overflow) out->overflow = true;
    strbuf_finish(&removed);
}

static void finish(struct window_read *read, const struct error *err, struct strbuf *text)
{
    struct live_window *window = read->event->window;
    read->event->has_failed = err != NULL;
    for (size_t i = 0; i < window->count; i++) {
        if (window->keys[i].is_asked && err) mark(window, &window->keys[i]);
        window->keys[i].is_asked = window->keys[i].is_seen = false;
    }
    strbuf_finish(&read->deltas);
    json_decref(read->arguments);
    read->on_written(read->arg, err, text);
}

static void on_done(void *arg, const struct error *err)
{
    struct window_read *read = arg;
    struct strbuf text;
    strbuf_init(&text, read->selected->answer_bytes_max);
    if (!err) write_payload(read, &text);
    finish(read, err, &text);
    strbuf_finish(&text);
}

// The arguments with the ids that are to be read.
static void set_arguments(struct window_read *read, const struct live_window_type *type)
{
    struct live_window *window = read->event->window;
    json_t *ids = json_array();
    for (size_t i = 0; i < window->count; i++) {
        struct live_key *key = &window->keys[i];
        if (!key->is_dirty) continue;
        key->is_dirty = false;
        key->is_asked = true;
        json_array_append_new(ids, json_new_str(key->id));
    }
    window->dirty = 0;
    read->arguments = json_object();
    json_object_set_new(read->arguments, "ids", ids);
    json_t *filters = json_object_get(read->selected->arguments, "filters");
    if (filters)
        json_object_set(read->arguments, "filters", filters);
    else if (type->always)
        json_object_set_new(read->arguments, "filters", json_pack("{s:b}", type->always, 1));
    read->node.arguments = read->arguments;
}

void live_window_resolve(void *ctx, const void *with, const struct gql_selected *selected, gql_written on_written,
                         void *arg)
{
    struct api_request *request = ctx;
    const struct live_window_type *type = with;
    struct window_read *read = arena_alloc(request->arena, sizeof *read);
    *read = (struct window_read){
        .request = request, .event = request->live, .selected = selected, .on_written = on_written, .arg = arg};
    struct error err;
    strbuf_init(&read->deltas, selected->answer_bytes_max);
    read->event->is_resolved = true;
    enum error_code code = set_selection(read, &err);
    if (code == ERROR_NONE && read->event->is_first) code = set_window(read, type, &err);
    if (code != ERROR_NONE) {
        finish(read, &err, NULL);
        return;
    }
    set_arguments(read, type);
    compiled_read_rows(request, &(struct compiled_rows){.query = query_of(request, type),
                                                        .id_sql = type->id_sql,
                                                        .selected = &read->node,
                                                        .rows_max = LIVE_DELTAS_MAX,
                                                        .on_row = on_row,
                                                        .on_done = on_done,
                                                        .arg = read});
}
