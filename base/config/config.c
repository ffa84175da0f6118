#include "base/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config/config_name.h"
#include "base/config/config_value.h"
#include "base/mem.h"

extern char **environ;

enum { FILE_BYTES_MAX = 1024 * 1024, ENTRIES_MAX = 512 };

struct config {
    const struct config_table *table;
    void **values; // one a section
};

// What the sources said about one entry; the last one wins and only the winner is checked.
struct candidate {
    const struct config_entry *entry;
    size_t section; // its index in the table
    char *text;     // owned; NULL: nobody spoke
    char *source;
    bool in_file; // has been set there
};

struct load {
    const struct config_table *table;
    struct candidate *candidates; // one an entry
    size_t count;
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

static struct candidate *find_candidate(struct load *load, struct str name)
{
    for (size_t i = 0; i < load->count; i++)
        if (str_eq(name, str_c(load->candidates[i].entry->name))) return &load->candidates[i];
    return NULL;
}

static void complain_unknown(struct load *load, const char *source, struct str name)
{
    const struct config_entry *near = config_name_nearest(load->table, name);
    if (near)
        complain(load, source, "unknown setting \"%.*s\"; did you mean %s?", STR_ARG(str_first(name, 80)), near->name);
    else
        complain(load, source, "unknown setting \"%.*s\"", STR_ARG(str_first(name, 80)));
}

static void offer(struct candidate *candidate, struct str text, const char *source)
{
    if (candidate->text) mem_free_secret(candidate->text, strlen(candidate->text));
    mem_free(candidate->source);
    candidate->text = mem_strndup(text.len ? text.at : "", text.len);
    candidate->source = mem_strdup(source);
}

// ---- the file -----------------------------------------------------------------------------------

static void read_file_line(struct load *load, const char *source, struct str line)
{
    struct str name;
    line = str_trim(line);
    if (line.len == 0 || line.at[0] == '#') return;
    if (!str_is_utf8(line)) {
        complain(load, source, "must be UTF-8");
        return;
    }
    if (!str_cut(&line, '=', &name)) {
        complain(load, source, "is not of the form name = value");
        return;
    }
    name = str_trim(name);
    struct candidate *candidate = find_candidate(load, name);
    if (!candidate) {
        complain_unknown(load, source, name);
    } else if (candidate->in_file) {
        complain(load, source, "%s is set a second time", candidate->entry->name);
    } else {
        candidate->in_file = true;
        offer(candidate, str_trim(line), source);
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
    struct str rest = str_of(text, len);
    struct str line;
    bool more = true;
    for (unsigned number = 1; more; number++) {
        more = str_cut(&rest, '\n', &line);
        if (line.len > 0 && line.at[line.len - 1] == '\r') line.len--;
        char *source AUTO_FREE = mem_printf("%s:%u", path, number);
        read_file_line(load, source, line);
    }
    mem_free_secret(text, FILE_BYTES_MAX + 1);
}

// ---- the environment ----------------------------------------------------------------------------

static void read_environment(struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        char name[CONFIG_NAME_BYTES_MAX];
        config_name_env(load->table, load->candidates[i].entry, name);
        const char *value = getenv(name);
        if (value) offer(&load->candidates[i], str_c(value), name);
    }
    for (char **variable = environ; variable && *variable; variable++) {
        struct str value = str_c(*variable);
        struct str name;
        if (!str_cut(&value, '=', &name) || !config_name_is_misspelt(load->table, name, value)) continue;
        char *source AUTO_FREE = mem_strndup(name.at, name.len);
        complain(load, source, "no setting reads this variable; is it misspelt?");
    }
}

// ---- flags --------------------------------------------------------------------------------------

// Reads the flag at argv[i]; gives the number of words it took.
static int read_flag(struct load *load, int argc, char **argv, int i)
{
    struct str value = str_c(argv[i] + 2);
    struct str name;
    bool has_value = str_cut(&value, '=', &name);
    struct candidate *candidate = find_candidate(load, name);
    char *source AUTO_FREE = mem_printf("--%.*s", STR_ARG(str_first(name, CONFIG_NAME_BYTES_MAX)));
    int taken = 1;
    if (!candidate) {
        complain_unknown(load, source, name);
        return taken;
    }
    if (!has_value && candidate->entry->type == CONFIG_BOOL) {
        value = STR("true");
    } else if (!has_value) {
        if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0) {
            complain(load, source, "requires a value");
            return taken;
        }
        value = str_c(argv[i + 1]);
        taken = 2;
    }
    // Everybody on the machine reads the arguments of a process.
    if (candidate->entry->secret && value.len > 0 && !str_starts(value, STR("file:")))
        complain(load, source,
                 "secrets are not accepted on the command line; use the configuration file, the "
                 "environment or file:/path");
    else
        offer(candidate, value, source);
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

// ---- values -------------------------------------------------------------------------------------

static void set_values(struct load *load, struct config *config)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct candidate *candidate = &load->candidates[i];
        const struct config_entry *entry = candidate->entry;
        const char *text = candidate->text ? candidate->text : entry->def;
        struct error err;
        if (!text) {
            char name[CONFIG_NAME_BYTES_MAX];
            config_name_env(load->table, entry, name);
            complain(load, entry->name, "is required (--%s, %s or the configuration file)", entry->name, name);
        } else if (config_value_set(entry, str_c(text), config->values[candidate->section], &err) != ERROR_NONE) {
            const char *source = candidate->source ? candidate->source : "default";
            complain(load, source, "%s: %s", entry->name, entry->secret ? "has no valid value" : err.text);
        }
    }
}

// What each value is by itself is known to be right.
static void check_sections(struct load *load, const struct config *config)
{
    size_t before = load->problems->len;
    for (size_t i = 0; i < load->table->section_count; i++)
        if (load->table->sections[i]->check) load->table->sections[i]->check(config, load->problems);
    if (load->problems->len != before) load->failed = true;
}

static void init_candidates(struct load *load)
{
    const struct config_table *table = load->table;
    for (size_t s = 0; s < table->section_count; s++)
        load->count += table->sections[s]->count;
    if (load->count == 0 || load->count > ENTRIES_MAX) abort(); // the table is part of the program
    load->candidates = mem_array(load->count, sizeof *load->candidates);
    size_t next = 0;
    for (size_t s = 0; s < table->section_count; s++)
        for (size_t i = 0; i < table->sections[s]->count; i++)
            load->candidates[next++] = (struct candidate){.entry = &table->sections[s]->entries[i], .section = s};
}

static void release_candidates(struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        struct candidate *candidate = &load->candidates[i];
        if (candidate->text) mem_free_secret(candidate->text, strlen(candidate->text));
        mem_free(candidate->source);
    }
    mem_free(load->candidates);
}

static struct config *create(const struct config_table *table)
{
    struct config *config = mem_zalloc(sizeof *config);
    *config = (struct config){.table = table, .values = mem_array(table->section_count, sizeof *config->values)};
    for (size_t s = 0; s < table->section_count; s++)
        config->values[s] = mem_zalloc(table->sections[s]->size);
    return config;
}

enum error_code config_load(const struct config_table *table, const char *file, int argc, char **argv,
                            struct config **out, struct strbuf *problems, const char **out_words, int *out_word_count)
{
    struct load load = {.table = table, .problems = problems};
    struct config *config = create(table);
    init_candidates(&load);
    if (file) read_file(&load, file);
    read_environment(&load);
    read_flags(&load, argc, argv, out_words, out_word_count);
    set_values(&load, config);
    if (!load.failed) check_sections(&load, config);
    release_candidates(&load);
    if (load.failed) config_destroy(config);
    *out = load.failed ? NULL : config;
    return load.failed ? ERROR_INVALID : ERROR_NONE;
}

void config_destroy(struct config *config)
{
    if (!config) return;
    for (size_t s = 0; s < config->table->section_count; s++) {
        const struct config_section *section = config->table->sections[s];
        for (size_t i = 0; i < section->count; i++)
            config_value_release(&section->entries[i], config->values[s]);
        mem_free(config->values[s]);
    }
    mem_free(config->values);
    mem_free(config);
}

const void *config_values(const struct config *config, const struct config_section *section)
{
    for (size_t s = 0; s < config->table->section_count; s++)
        if (config->table->sections[s] == section) return config->values[s];
    abort(); // the table is part of the program
}

int64_t config_number(const struct config *config, const char *name)
{
    for (size_t s = 0; s < config->table->section_count; s++) {
        const struct config_section *section = config->table->sections[s];
        for (size_t i = 0; i < section->count; i++) {
            const struct config_entry *entry = &section->entries[i];
            if (strcmp(entry->name, name) != 0 || config_value_is_text(entry->type) || entry->type == CONFIG_BOOL)
                continue;
            int64_t number;
            memcpy(&number, (const char *)config->values[s] + entry->offset, sizeof number);
            return number;
        }
    }
    abort();
}

const struct config_table *config_table_of(const struct config *config)
{
    return config->table;
}

// ---- for sections -------------------------------------------------------------------------------

void config_check_pair(const char *what, const char *certificate, const char *key, struct strbuf *problems)
{
    if ((certificate[0] == '\0') != (key[0] == '\0'))
        strbuf_addf(problems, "%s.certificate_file and %s.key_file: must be set together\n", what, what);
}

enum error_code config_secret(const char *value, char **out, struct error *err)
{
    enum { SECRET_BYTES_MAX = 4096 };
    if (strncmp(value, "file:", 5) != 0) {
        *out = mem_strdup(value);
        return ERROR_NONE;
    }
    FILE *file = fopen(value + 5, "re");
    if (!file) return error_set(err, ERROR_INVALID, "%s: cannot be read: %m", value + 5);
    char text[SECRET_BYTES_MAX + 1];
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    while (len && len <= SECRET_BYTES_MAX && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    enum error_code code = ERROR_NONE;
    if (len && len <= SECRET_BYTES_MAX && memchr(text, '\0', len))
        code = error_set(err, ERROR_INVALID, "%s: contains a NUL byte", value + 5);
    else if (len == 0 || len > SECRET_BYTES_MAX)
        code = error_set(err, ERROR_INVALID, "%s: is empty or longer than %d bytes", value + 5, SECRET_BYTES_MAX);
    else
        *out = mem_strndup(text, len);
    explicit_bzero(text, sizeof text);
    return code;
}
