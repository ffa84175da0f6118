#include "storage/reports/report_entity.h"

#include "base/json/json.h"
#include "base/parse.h"

static const int64_t count_max = INT32_MAX;
enum { UID_MAX = 128, NAME_MAX_BYTES = 253 };

struct pg_param value_uid(struct report_plan *plan, const struct report *report, const json_t *manifest)
{
    struct str uid = report->ref.uid;
    if (!uid.len) uid = report_cut(json_get_str(json_get_object(manifest, "metadata"), "uid"), UID_MAX);
    return value_text(plan, uid);
}

struct pg_param value_count(struct report_plan *plan, const json_t *object, const char *member, int64_t def)
{
    const json_t *value = json_object_get(object, member);
    int64_t number = json_is_integer(value) ? (int64_t)json_integer_value(value) : def;
    if (!json_is_integer(value) && def < 0) return pg_null();
    return value_int(plan, number < 0 ? 0 : number > count_max ? count_max : number);
}

struct report_owner report_owner_of(struct report_plan *plan, const json_t *manifest)
{
    const json_t *list = json_path(manifest, "metadata", "ownerReferences", NULL), *owner = NULL;
    size_t i;
    json_t *each;
    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        if (!owner && json_get_bool(each, "controller", false)) owner = each;
    }
    return (struct report_owner){.kind = value_text(plan, report_cut(json_get_str(owner, "kind"), UID_MAX)),
                                 .name = value_text(plan, report_cut(json_get_str(owner, "name"), NAME_MAX_BYTES)),
                                 .uid = value_text(plan, report_cut(json_get_str(owner, "uid"), UID_MAX))};
}

struct pg_param value_revision(struct report_plan *plan, const json_t *manifest)
{
    const json_t *annotations = json_path(manifest, "metadata", "annotations", NULL);
    struct str text = json_get_str(annotations, "rollout.argoproj.io/revision");
    if (!text.len) text = json_get_str(annotations, "deployment.kubernetes.io/revision");
    uint64_t revision = 0;
    bool is_number = parse_u64(text, 0, (uint64_t)count_max, &revision, NULL) == ERROR_NONE;
    return is_number ? value_int(plan, (int64_t)revision) : pg_null();
}

struct pg_param value_member(struct report_plan *plan, const json_t *object, const char *member, size_t bytes_max)
{
    return value_cut(plan, json_get_str(object, member), bytes_max);
}
