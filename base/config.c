#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"

extern char **environ;

enum { FILE_BYTES_MAX = 1024 * 1024, VALUE_BYTES_MAX = 16 * 1024, NAME_BYTES_MAX = 128, ENTRIES_MAX = 512 };

// What one source said about one entry; the last source wins and only the winner is checked.
struct candidate {
    char *text; // owned; NULL: nobody spoke
    char *source;
};

struct load {
    const struct config_table *table;
    struct candidate *candidates; // one an entry
    struct strbuf *problems;
    bool failed;
};

static __attribute__((format(printf, 3, 4))) void complain(struct load *load, const char *source, const char *format,
                                                           ...)
{
    va_list args;
    load->failed = true;
    strbuf_addf(load->problems, "%s: ", source);
    va_start(args, format);
    strbuf_addv(load->problems, format, args);
    va_end(args);
    strbuf_add_byte(load->problems, '\n');
}

static void env_name(const struct config_table *table, const struct config_entry *entry, char out[NAME_BYTES_MAX])
{
    snprintf(out, NAME_BYTES_MAX, "%s%s", table->env_prefix, entry->name);
    for (char *c = out + strlen(table->env_prefix); *c; c++)
        *c = *c == '.' || *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static const struct config_entry *find_entry(const struct config_table *table, struct str name)
{
    for (size_t i = 0; i < table->count; i++)
        if (str_eq(name, str_c(table->entries[i].name))) return &table->entries[i];
    return NULL;
}

// ---- names that are nearly right -----------------------------------------------------------------------------

// Levenshtein distance; names longer than the table's are far from everything.
static size_t edit_distance(struct str a, struct str b)
{
    size_t row[NAME_BYTES_MAX + 1];
    if (a.len > NAME_BYTES_MAX || b.len > NAME_BYTES_MAX) return SIZE_MAX;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t change = diagonal + (a.at[i - 1] == b.at[j - 1] ? 0 : 1);
            size_t shift = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[b.len];
}

static const struct config_entry *nearest_entry(const struct config_table *table, struct str name)
{
    const struct config_entry *best = NULL;
    size_t best_distance = 4;
    for (size_t i = 0; i < table->count; i++) {
        size_t distance = edit_distance(name, str_c(table->entries[i].name));
        if (distance < best_distance) {
            best_distance = distance;
            best = &table->entries[i];
        }
    }
    return best;
}

static void complain_unknown(struct load *load, const char *source, struct str name)
{
    const struct config_entry *near = nearest_entry(load->table, name);
    if (near)
        complain(load, source, "there is no setting \"%.*s\"; did you mean %s?", STR_ARG(str_first(name, 80)),
                 near->name);
    else
        complain(load, source, "there is no setting \"%.*s\"", STR_ARG(str_first(name, 80)));
}

// ---- sources -------------------------------------------------------------------------------------------------

static void offer(struct load *load, const struct config_entry *entry, struct str text, const char *source)
{
    struct candidate *candidate = &load->candidates[entry - load->table->entries];
    if (candidate->text && entry->secret) explicit_bzero(candidate->text, strlen(candidate->text));
    mem_free(candidate->text);
    mem_free(candidate->source);
    candidate->text = mem_strndup(text.len ? text.at : "", text.len);
    candidate->source = mem_strdup(source);
}

static void read_file_line(struct load *load, const char *source, struct str line, bool *seen)
{
    struct str name;
    line = str_trim(line);
    if (line.len == 0 || line.at[0] == '#') return;
    if (!str_is_utf8(line)) {
        complain(load, source, "is not UTF-8");
        return;
    }
    if (!str_cut(&line, '=', &name)) {
        complain(load, source, "is not of the form name = value");
        return;
    }
    name = str_trim(name);
    const struct config_entry *entry = find_entry(load->table, name);
    if (!entry) {
        complain_unknown(load, source, name);
    } else if (seen[entry - load->table->entries]) {
        complain(load, source, "%s is set a second time", entry->name);
    } else {
        seen[entry - load->table->entries] = true;
        offer(load, entry, str_trim(line), source);
    }
}

static char *slurp(struct load *load, const char *path, size_t *out_len)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        complain(load, path, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    char *text = mem_alloc(FILE_BYTES_MAX + 1);
    size_t len = fread(text, 1, FILE_BYTES_MAX + 1, file);
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed) complain(load, path, "cannot be read: %s", strerror(failed));
    if (len > FILE_BYTES_MAX) complain(load, path, "is larger than %d bytes", FILE_BYTES_MAX);
    if (failed || len > FILE_BYTES_MAX) {
        mem_free_secret(text, FILE_BYTES_MAX + 1);
        return NULL;
    }
    *out_len = len;
    return text;
}

static void read_file(struct load *load, const char *path)
{
    size_t len = 0;
    char *text = slurp(load, path, &len);
    if (!text) return;
    bool *seen = mem_array(load->table->count + 1, sizeof *seen);
    struct str rest = str_of(text, len);
    struct str line;
    bool more = true;
    for (unsigned number = 1; more; number++) {
        more = str_cut(&rest, '\n', &line);
        if (line.len > 0 && line.at[line.len - 1] == '\r') line.len--;
        char *source AUTO_FREE = mem_printf("%s:%u", path, number);
        read_file_line(load, source, line, seen);
    }
    mem_free(seen);
    mem_free_secret(text, FILE_BYTES_MAX + 1);
}

// Kubernetes puts the addresses of services into every pod; a service named culvert-api gives CULVERT_API_PORT.
static bool is_service_link(struct str name, struct str value)
{
    return str_ends(name, STR("_SERVICE_HOST")) || str_starts(value, STR("tcp://")) ||
           memmem(name.at, name.len, "_SERVICE_PORT", 13) || memmem(name.at, name.len, "_TCP_", 5);
}

// A variable of ours that no setting reads is refused when it looks like one of ours misspelt: it is two letters away
// from one, or it stands beside a secret setting (CULVERT_DATABASE_...). Others (of tools, tests, the command line) are
// left alone.
static bool looks_misspelt(const struct config_table *table, struct str name)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct config_entry *entry = &table->entries[i];
        char known[NAME_BYTES_MAX];
        env_name(table, entry, known);
        const char *dot = strchr(entry->name, '.');
        size_t word = dot && entry->secret ? strlen(table->env_prefix) + (size_t)(dot - entry->name) + 1 : 0;
        if (word && str_starts(name, str_of(known, word))) return true;
        if (edit_distance(name, str_c(known)) <= 2) return true;
    }
    return false;
}

static void read_environment(struct load *load)
{
    for (size_t i = 0; i < load->table->count; i++) {
        char name[NAME_BYTES_MAX];
        env_name(load->table, &load->table->entries[i], name);
        const char *value = getenv(name);
        if (value) offer(load, &load->table->entries[i], str_c(value), name);
    }
    for (char **variable = environ; variable && *variable; variable++) {
        struct str value = str_c(*variable);
        struct str name;
        bool known = false;
        if (!str_cut(&value, '=', &name) || !str_starts(name, str_c(load->table->env_prefix))) continue;
        for (size_t i = 0; i < load->table->count && !known; i++) {
            char candidate[NAME_BYTES_MAX];
            env_name(load->table, &load->table->entries[i], candidate);
            known = str_eq(name, str_c(candidate));
        }
        if (known || is_service_link(name, value) || !looks_misspelt(load->table, name)) continue;
        char *source AUTO_FREE = mem_strndup(name.at, name.len);
        complain(load, source, "no setting reads this variable; is it misspelt?");
    }
}

// Reads the flag at argv[i]; gives the number of words it took.
static int read_flag(struct load *load, int argc, char **argv, int i)
{
    struct str value = str_c(argv[i] + 2);
    struct str name;
    bool has_value = str_cut(&value, '=', &name);
    const struct config_entry *entry = find_entry(load->table, name);
    char *source AUTO_FREE = mem_printf("--%.*s", STR_ARG(str_first(name, NAME_BYTES_MAX)));
    int taken = 1;
    if (!entry) {
        complain_unknown(load, source, name);
        return taken;
    }
    if (!has_value && entry->type == CONFIG_BOOL) {
        value = STR("true");
    } else if (!has_value) {
        if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0) {
            complain(load, source, "needs a value");
            return taken;
        }
        value = str_c(argv[i + 1]);
        taken = 2;
    }
    // Everybody on the machine reads the arguments of a process.
    if (entry->secret && value.len > 0 && !str_starts(value, STR("file:")))
        complain(load, source,
                 "a secret does not belong on the command line; use the configuration file, the "
                 "environment or file:/path");
    else
        offer(load, entry, value, source);
    return taken;
}

static void read_flags(struct load *load, int argc, char **argv, const char **out_words, int *out_word_count)
{
    bool only_words = false;
    int words = 0;
    for (int i = 1; i < argc;) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
            i++;
        } else if (!only_words && strncmp(argv[i], "--", 2) == 0) {
            i += read_flag(load, argc, argv, i);
        } else {
            if (!out_words)
                complain(load, argv[i], "is not a flag");
            else
                out_words[words++] = argv[i];
            i++;
        }
    }
    if (out_word_count) *out_word_count = words;
}

// ---- values --------------------------------------------------------------------------------------------------

static bool is_text_type(enum config_type type)
{
    return type == CONFIG_STRING || type == CONFIG_PATH || type == CONFIG_ADDRESS || type == CONFIG_CHOICE;
}

static void *field(void *values, const struct config_entry *entry)
{
    return (char *)values + entry->offset;
}

static const char *text_of(const void *values, const struct config_entry *entry)
{
    const char *text;
    memcpy(&text, (const char *)values + entry->offset, sizeof text);
    return text ? text : "";
}

static int64_t number_of(const void *values, const struct config_entry *entry)
{
    int64_t number;
    memcpy(&number, (const char *)values + entry->offset, sizeof number);
    return number;
}

// In the file's notation, with the largest unit that divides it.
static void format_number(enum config_type type, int64_t number, char *out, size_t cap)
{
    static const struct {
        enum config_type type;
        int64_t factor;
        const char *unit;
    } units[] = {
        {CONFIG_BYTES, 1024 * 1024 * 1024, "GiB"},
        {CONFIG_BYTES, 1024 * 1024, "MiB"},
        {CONFIG_BYTES, 1024, "KiB"},
        {CONFIG_DURATION, 86400000, "d"},
        {CONFIG_DURATION, 3600000, "h"},
        {CONFIG_DURATION, 60000, "m"},
        {CONFIG_DURATION, 1000, "s"},
        {CONFIG_DURATION, 1, "ms"},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bool fits = units[i].type == type && number % units[i].factor == 0;
        if (!fits || (number == 0 && type == CONFIG_BYTES)) continue;
        if (number == 0 && units[i].factor > 1) continue;
        snprintf(out, cap, "%lld%s", (long long)(number / units[i].factor), units[i].unit);
        return;
    }
    snprintf(out, cap, "%lld", (long long)number);
}

static bool is_choice(const char *choices, struct str value)
{
    struct str rest = str_c(choices);
    struct str choice;
    bool more = true;
    while (more) {
        more = str_cut(&rest, '|', &choice);
        if (value.len > 0 && str_eq(choice, value)) return true;
    }
    return false;
}

static enum error_code check_text(const struct config_entry *entry, struct str text, struct error *err)
{
    struct str host;
    uint16_t port;
    if (!str_is_utf8(text)) return error_set(err, ERROR_INVALID, "is not UTF-8");
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return error_set(err, ERROR_INVALID, "has a control character");
    if (!entry->def && text.len == 0) return error_set(err, ERROR_INVALID, "is required and must not be empty");
    if (entry->type == CONFIG_PATH && text.len > 0 && access(text.at, R_OK) != 0)
        return error_set(err, ERROR_INVALID, "%s cannot be read: %s", text.at, strerror(errno));
    if (entry->type == CONFIG_ADDRESS && text.len > 0) return parse_address(text, &host, &port, err);
    if (entry->type == CONFIG_CHOICE && !is_choice(entry->choices, text))
        return error_set(err, ERROR_INVALID, "\"%.*s\" is not one of %s", STR_ARG(str_first(text, 80)), entry->choices);
    return ERROR_NONE;
}

static enum error_code parse_number(const struct config_entry *entry, struct str text, int64_t *out, struct error *err)
{
    uint64_t number = 0;
    int64_t value = 0;
    enum error_code code;
    if (entry->type == CONFIG_INT) {
        code = parse_i64(text, INT64_MIN, INT64_MAX, &value, err);
    } else {
        code = entry->type == CONFIG_BYTES ? parse_bytes(text, &number, err) : parse_duration_ms(text, &number, err);
        value = (int64_t)number;
    }
    if (code != ERROR_NONE) return code;
    if ((entry->min != 0 || entry->max != 0) && (value < entry->min || value > entry->max)) {
        char min[32], max[32];
        format_number(entry->type, entry->min, min, sizeof min);
        format_number(entry->type, entry->max, max, sizeof max);
        return error_set(err, ERROR_INVALID, "%.*s is not between %s and %s", STR_ARG(str_first(text, 40)), min, max);
    }
    *out = value;
    return ERROR_NONE;
}

static enum error_code set_value(const struct config_entry *entry, struct str text, void *values, struct error *err)
{
    enum error_code code;
    if (text.len > VALUE_BYTES_MAX) return error_set(err, ERROR_TOO_LARGE, "is longer than %d bytes", VALUE_BYTES_MAX);
    if (is_text_type(entry->type)) {
        code = check_text(entry, text, err);
        if (code != ERROR_NONE) return code;
        char *copy = mem_strndup(text.at, text.len);
        memcpy(field(values, entry), &copy, sizeof copy);
        return ERROR_NONE;
    }
    if (entry->type == CONFIG_BOOL) {
        bool flag = false;
        code = parse_bool(text, &flag, err);
        if (code == ERROR_NONE) memcpy(field(values, entry), &flag, sizeof flag);
        return code;
    }
    int64_t number = 0;
    code = parse_number(entry, text, &number, err);
    if (code == ERROR_NONE) memcpy(field(values, entry), &number, sizeof number);
    return code;
}

static void set_values(struct load *load, void *values)
{
    for (size_t i = 0; i < load->table->count; i++) {
        const struct config_entry *entry = &load->table->entries[i];
        const struct candidate *candidate = &load->candidates[i];
        const char *text = candidate->text ? candidate->text : entry->def;
        struct error err;
        if (!text) {
            char name[NAME_BYTES_MAX];
            env_name(load->table, entry, name);
            complain(load, entry->name, "is required (--%s, %s or the configuration file)", entry->name, name);
        } else if (set_value(entry, str_c(text), values, &err) != ERROR_NONE) {
            const char *source = candidate->source ? candidate->source : "default";
            complain(load, source, "%s: %s", entry->name, entry->secret ? "has no valid value" : err.text);
        }
    }
}

static void release_candidates(struct load *load)
{
    for (size_t i = 0; i < load->table->count; i++) {
        struct candidate *candidate = &load->candidates[i];
        if (candidate->text) mem_free_secret(candidate->text, strlen(candidate->text));
        mem_free(candidate->source);
    }
    mem_free(load->candidates);
}

enum error_code config_load(const struct config_table *table, const char *file, int argc, char **argv, void *values,
                            struct strbuf *problems, const char **out_words, int *out_word_count)
{
    if (table->count == 0 || table->count > ENTRIES_MAX) abort(); // the table is part of the program
    struct load load = {.table = table, .problems = problems};
    load.candidates = mem_array(table->count, sizeof *load.candidates);
    if (file) read_file(&load, file);
    read_environment(&load);
    read_flags(&load, argc, argv, out_words, out_word_count);
    set_values(&load, values);
    release_candidates(&load);
    if (!load.failed) return ERROR_NONE;
    config_release(table, values);
    return ERROR_INVALID;
}

void config_release(const struct config_table *table, void *values)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct config_entry *entry = &table->entries[i];
        char *text;
        if (!is_text_type(entry->type)) continue;
        memcpy(&text, field(values, entry), sizeof text);
        if (text) mem_free_secret(text, strlen(text));
        text = NULL;
        memcpy(field(values, entry), &text, sizeof text);
    }
}

// ---- printing ------------------------------------------------------------------------------------------------

// Does a new section begin here? One that is named again and again is one.
static bool starts_section(const struct config_table *table, size_t i)
{
    const char *section = table->entries[i].section;
    while (section && i-- > 0)
        if (table->entries[i].section) return strcmp(table->entries[i].section, section) != 0;
    return section != NULL;
}

static void print_section(const struct config_table *table, size_t i, struct strbuf *out)
{
    if (starts_section(table, i)) strbuf_addf(out, "%s# ---- %s ----\n", i == 0 ? "" : "\n", table->entries[i].section);
}

void config_print(const struct config_table *table, const void *values, struct strbuf *out)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct config_entry *entry = &table->entries[i];
        print_section(table, i, out);
        if (entry->secret) {
            const char *text = text_of(values, entry);
            if (strncmp(text, "file:", 5) == 0 || !*text)
                strbuf_addf(out, "%s = %s\n", entry->name, text);
            else
                strbuf_addf(out, "# %s is set and not shown\n", entry->name);
        } else if (is_text_type(entry->type)) {
            strbuf_addf(out, "%s = %s\n", entry->name, text_of(values, entry));
        } else if (entry->type == CONFIG_BOOL) {
            bool flag;
            memcpy(&flag, (const char *)values + entry->offset, sizeof flag);
            strbuf_addf(out, "%s = %s\n", entry->name, flag ? "true" : "false");
        } else {
            char number[32];
            format_number(entry->type, number_of(values, entry), number, sizeof number);
            strbuf_addf(out, "%s = %s\n", entry->name, number);
        }
    }
}

// Breaks text at spaces; every line starts with lead.
static void print_wrapped(struct strbuf *out, const char *lead, struct str text)
{
    enum { COLUMNS = 100 };
    size_t room = COLUMNS - strlen(lead);
    while (text.len > 0) {
        size_t take = text.len;
        if (take > room) {
            for (take = room; take > 0 && text.at[take] != ' '; take--) {}
            if (take == 0) take = room;
        }
        strbuf_addf(out, "%s%.*s\n", lead, (int)take, text.at);
        text = str_trim(str_from(text, take));
    }
}

static void print_notes(const struct config_table *table, const struct config_entry *entry, struct strbuf *out)
{
    char name[NAME_BYTES_MAX];
    env_name(table, entry, name);
    strbuf_addf(out, "%s", name);
    if (entry->type == CONFIG_CHOICE) strbuf_addf(out, "; one of %s", entry->choices);
    if (!is_text_type(entry->type) && (entry->min != 0 || entry->max != 0)) {
        char min[32], max[32];
        format_number(entry->type, entry->min, min, sizeof min);
        format_number(entry->type, entry->max, max, sizeof max);
        strbuf_addf(out, "; %s to %s", min, max);
    }
    if (entry->secret) strbuf_add_c(out, "; secret, file:/path reads it from a file");
    if (entry->reloadable) strbuf_add_c(out, "; read again on SIGHUP");
    if (!entry->def) strbuf_add_c(out, "; required");
}

void config_print_example(const struct config_table *table, struct strbuf *out)
{
    strbuf_addf(out, "# Settings of %s. Lines are name = value; environment and flags win over this file.\n\n",
                table->program);
    for (size_t i = 0; i < table->count; i++) {
        const struct config_entry *entry = &table->entries[i];
        print_section(table, i, out);
        strbuf_add_byte(out, '\n');
        print_wrapped(out, "# ", str_c(entry->help));
        strbuf_add_c(out, "# (");
        print_notes(table, entry, out);
        // What has a default stays a comment, so that a later release may change it.
        strbuf_addf(out, ")\n%s%s =%s%s\n", entry->def ? "#" : "", entry->name, entry->def && *entry->def ? " " : "",
                    entry->def ? entry->def : "");
    }
}

void config_print_help(const struct config_table *table, struct strbuf *out)
{
    static const char *const kinds[] = {
        [CONFIG_STRING] = "text",       [CONFIG_PATH] = "file",     [CONFIG_ADDRESS] = "host:port",
        [CONFIG_BOOL] = "true|false",   [CONFIG_INT] = "number",    [CONFIG_BYTES] = "bytes",
        [CONFIG_DURATION] = "duration", [CONFIG_CHOICE] = "choice",
    };
    for (size_t i = 0; i < table->count; i++) {
        const struct config_entry *entry = &table->entries[i];
        if (starts_section(table, i)) strbuf_addf(out, "%s%s:\n", i == 0 ? "" : "\n", entry->section);
        strbuf_addf(out, "  --%s=<%s>", entry->name, kinds[entry->type]);
        if (entry->def && *entry->def) strbuf_addf(out, "  (default %s)", entry->def);
        strbuf_add_byte(out, '\n');
        print_wrapped(out, "      ", str_c(entry->help));
        strbuf_add_c(out, "      ");
        print_notes(table, entry, out);
        strbuf_add_byte(out, '\n');
    }
}
