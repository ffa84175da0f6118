#include "storage/reports/report_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_writer.h"
#include "base/mem.h"

void report_plan_init(struct report_plan *plan, int64_t now_ms, size_t bytes_max)
{
    *plan =
        (struct report_plan){.arena = arena_create(bytes_max), .now_ms = now_ms, .packer = manifest_packer_create()};
    strbuf_init(&plan->text, (size_t)MANIFEST_BYTES_MAX * 2);
}

void report_plan_finish(struct report_plan *plan)
{
    mem_free(plan->steps);
    mem_free(plan->late);
    mem_free(plan->blobs);
    strbuf_finish(&plan->text);
    manifest_packer_destroy(plan->packer);
    arena_destroy(plan->arena);
    *plan = (struct report_plan){0};
}

// What a row takes beside its values: its header, columns of fixed size, its entries in indexes.
enum { STEP_BYTES = 512, BLOB_BYTES = 128 };

static void fill_in_stored(struct report_plan *plan, struct report_step *step)
{
    step->params[step->stored] = pg_text(str_c(arena_printf(plan->arena, "%zu", step->bytes)));
}

int report_plan_add(struct report_plan *plan, const struct pg_statement *statement, const struct report_params *params)
{
    assert(statement->parameters == params->count);
    if (plan->step_count == plan->step_capacity) {
        plan->step_capacity = plan->step_capacity ? plan->step_capacity * 2 : 64;
        plan->steps = mem_realloc(plan->steps, plan->step_capacity * sizeof *plan->steps);
    }
    struct report_step *step = &plan->steps[plan->step_count];
    *step = (struct report_step){
        .statement = statement,
        .count = params->count,
        .params = arena_dup(plan->arena, params->list, params->count * sizeof params->list[0]),
        .bytes = STEP_BYTES + params->bytes,
        .stored = params->stored - 1,
    };
    if (step->stored >= 0) fill_in_stored(plan, step);
    return (int)plan->step_count++;
}

void report_plan_beside(struct report_plan *plan, int step, size_t first)
{
    struct report_step *row = &plan->steps[step];
    for (size_t i = first; i < plan->step_count; i++)
        row->bytes += plan->steps[i].bytes;
    fill_in_stored(plan, row);
}

void report_plan_add_late(struct report_plan *plan, struct str place, const struct pg_statement *statement,
                          const struct report_params *params)
{
    assert(statement->parameters == params->count);
    if (plan->late_count == plan->late_capacity) {
        plan->late_capacity = plan->late_capacity ? plan->late_capacity * 2 : 64;
        plan->late = mem_realloc(plan->late, plan->late_capacity * sizeof *plan->late);
    }
    plan->late[plan->late_count] = (struct report_step){
        .statement = statement,
        .count = params->count,
        .params = arena_dup(plan->arena, params->list, params->count * sizeof params->list[0]),
        .place = arena_str(plan->arena, place),
        .number = plan->late_count,
        .bytes = STEP_BYTES + params->bytes,
        .stored = -1,
    };
    plan->late_count++;
}

struct report_plan_mark report_plan_mark(const struct report_plan *plan)
{
    return (struct report_plan_mark){plan->step_count, plan->late_count, plan->blob_count};
}

struct report_growth report_plan_growth(const struct report_plan *plan, struct report_plan_mark since)
{
    size_t bytes = 0;
    for (size_t i = since.steps; i < plan->step_count; i++)
        bytes += plan->steps[i].bytes;
    for (size_t i = since.late; i < plan->late_count; i++)
        bytes += plan->late[i].bytes;
    for (size_t i = since.blobs; i < plan->blob_count; i++)
        bytes += BLOB_BYTES + plan->blobs[i].content.len;
    return (struct report_growth){(int64_t)bytes,
                                  (int64_t)(plan->step_count - since.steps + plan->late_count - since.late)};
}

void report_plan_drop(struct report_plan *plan, struct report_plan_mark since)
{
    plan->step_count = since.steps;
    plan->late_count = since.late;
    plan->blob_count = since.blobs;
    plan->commit_revision = plan->commit_repo_url = STR_EMPTY; // the next one plans it anew
}

static int compare_late(const void *a, const void *b)
{
    const struct report_step *left = a, *right = b;
    int order = str_compare(left->place, right->place);
    return order ? order : (left->number > right->number) - (left->number < right->number);
}

void report_plan_sort_late(struct report_plan *plan)
{
    if (plan->late_count) qsort(plan->late, plan->late_count, sizeof *plan->late, compare_late);
}

struct str report_plan_blob(struct report_plan *plan, struct str text, struct str packed)
{
    if (!text.len) return STR_EMPTY;
    uint8_t sha256[ID_SHA256_BYTES];
    id_sha256(text.at, text.len, sha256);
    struct str name = str_of(arena_dup(plan->arena, sha256, sizeof sha256), sizeof sha256);
    if (manifest_known_has(plan->known, plan->server, plan->account_id, sha256)) {
        plan->has_skipped = true;
        return name;
    }
    if (plan->blob_count == plan->blob_capacity) {
        plan->blob_capacity = plan->blob_capacity ? plan->blob_capacity * 2 : 64;
        plan->blobs = mem_realloc(plan->blobs, plan->blob_capacity * sizeof *plan->blobs);
    }
    struct manifest_blob *blob = &plan->blobs[plan->blob_count++];
    manifest_blob_pack(blob, text, sha256, packed, plan->packer, plan->arena);
    blob->runtime = plan->runtime;
    blob->counter = plan->counter;
    return name;
}

// ---- values --------------------------------------------------------------------------------------------------------

static void push(struct report_params *p, struct pg_param param)
{
    assert(p->count < REPORT_PARAMS_MAX);
    p->bytes += param.len;
    p->list[p->count++] = param;
}

void params_text(struct report_params *p, struct str s)
{
    push(p, pg_text(s.len ? arena_str(p->plan->arena, s) : STR("")));
}

void params_text_or_null(struct report_params *p, struct str s)
{
    push(p, s.len ? pg_text(arena_str(p->plan->arena, s)) : pg_null());
}

struct str report_cut(struct str s, size_t bytes_max)
{
    size_t len = s.len < bytes_max ? s.len : bytes_max;
    while (len < s.len && len > 0 && ((unsigned char)s.at[len] & 0xc0) == 0x80)
        len--;
    return str_first(s, len);
}

void params_cut(struct report_params *p, struct str s, size_t bytes_max)
{
    params_text_or_null(p, report_cut(s, bytes_max));
}

void params_int(struct report_params *p, int64_t value)
{
    push(p, pg_text(str_c(arena_printf(p->plan->arena, "%" PRId64, value))));
}

void params_int_or_null(struct report_params *p, const json_t *value)
{
    if (json_is_integer(value))
        params_int(p, json_integer_value(value));
    else
        push(p, pg_null());
}

void params_bool(struct report_params *p, bool value)
{
    push(p, pg_text(value ? STR("t") : STR("f")));
}

void params_bytes_or_null(struct report_params *p, struct str s)
{
    push(p, s.len ? pg_bytea(s.at, s.len) : pg_null());
}

void params_time_ms(struct report_params *p, int64_t wall_ms)
{
    char text[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(wall_ms, text);
    params_text(p, str_c(text));
}

void params_time_or_null(struct report_params *p, struct str rfc3339)
{
    int64_t wall_ms = 0;
    if (rfc3339.len && clock_parse_rfc3339(rfc3339, &wall_ms, NULL) == ERROR_NONE)
        params_time_ms(p, wall_ms);
    else
        push(p, pg_null());
}

// jsonb writes 1e300 as an integer of 301 digits, which no reader of ours takes back.
static bool is_huge(const json_t *value)
{
    return json_is_real(value) && !(fabs(json_real_value(value)) < 9e15);
}

static bool holds_huge(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member) if (holds_huge(member)) return true;
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, member) if (holds_huge(member)) return true;
    }
    return is_huge(value);
}

// A copy (new reference) in which such numbers are null.
static json_t *without_huge(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (is_huge(value)) return json_null();
    if (json_is_object(value)) {
        json_t *copy = json_object();
        json_object_foreach((json_t *)value, key, member) json_object_set_new(copy, key, without_huge(member));
        return copy;
    }
    if (json_is_array(value)) {
        json_t *copy = json_array();
        json_array_foreach(value, i, member) json_array_append_new(copy, without_huge(member));
        return copy;
    }
    return json_incref((json_t *)value);
}

void params_json(struct report_params *p, const json_t *value, size_t bytes_max, const char *def)
{
    if (!value) {
        push(p, def ? pg_text(str_c(def)) : pg_null());
        return;
    }
    json_t *tame = holds_huge(value) ? without_huge(value) : json_incref((json_t *)value);
    struct strbuf *text = &p->plan->text;
    strbuf_clear(text);
    json_writer_write(text, tame, false);
    json_decref(tame);
    if (text->overflow || text->len > bytes_max)
        push(p, def ? pg_text(str_c(def)) : pg_null());
    else
        params_text(p, strbuf_str(text));
}

void params_key(struct report_params *p, const struct report *report)
{
    params_text(p, report->account_id);
    params_text(p, report->runtime);
}

void params_entry(struct report_params *p, const struct report *report)
{
    bool is_tunnel = report->source == REPORT_FROM_TUNNEL;
    const uint8_t *hash = report->content_hash;
    params_bytes_or_null(p, is_tunnel ? str_of(arena_dup(p->plan->arena, hash, ID_SHA256_BYTES), ID_SHA256_BYTES)
                                      : STR_EMPTY);
}

void params_order(struct report_params *p, const struct report *report)
{
    enum { CLOCK_AHEAD_MS = 60000 };
    bool is_tunnel = report->source == REPORT_FROM_TUNNEL;
    params_int(p, is_tunnel ? (int64_t)report->epoch : 0);
    params_int(p, is_tunnel ? (int64_t)report->sequence : 0);
    // A reporter whose clock runs ahead must not shut out every later word.
    int64_t latest = p->plan->now_ms + CLOCK_AHEAD_MS;
    int64_t observed = report->observed_at_ms;
    params_time_ms(p, observed <= 0 ? p->plan->now_ms : observed > latest ? latest : observed);
}

void params_stored(struct report_params *p)
{
    p->stored = (int)p->count + 1;
    push(p, pg_null());
    p->list[p->count++] = pg_text(p->plan->counter);
}

// As Kubernetes writes them where they may be compared: a decimal number without a sign or leading zeros, not 0.
static bool is_version(struct str text)
{
    enum { DIGITS_MAX = 20 };
    if (!text.len || text.len > DIGITS_MAX || text.at[0] == '0') return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9') return false;
    return true;
}

void params_version(struct report_params *p, const struct report *report)
{
    bool is_known = report->source == REPORT_FROM_HTTP && is_version(report->resource_version);
    params_text_or_null(p, is_known ? report->resource_version : STR_EMPTY);
}

// ---- manifests -----------------------------------------------------------------------------------------------------

enum error_code report_decode(const struct report *report, json_t **out, struct error *err)
{
    // Of pods, of what makes pods, and of configuration: the most of what they are. Argo's own kinds use such words for
    // things that are looked at.
    static const struct str unread[] = {
        {"env", 3},           {"envFrom", 7},       {"args", 4},           {"command", 7},
        {"volumes", 7},       {"volumeMounts", 12}, {"livenessProbe", 13}, {"readinessProbe", 14},
        {"startupProbe", 12}, {"affinity", 8},      {"tolerations", 11},   {"securityContext", 15},
        {"data", 4},          {"binaryData", 10},   {"managedFields", 13},
    };
    bool is_argo = str_eq(report->group, STR("argoproj.io"));
    const struct json_limits limits = {.bytes_max = MANIFEST_BYTES_MAX,
                                       .depth_max = MANIFEST_DEPTH_MAX,
                                       .tokens_max = MANIFEST_TOKENS_MAX,
                                       .skip = unread,
                                       .skip_count =
                                           is_argo || report_is_cluster(report) ? 0 : sizeof unread / sizeof *unread};
    json_t *manifest = NULL;
    if (report->manifest.len) {
        enum error_code code = json_decode(report->manifest, &limits, &manifest, err);
        if (code != ERROR_NONE) return error_prefix(err, "manifest");
        if (!json_is_object(manifest)) {
            json_decref(manifest);
            return error_set(err, ERROR_INVALID, "manifest: is not an object");
        }
    }
    *out = manifest;
    return ERROR_NONE;
}

json_t *report_string_map(const json_t *object, size_t value_bytes_max)
{
    json_t *map = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!json_is_string(value) || json_string_length(value) > value_bytes_max) continue;
        if (strcmp(key, "kubectl.kubernetes.io/last-applied-configuration") == 0) continue;
        json_object_set(map, key, value);
    }
    return map;
}

// Reporters' own form, {"type","level","message","lastSeen","sourceReference"}, as the contract's SyncError or
// HealthError; what has that form already stays.
static json_t *contract_errors(const json_t *errors)
{
    enum { ERRORS_COUNT_MAX = 100 };
    json_t *list = json_array();
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)errors, i, each)
    {
        if (i >= ERRORS_COUNT_MAX) break;
        if (!json_is_object(each)) continue;
        if (json_object_get(each, "__typename")) {
            json_array_append(list, each);
            continue;
        }
        bool is_health = str_eq(json_get_str(each, "type"), STR("health"));
        bool is_warning = str_eq_nocase(json_get_str(each, "level"), STR("warning"));
        json_t *error =
            json_pack("{s:s, s:s, s:s, s:o, s:n, s:n, s:s, s:o}", "__typename", is_health ? "HealthError" : "SyncError",
                      "level", is_warning ? "WARNING" : "ERROR", "title", is_health ? "Health error" : "Sync error",
                      "message", json_new_str(json_get_str(each, "message")), "suggestion", "object", "code", "UNKNOWN",
                      "lastSeen", json_new_str(json_get_str(each, "lastSeen")));
        json_t *reference = json_object_get(each, "sourceReference");
        if (json_is_object(reference)) json_object_set(error, "sourceReference", reference);
        json_array_append_new(list, error);
    }
    return list;
}

void report_enrich_params(struct report_params *p, const struct report *report)
{
    enum { TEXT_MAX = 4096, ERRORS_MAX = 64 * 1024 };
    params_cut(p, report->repo_url, TEXT_MAX);
    params_cut(p, report->path, TEXT_MAX);
    params_cut(p, report->revision, TEXT_MAX);
    params_cut(p, report->commit_message, TEXT_MAX);
    params_cut(p, report->commit_author, TEXT_MAX);
    params_cut(p, report->commit_date, TEXT_MAX);
    struct str desired = report_plan_blob(p->plan, report->desired_manifest, STR_EMPTY);
    bool is_one = str_eq(report->git_manifest, report->desired_manifest);
    params_bytes_or_null(p, desired);
    params_bytes_or_null(p, is_one ? desired : report_plan_blob(p->plan, report->git_manifest, STR_EMPTY));
    json_t *errors = NULL;
    if (report->errors.len && json_decode(report->errors, NULL, &errors, NULL) != ERROR_NONE) errors = NULL;
    json_t *list = contract_errors(errors);
    params_json(p, list, ERRORS_MAX, "[]");
    json_decref(list);
    json_decref(errors);
}
