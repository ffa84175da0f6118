#include "cli/arguments.h"

#include <string.h>

static const struct option_spec *find_name(const struct option_spec *const *tables, const char *name, size_t len)
{
    for (; *tables; tables++) {
        for (const struct option_spec *spec = *tables; spec->name; spec++) {
            if (strlen(spec->name) == len && strncmp(spec->name, name, len) == 0) return spec;
        }
    }
    return NULL;
}

static const struct option_spec *find_letter(const struct option_spec *const *tables, char letter)
{
    for (; *tables; tables++) {
        for (const struct option_spec *spec = *tables; spec->name; spec++) {
            if (spec->letter == letter) return spec;
        }
    }
    return NULL;
}

static enum error_code add_option(struct arguments *out, const struct option_spec *spec, const char *value,
                                  struct error *err)
{
    if (out->option_count == ARGUMENT_OPTIONS_MAX)
        return error_set(err, ERROR_INVALID, "more than %d options", ARGUMENT_OPTIONS_MAX);
    out->options[out->option_count].name = spec->name;
    out->options[out->option_count++].value = value;
    return ERROR_NONE;
}

// Takes the value from the next argument where it was not joined; *at is moved then.
static enum error_code take_long(struct arguments *out, size_t argc, char *const *argv, size_t *at,
                                 const struct option_spec *const *tables, struct error *err)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_spec *spec = find_name(tables, name, len);
    if (!spec) return error_set(err, ERROR_INVALID, "unknown option --%.*s", (int)len, name);
    if (!spec->value) {
        if (equals) return error_set(err, ERROR_INVALID, "--%s takes no value", spec->name);
        return add_option(out, spec, NULL, err);
    }
    if (equals) return add_option(out, spec, equals + 1, err);
    if (*at + 1 >= argc) return error_set(err, ERROR_INVALID, "--%s needs a value: %s", spec->name, spec->value);
    return add_option(out, spec, argv[++*at], err);
}

static enum error_code take_short(struct arguments *out, size_t argc, char *const *argv, size_t *at,
                                  const struct option_spec *const *tables, struct error *err)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option_spec *spec = find_letter(tables, *letter);
        if (!spec) return error_set(err, ERROR_INVALID, "unknown option -%c", *letter);
        if (!spec->value) {
            if (add_option(out, spec, NULL, err) != ERROR_NONE) return ERROR_INVALID;
            continue;
        }
        if (letter[1]) return add_option(out, spec, letter + (letter[1] == '=' ? 2 : 1), err);
        if (*at + 1 >= argc) return error_set(err, ERROR_INVALID, "-%c needs a value: %s", *letter, spec->value);
        return add_option(out, spec, argv[++*at], err);
    }
    return ERROR_NONE;
}

enum error_code arguments_parse(struct arguments *out, size_t argc, char *const *argv,
                                const struct option_spec *const *tables, struct error *err)
{
    *out = (struct arguments){0};
    bool are_options_over = false;
    for (size_t i = 0; i < argc; i++) {
        const char *word = argv[i];
        enum error_code code = ERROR_NONE;
        if (!are_options_over && strcmp(word, "--") == 0) {
            are_options_over = true;
        } else if (!are_options_over && strncmp(word, "--", 2) == 0) {
            code = take_long(out, argc, argv, &i, tables, err);
        } else if (!are_options_over && word[0] == '-' && word[1]) {
            code = take_short(out, argc, argv, &i, tables, err);
        } else if (out->word_count == ARGUMENT_WORDS_MAX) {
            code = error_set(err, ERROR_INVALID, "more than %d arguments", ARGUMENT_WORDS_MAX);
        } else {
            out->words[out->word_count++] = word;
        }
        if (code != ERROR_NONE) return code;
    }
    return ERROR_NONE;
}

const char *arguments_get(const struct arguments *arguments, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < arguments->option_count; i++) {
        if (strcmp(arguments->options[i].name, name) == 0) value = arguments->options[i].value;
    }
    return value;
}

bool arguments_has(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->option_count; i++) {
        if (strcmp(arguments->options[i].name, name) == 0) return true;
    }
    return false;
}
