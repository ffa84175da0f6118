#include "api/access/access_scope.h"

#include "base/id.h"

// The entity type of Codefresh's rules that a type of rows belongs to.
static const struct {
    const char *type;
    enum access_entity entity;
} entities[] = {
    {"application", ENTITY_GITOPS_APPLICATIONS},
    {"application_set", ENTITY_GITOPS_APPLICATIONS},
    {"resource", ENTITY_GITOPS_APPLICATIONS},
    {"release", ENTITY_GITOPS_APPLICATIONS},
    {"rollout", ENTITY_GITOPS_APPLICATIONS},
    {"transition", ENTITY_GITOPS_APPLICATIONS},
    {"kubernetes_event", ENTITY_GITOPS_APPLICATIONS},
    {"image", ENTITY_GITOPS_APPLICATIONS},
    {"operation", ENTITY_GITOPS_APPLICATIONS},
    {"cluster", ENTITY_CLUSTERS},
    {"workflow", ENTITY_WORKFLOWS},
    {"workflow_template", ENTITY_WORKFLOW_TEMPLATES},
    {"pipeline", ENTITY_PIPELINES},
};

// No rules are about these.
static const char *const unruled[] = {"runtime"};

// By enum access_attribute_name.
static const char *const attribute_names[] = {"cluster", "git_source",  "namespace",        "runtime",
                                              "product", "environment", "environment_kind", "labels"};

static const char *column_of(const struct access_type *type, const char *name)
{
    for (const struct access_attribute *attribute = type->attributes; attribute->name; attribute++)
        if (strcmp(attribute->name, name) == 0) return attribute->column;
    return NULL;
}

static bool has_columns(const struct access_type *type, const struct access_signature *signature)
{
    for (unsigned name = 0; name < ATTRIBUTE_LABEL; name++)
        if (signature->mask & 1u << name && !column_of(type, attribute_names[name])) return false;
    return !signature->label_keys || column_of(type, attribute_names[ATTRIBUTE_LABEL]);
}

static struct access_predicate predicate_of_set(const struct access_set *set, const struct access_type *type)
{
    const struct access_signature *signatures;
    size_t count = access_set_lookups(set, &signatures);
    if (access_set_allows_none(set)) return (struct access_predicate){.scope = ACCESS_NOTHING};
    if (access_set_allows_all(set)) return (struct access_predicate){.scope = ACCESS_ALL};
    for (size_t i = 0; i < count; i++)
        if (signatures[i].is_deny && !has_columns(type, &signatures[i]))
            return (struct access_predicate){.scope = ACCESS_NOTHING};
    return (struct access_predicate){
        .scope = ACCESS_RULES, .value = access_set_document(set), .set = set, .type = type};
}

static struct access_predicate predicate_of_user(struct access_rules *rules, const struct access_type *type)
{
    if (!rules) return (struct access_predicate){.scope = ACCESS_ALL};
    for (size_t i = 0; i < sizeof unruled / sizeof *unruled; i++)
        if (strcmp(unruled[i], type->name) == 0) return (struct access_predicate){.scope = ACCESS_ALL};
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (strcmp(entities[i].type, type->name) == 0)
            return predicate_of_set(access_rules_set(rules, entities[i].entity, ACTION_VIEW), type);
    return (struct access_predicate){.scope = ACCESS_NOTHING};
}

// A runtime reads what is its own, and nothing of types without a runtime.
struct access_predicate access_predicate_of(const struct api_principal *principal, struct access_rules *rules,
                                            const struct access_type *type)
{
    if (principal->kind == PRINCIPAL_USER) return predicate_of_user(rules, type);
    const char *column = column_of(type, "runtime");
    if (principal->kind == PRINCIPAL_RUNTIME && column)
        return (struct access_predicate){.scope = ACCESS_EQUAL, .column = column, .value = str_c(principal->runtime)};
    return (struct access_predicate){.scope = ACCESS_NOTHING};
}

// ---- SQL ----------------------------------------------------------------------------------------

static const char *labels_of(const struct access_type *type)
{
    return column_of(type, attribute_names[ATTRIBUTE_LABEL]);
}

static bool names_labels(const struct access_signature *signature)
{
    return signature->label_keys && signature->keys[0].len;
}

static void write_label_value(const struct access_type *type, const struct access_signature *signature, unsigned i,
                              struct strbuf *out)
{
    if (names_labels(signature))
        strbuf_addf(out, "(%s ->> '%.*s')", labels_of(type), STR_ARG(signature->keys[i]));
    else
        strbuf_addf(out, "l%u.value", i);
}

// "\1", the key, "\2" and the value, or what stands for one that the cluster hides.
static void write_label(const struct access_type *type, const struct access_signature *signature, unsigned i,
                        struct strbuf *out)
{
    if (names_labels(signature))
        strbuf_addf(out, " || E'\\x01%.*s\\x02' || CASE WHEN starts_with(", STR_ARG(signature->keys[i]));
    else
        strbuf_addf(out, " || E'\\x01' || l%u.key || E'\\x02' || CASE WHEN starts_with(", i);
    write_label_value(type, signature, i, out);
    strbuf_add_c(out, ", '" ACCESS_DIGEST_PREFIX "') THEN E'" ACCESS_HIDDEN_VALUE "' ELSE ");
    write_label_value(type, signature, i, out);
    strbuf_add_c(out, " END");
}

// Whether the document has the key of the row: the prefix, "\1" and each attribute, and each label.
// NULL where the row has no such attribute or label.
static void write_key(const struct access_type *type, const struct access_signature *signature, unsigned parameter,
                      struct strbuf *out)
{
    char prefix[ACCESS_PREFIX_BYTES];
    access_signature_prefix(signature, prefix);
    strbuf_addf(out, "$%u::jsonb ? ('%s'", parameter, prefix);
    for (unsigned name = 0; name < ATTRIBUTE_LABEL; name++)
        if (signature->mask & 1u << name)
            strbuf_addf(out, " || E'\\x01' || (%s)", column_of(type, attribute_names[name]));
    for (unsigned i = 0; i < signature->label_keys; i++)
        write_label(type, signature, i, out);
    strbuf_add_c(out, ")");
}

// Where the keys are not known: any labels, as many as the rule names, in the order of their keys.
static void write_signature(const struct access_type *type, const struct access_signature *signature,
                            unsigned parameter, struct strbuf *out)
{
    bool is_any = signature->label_keys && !names_labels(signature);
    if (is_any) strbuf_add_c(out, "EXISTS (SELECT FROM ");
    for (unsigned i = 0; is_any && i < signature->label_keys; i++)
        strbuf_addf(out, "%sjsonb_each_text(%s) l%u", i ? ", " : "", labels_of(type), i);
    if (is_any) strbuf_add_c(out, " WHERE ");
    for (unsigned i = 1; is_any && i < signature->label_keys; i++)
        strbuf_addf(out, "l%u.key COLLATE \"C\" < l%u.key COLLATE \"C\" AND ", i - 1, i);
    write_key(type, signature, parameter, out);
    if (is_any) strbuf_add_c(out, ")");
}

// One of the signatures that deny, or allow; false where there is none.
static void write_effect(const struct access_predicate *predicate, bool is_deny, unsigned parameter, struct strbuf *out)
{
    const struct access_signature *signatures;
    size_t count = access_set_lookups(predicate->set, &signatures), written = 0;
    strbuf_add_c(out, "coalesce(");
    for (size_t i = 0; i < count; i++) {
        if (signatures[i].is_deny != is_deny || !has_columns(predicate->type, &signatures[i])) continue;
        if (written++) strbuf_add_c(out, " OR ");
        write_signature(predicate->type, &signatures[i], parameter, out);
    }
    strbuf_add_c(out, written ? ", false)" : "false)");
}

void access_predicate_write(const struct access_predicate *predicate, unsigned parameter, struct strbuf *out)
{
    if (predicate->type->ruled) strbuf_addf(out, "(%s) AND ", predicate->type->ruled);
    strbuf_add_c(out, "NOT ");
    write_effect(predicate, true, parameter, out);
    if (!access_set_needs_allow(predicate->set)) return;
    strbuf_add_c(out, " AND ");
    write_effect(predicate, false, parameter, out);
}

void access_predicate_add_key(const struct access_predicate *predicate, struct strbuf *key)
{
    strbuf_addf(key, "%d %s|", (int)predicate->scope, predicate->column ? predicate->column : "");
    if (predicate->scope == ACCESS_RULES) access_predicate_write(predicate, 0, key);
}

void access_predicate_add_values(const struct access_predicate *predicate, struct strbuf *key)
{
    uint8_t sha256[ID_SHA256_BYTES];
    id_sha256(predicate->value.at, predicate->value.len, sha256);
    strbuf_add(key, sha256, sizeof sha256);
}
