#include "cli/noun.h"

#include <string.h>
#include <strings.h>

enum { PATHS_MAX = 64 };

static bool is_called(const struct noun *noun, const char *name)
{
    if (strcasecmp(noun->name, name) == 0) return true;
    for (const char *const *other = noun->others; *other; other++) {
        if (strcasecmp(*other, name) == 0) return true;
    }
    return false;
}

const struct noun *noun_find(const char *name)
{
    for (const struct noun *noun = nouns; noun->name; noun++) {
        if (is_called(noun, name)) return noun;
    }
    return NULL;
}

enum error_code noun_need(const char *name, const struct noun **out, struct error *err)
{
    *out = noun_find(name);
    if (*out) return ERROR_NONE;
    struct strbuf names;
    strbuf_init(&names, 400);
    for (const struct noun *noun = nouns; noun->name; noun++)
        strbuf_addf(&names, "%s%s", names.len ? ", " : "", noun->name);
    error_set(err, ERROR_INVALID, "unknown resource type \"%.60s\": must be one of %s", name, names.at);
    strbuf_finish(&names);
    return ERROR_INVALID;
}

const struct noun_filter *noun_filter_find(const struct noun *noun, const char *option)
{
    for (const struct noun_filter *filter = noun->filters; filter->option; filter++) {
        if (strcmp(filter->option, option) == 0) return filter;
    }
    return NULL;
}

// A level of the selection: of paths[0..count) those that begin with prefix, each next member once.
static void select_level(const char *const *paths, size_t count, struct str prefix, struct strbuf *out)
{
    for (size_t i = 0; i < count; i++) {
        struct str path = str_c(paths[i]);
        if (!str_starts(path, prefix)) continue;
        struct str rest = str_from(path, prefix.len), member = rest;
        bool has_more = str_cut(&rest, '.', &member);
        struct str whole = str_first(path, prefix.len + member.len);
        bool is_first = true;
        for (size_t before = 0; before < i && is_first; before++) {
            struct str other = str_c(paths[before]);
            is_first = !(str_starts(other, whole) && (other.len == whole.len || other.at[whole.len] == '.'));
        }
        if (!is_first) continue;
        strbuf_addf(out, " %.*s", STR_ARG(member));
        if (!has_more) continue;
        strbuf_add_c(out, " {");
        select_level(paths, count, str_first(path, whole.len + 1), out);
        strbuf_add_c(out, " }");
    }
}

void noun_select_paths(const char *const *paths, struct strbuf *out)
{
    size_t count = 0;
    while (paths[count])
        count++;
    select_level(paths, count, STR(""), out);
}

void noun_select_columns(const struct noun *noun, bool is_wide, struct strbuf *out)
{
    const char *paths[PATHS_MAX];
    size_t count = 0;
    const char *names[] = {noun->name_path, noun->namespace_path, noun->runtime_path, noun->window};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i]) paths[count++] = names[i];
    }
    for (const struct noun_column *column = noun->columns; column->title && count < PATHS_MAX - 1; column++) {
        if (is_wide || !column->is_wide) paths[count++] = column->path;
    }
    paths[count] = NULL;
    noun_select_paths(paths, out);
}
