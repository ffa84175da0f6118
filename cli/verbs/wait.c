// wait: until objects are in a state, for scripts.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/jsonpath.h"
#include "cli/row.h"
#include "cli/target.h"

enum { WAIT_TIMEOUT_MS = 5 * 60 * 1000, CONDITIONS_MAX = 8 };

// clang-format off
const struct option_spec wait_options[] = {
    {"for", 0, "CONDITION", "COLUMN=VALUE or .PATH=VALUE, several joined by commas; or delete"},
    {"timeout", 0, "DURATION", "how long to wait; 5m by default"},
    {NULL, 0, NULL, NULL},
};
// clang-format on

struct condition {
    struct str path, value; // path of jsonpath; empty: that it is not there
};

static struct str path_of(const struct noun *noun, struct str name)
{
    for (const struct noun_column *column = noun->columns; column->title; column++) {
        if (str_eq_nocase(name, str_c(column->title))) return str_c(column->path);
    }
    return (struct str){0};
}

static enum error_code parse(const struct noun *noun, const char *text, struct condition *out, size_t *out_count,
                             struct error *err)
{
    struct str rest = str_c(text), item;
    bool has_more = true;
    *out_count = 0;
    while (has_more) {
        has_more = str_cut(&rest, ',', &item);
        if (*out_count == CONDITIONS_MAX)
            return error_set(err, ERROR_INVALID, "--for: more than %d conditions", CONDITIONS_MAX);
        struct condition *condition = &out[(*out_count)++];
        *condition = (struct condition){.value = item};
        if (str_eq(item, STR("delete"))) continue;
        struct str name;
        if (!str_cut(&condition->value, '=', &name))
            return error_set(err, ERROR_INVALID, "--for: \"%.*s\" must be COLUMN=VALUE, .PATH=VALUE or delete",
                             STR_ARG(item));
        condition->path = name.len && name.at[0] == '.' ? name : path_of(noun, name);
        if (!condition->path.len)
            return error_set(err, ERROR_INVALID, "--for: %s has no column \"%.*s\"", noun->name, STR_ARG(name));
    }
    return ERROR_NONE;
}

// What the object has there, as text.
static enum error_code look(const struct condition *condition, const json_t *row, struct strbuf *out, struct error *err)
{
    json_t *values = NULL;
    enum error_code code = jsonpath_find(condition->path, row, &values, err);
    if (code != ERROR_NONE) return code;
    row_write(json_array_get(values, 0), out);
    json_decref(values);
    return ERROR_NONE;
}

// *out: all conditions hold. state: what they are now, for the message at the end.
static enum error_code check(const struct condition *conditions, size_t count, const json_t *row, bool *out,
                             struct strbuf *state, struct error *err)
{
    *out = true;
    strbuf_clear(state);
    for (size_t i = 0; i < count; i++) {
        if (!conditions[i].path.len) {
            *out &= row == NULL;
            if (row) strbuf_add_c(state, "it is there");
            continue;
        }
        struct strbuf value;
        strbuf_init(&value, 64 * 1024);
        enum error_code code = row ? look(&conditions[i], row, &value, err) : ERROR_NONE;
        *out &= row && str_eq_nocase(strbuf_str(&value), conditions[i].value);
        strbuf_addf(state, "%s%.*s is %s", state->len ? ", " : "", STR_ARG(conditions[i].path),
                    !row        ? "missing"
                    : value.len ? value.at
                                : "empty");
        strbuf_finish(&value);
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

static enum error_code wait_for(const struct invocation *invocation, const struct reference *reference,
                                const struct condition *conditions, size_t count, uint64_t until_ms, struct error *err)
{
    char *selection = mem_printf(" %s", reference->noun->fields);
    struct strbuf state;
    strbuf_init(&state, 4096);
    bool is_met = false;
    enum error_code code = ERROR_NONE;
    while (code == ERROR_NONE && !is_met) {
        json_t *row = NULL;
        code = reference_read(reference, invocation->client, selection, &row, err);
        if (code == ERROR_NOT_FOUND) code = ERROR_NONE;
        bool is_away = code == ERROR_UNAVAILABLE; // it may come back before the time is over
        if (code == ERROR_NONE) code = check(conditions, count, row, &is_met, &state, err);
        json_decref(row);
        if (is_met || (code != ERROR_NONE && !is_away)) break;
        if (clock_mono_ms() >= until_ms) {
            if (!is_away)
                code = error_set(err, ERROR_TIMEOUT, "%s \"%.*s\": the time is over: %s", reference->noun->name,
                                 STR_ARG(reference->name), state.at);
            break;
        }
        code = ERROR_NONE;
        target_sleep(POLL_MS);
    }
    strbuf_finish(&state);
    mem_free(selection);
    return code;
}

int verb_wait(struct invocation *invocation)
{
    static struct reference references[TARGETS_MAX];
    struct condition conditions[CONDITIONS_MAX];
    size_t count, condition_count;
    uint64_t timeout_ms;
    struct error err;
    const char *text = arguments_get(invocation->arguments, "for");
    enum error_code code =
        text ? ERROR_NONE : error_set(&err, ERROR_INVALID, "wait needs --for CONDITION, as --for health=HEALTHY");
    if (code == ERROR_NONE) code = target_words(invocation, "application", references, &count, &err);
    if (code == ERROR_NONE) code = command_duration(invocation, "timeout", WAIT_TIMEOUT_MS, &timeout_ms, &err);
    if (code != ERROR_NONE) return command_fail(&err);
    uint64_t until_ms = clock_mono_ms() + timeout_ms;
    for (size_t i = 0; code == ERROR_NONE && i < count; i++) {
        code = parse(references[i].noun, text, conditions, &condition_count, &err);
        if (code == ERROR_NONE)
            code = wait_for(invocation, &references[i], conditions, condition_count, until_ms, &err);
        if (code == ERROR_NONE)
            printf("%s/%.*s condition met\n", references[i].noun->name, STR_ARG(references[i].name));
    }
    return code == ERROR_NONE ? EXIT_DONE : command_fail(&err);
}
