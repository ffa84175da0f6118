#include "cli/filter_options.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "cli/context.h"

enum { FILTER_OPTIONS_MAX = 64 };

static char letter_of(const char *option)
{
    return strcmp(option, "namespace") == 0 ? 'n' : strcmp(option, "runtime") == 0 ? 'r' : '\0';
}

static bool has(const struct option_spec *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(options[i].name, name) == 0) return true;
    }
    return false;
}

const struct option_spec *filter_options(void)
{
    static struct option_spec options[FILTER_OPTIONS_MAX + 1];
    if (options[0].name) return options;
    size_t count = 0;
    for (const struct noun *noun = nouns; noun->name; noun++) {
        for (const struct noun_filter *filter = noun->filters; filter->option; filter++) {
            if (*filter->option == '-' || has(options, count, filter->option)) continue;
            assert(count < FILTER_OPTIONS_MAX);
            options[count++] = (struct option_spec){.name = filter->option,
                                                    .letter = letter_of(filter->option),
                                                    .value = "VALUE",
                                                    .help = "filter of lists"};
        }
    }
    return options;
}

// "health=Degraded,sync=OUT_OF_SYNC"
static enum error_code apply_selector(const char *text, struct query *query, struct error *err)
{
    struct str rest = str_c(text), item;
    bool has_more = true;
    while (has_more) {
        has_more = str_cut(&rest, ',', &item);
        struct str value = item, name;
        if (!str_cut(&value, '=', &name) || !name.len)
            return error_set(err, ERROR_INVALID, "--field-selector: \"%.*s\" must be FILTER=VALUE", STR_ARG(item));
        if (value.len && value.at[0] == '=') value = str_from(value, 1); // kubectl's ==
        char *option = mem_strndup(name.at, name.len), *plain = mem_strndup(value.at ? value.at : "", value.len);
        enum error_code code = query_filter(query, option, plain, err);
        mem_free(option);
        mem_free(plain);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

// The platform takes alternatives; all of several conditions is not what it answers.
static enum error_code apply_labels(const char *text, struct query *query, struct error *err)
{
    const struct noun *noun = query->noun;
    if (!noun->label_filter)
        return error_set(err, ERROR_INVALID, "-l: %s cannot be selected by label", noun->others[0]);
    if (strpbrk(text, ",!()") || strchr(text, ' '))
        return error_set(err, ERROR_INVALID, "-l \"%.100s\": must be one KEY or KEY=VALUE", text);
    const char *equals = strstr(text, "==");
    char *plain = equals ? mem_printf("%.*s=%s", (int)(equals - text), text, equals + 2) : mem_strdup(text);
    json_t *values = json_pack("[s]", plain);
    mem_free(plain);
    if (!values) return error_set(err, ERROR_INVALID, "-l: no valid UTF-8");
    json_object_set_new(query->filters, noun->label_filter, values);
    return ERROR_NONE;
}

static enum error_code apply_default(const struct arguments *arguments, const char *option, const char *value,
                                     struct query *query, struct error *err)
{
    bool is_off = !value || arguments_has(arguments, "all") || arguments_has(arguments, option);
    return is_off || !noun_filter_find(query->noun, option) ? ERROR_NONE : query_filter(query, option, value, err);
}

enum error_code filter_options_apply(const struct arguments *arguments, const struct context *context,
                                     struct query *query, struct error *err)
{
    const struct option_spec *filters = filter_options();
    size_t count = 0;
    while (filters[count].name)
        count++;
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; code == ERROR_NONE && i < arguments->option_count; i++) {
        const char *name = arguments->options[i].name, *value = arguments->options[i].value;
        if (strcmp(name, "field-selector") == 0) {
            code = apply_selector(value, query, err);
        } else if (strcmp(name, "selector") == 0) {
            code = apply_labels(value, query, err);
        } else if (has(filters, count, name)) {
            code = query_filter(query, name, value, err);
        }
    }
    if (code == ERROR_NONE) code = apply_default(arguments, "runtime", context->runtime, query, err);
    if (code == ERROR_NONE) code = apply_default(arguments, "namespace", context->namespace, query, err);
    return code;
}
