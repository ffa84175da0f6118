#include "api/access/access_object_store.h"

#include "base/mem.h"
#include "culvert_statements.h"
#include "storage/sql/store_call.h"

void access_object_store_get(struct pg *pg, const char *account_id, const struct access_subject *subjects, size_t count,
                             store_node_done on_done, void *arg)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct access_subject *each = &subjects[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "runtime", json_new_str(each->runtime),
                                              "group", json_new_str(each->group), "kind", json_new_str(each->kind),
                                              "namespace", json_new_str(each->ns), "name", json_new_str(each->name)));
    }
    size_t len;
    char *text = json_canonical(list, &len);
    json_decref(list);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, access_objects, .account_id = pg_text(str_c(account_id)), .subjects = pg_text(str_of(text, len)));
    store_submit_node(batch, 0, ERROR_NONE, NULL, on_done, arg);
    mem_free(text);
}

struct access_object access_object_read(const json_t *json, struct arena *arena)
{
    json_t *labels = json_get_object(json, "labels"), *value;
    struct access_label *list = arena_array(arena, json_object_size(labels) + 1, sizeof *list);
    struct access_object object = {.labels = list};
    const char *key;
    for (unsigned name = 0; name < ATTRIBUTE_LABEL; name++)
        object.values[name] = json_get_str(json, access_attribute_text((enum access_attribute_name)name));
    json_object_foreach(labels, key, value) list[object.label_count++] =
        (struct access_label){str_c(key), json_str(value)};
    return object;
}
