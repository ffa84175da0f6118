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

static struct report_step make_step(struct report_plan *plan, const struct pg_statement *statement,
                                    const struct pg_param *params)
{
    struct report_step step = {.statement = statement, .bytes = STEP_BYTES, .stored = -1};
    for (unsigned i = 0; i < statement->parameters; i++) {
        step.bytes += params[i].len;
        if (params[i].kind == PG_PARAM_LATER) step.stored = (int)i;
    }
    if (step.stored >= 0) step.bytes -= plan->counter.len; // a setting's name, which no row has
    step.params = arena_dup(plan->arena, params, statement->parameters * sizeof *params);
    return step;
}

int report_plan_add_step(struct report_plan *plan, const struct pg_statement *statement, const struct pg_param *params)
{
    if (plan->step_count == plan->step_capacity) {
        plan->step_capacity = plan->step_capacity ? plan->step_capacity * 2 : 64;
        plan->steps = mem_realloc(plan->steps, plan->step_capacity * sizeof *plan->steps);
    }
    struct report_step *step = &plan->steps[plan->step_count];
    *step = make_step(plan, statement, params);
    if (step->stored >= 0) fill_in_stored(plan, step);
    return (int)plan->step_count++;
}

void report_plan_beside(struct report_plan *plan, int step, size_t first)
{
    assert(step >= 0 && (size_t)step < plan->step_count && first <= plan->step_count);
    struct report_step *row = &plan->steps[step];
    for (size_t i = first; i < plan->step_count; i++)
        row->bytes += plan->steps[i].bytes;
    fill_in_stored(plan, row);
}

void report_plan_add_late_step(struct report_plan *plan, struct str place, const struct pg_statement *statement,
                               const struct pg_param *params)
{
    if (plan->late_count == plan->late_capacity) {
        plan->late_capacity = plan->late_capacity ? plan->late_capacity * 2 : 64;
        plan->late = mem_realloc(plan->late, plan->late_capacity * sizeof *plan->late);
    }
    struct report_step *step = &plan->late[plan->late_count];
    *step = make_step(plan, statement, params);
    step->place = arena_str(plan->arena, place);
    step->number = plan->late_count++;
}

struct report_plan_mark report_plan_mark(const struct report_plan *plan)
{
    return (struct report_plan_mark){plan->step_count, plan->late_count, plan->blob_count};
}

struct report_growth report_plan_growth(const struct report_plan *plan, struct report_plan_mark since)
{
    size_t bytes = 0;
    assert(since.steps <= plan->step_count && since.late <= plan->late_count && since.blobs <= plan->blob_count);
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
    assert(since.steps <= plan->step_count && since.late <= plan->late_count && since.blobs <= plan->blob_count);
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

struct pg_param value_text(struct report_plan *plan, struct str s)
{
    return pg_text(s.len ? arena_str(plan->arena, s) : STR(""));
}

struct pg_param value_text_or_null(struct report_plan *plan, struct str s)
{
    return s.len ? value_text(plan, s) : pg_null();
}

struct str report_cut(struct str s, size_t bytes_max)
{
    size_t len = s.len < bytes_max ? s.len : bytes_max;
    while (len < s.len && len > 0 && ((unsigned char)s.at[len] & 0xc0) == 0x80)
        len--;
    return str_first(s, len);
}

struct pg_param value_cut(struct report_plan *plan, struct str s, size_t bytes_max)
{
    return value_text_or_null(plan, report_cut(s, bytes_max));
}

struct pg_param value_int(struct report_plan *plan, int64_t value)
{
    return pg_text(str_c(arena_printf(plan->arena, "%" PRId64, value)));
}

struct pg_param value_int_or_null(struct report_plan *plan, const json_t *value)
{
    return json_is_integer(value) ? value_int(plan, json_integer_value(value)) : pg_null();
}

struct pg_param value_bool(bool value)
{
    return pg_text(value ? STR("t") : STR("f"));
}

struct pg_param value_bytes_or_null(struct str s)
{
    return s.len ? pg_bytea(s.at, s.len) : pg_null();
}

struct pg_param value_time_ms(struct report_plan *plan, int64_t wall_ms)
{
    char text[CLOCK_RFC3339_BYTES];
    clock_format_rfc3339(wall_ms, text);
    return value_text(plan, str_c(text));
}

struct pg_param value_time_or_null(struct report_plan *plan, struct str rfc3339)
{
    int64_t wall_ms = 0;
    bool is_time = rfc3339.len && clock_parse_rfc3339(rfc3339, &wall_ms, NULL) == ERROR_NONE;
    return is_time ? value_time_ms(plan, wall_ms) : pg_null();
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

struct pg_param value_json(struct report_plan *plan, const json_t *value, size_t bytes_max, const char *def)
{
    const struct pg_param other = def ? pg_text(str_c(def)) : pg_null();
    if (!value) return other;
    json_t *tame = holds_huge(value) ? without_huge(value) : json_incref((json_t *)value);
    struct strbuf *text = &plan->text;
    strbuf_clear(text);
    json_writer_write(text, tame, false);
    json_decref(tame);
    return text->overflow || text->len > bytes_max ? other : value_text(plan, strbuf_str(text));
}

struct pg_param value_cluster(struct report_plan *plan, const struct report *report)
{
    return value_text(plan, report->cluster.len ? report->cluster : STR("in-cluster"));
}

struct pg_param value_content_hash(struct report_plan *plan, const struct report *report)
{
    if (report->source != REPORT_FROM_TUNNEL) return pg_null();
    return pg_bytea(arena_dup(plan->arena, report->content_hash, ID_SHA256_BYTES), ID_SHA256_BYTES);
}

struct pg_param value_epoch(struct report_plan *plan, const struct report *report)
{
    return value_int(plan, report->source == REPORT_FROM_TUNNEL ? (int64_t)report->epoch : 0);
}

struct pg_param value_sequence(struct report_plan *plan, const struct report *report)
{
    return value_int(plan, report->source == REPORT_FROM_TUNNEL ? (int64_t)report->sequence : 0);
}

struct pg_param value_observed_at(struct report_plan *plan, const struct report *report)
{
    enum { CLOCK_AHEAD_MS = 60000 };
    // A reporter whose clock runs ahead must not shut out every later report.
    int64_t latest = plan->now_ms + CLOCK_AHEAD_MS, observed = report->observed_at_ms;
    return value_time_ms(plan, observed <= 0 ? plan->now_ms : observed > latest ? latest : observed);
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

struct pg_param value_resource_version(struct report_plan *plan, const struct report *report)
{
    bool is_known = report->source == REPORT_FROM_HTTP && is_version(report->resource_version);
    return value_text_or_null(plan, is_known ? report->resource_version : STR_EMPTY);
}

// ---- manifests -----------------------------------------------------------------------------------------------------

static enum error_code decode(const struct report *report, bool is_whole, json_t **out, struct error *err)
{
    // Of pods, of what makes pods, and of configuration: the most of what they are. Argo's own kinds use such words for
    // things that are looked at.
    static const struct str unread[] = {
        {"env", 3},           {"envFrom", 7},       {"args", 4},           {"command", 7},
        {"volumes", 7},       {"volumeMounts", 12}, {"livenessProbe", 13}, {"readinessProbe", 14},
        {"startupProbe", 12}, {"affinity", 8},      {"tolerations", 11},   {"securityContext", 15},
        {"data", 4},          {"binaryData", 10},   {"managedFields", 13},
    };
    const struct json_limits limits = {.bytes_max = MANIFEST_BYTES_MAX,
                                       .depth_max = MANIFEST_DEPTH_MAX,
                                       .tokens_max = MANIFEST_TOKENS_MAX,
                                       .skip = unread,
                                       .skip_count = is_whole ? 0 : sizeof unread / sizeof *unread};
    json_t *manifest = NULL;
    if (report->manifest.len) {
        enum error_code code = json_decode(report->manifest, &limits, &manifest, err);
        if (code != ERROR_NONE) return error_prefix(err, "manifest");
        if (!json_is_object(manifest)) {
            json_decref(manifest);
            return error_set(err, ERROR_INVALID, "manifest: must be an object");
        }
    }
    *out = manifest;
    return ERROR_NONE;
}

enum error_code report_decode(const struct report *report, json_t **out, struct error *err)
{
    return decode(report, str_eq(report->ref.group, STR("argoproj.io")), out, err);
}

enum error_code report_decode_whole(const struct report *report, json_t **out, struct error *err)
{
    return decode(report, true, out, err);
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

struct report_enrichment report_enrichment_of(struct report_plan *plan, const struct report *report)
{
    enum { ERRORS_MAX = 64 * 1024 };
    struct report_enrichment out;
    struct str desired = report_plan_blob(plan, report->desired_manifest, STR_EMPTY);
    bool is_one = str_eq(report->git_manifest, report->desired_manifest);
    out.desired_sha256 = value_bytes_or_null(desired);
    out.git_sha256 = value_bytes_or_null(is_one ? desired : report_plan_blob(plan, report->git_manifest, STR_EMPTY));
    json_t *errors = NULL;
    if (report->errors.len && json_decode(report->errors, NULL, &errors, NULL) != ERROR_NONE) errors = NULL;
    json_t *list = contract_errors(errors);
    out.source_errors = value_json(plan, list, ERRORS_MAX, "[]");
    json_decref(list);
    json_decref(errors);
    return out;
}
