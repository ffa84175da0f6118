// What is made of the table besides values: the settings in use, the example file, --help.
#include <stdio.h>
#include <string.h>

#include "base/config/config.h"
#include "base/config/config_name.h"
#include "base/config/config_value.h"

static void print_title(const struct config_table *table, size_t section, struct strbuf *out)
{
    strbuf_addf(out, "%s# ---- %s ----\n", section == 0 ? "" : "\n", table->sections[section]->title);
}

static void print_setting(const struct config_entry *entry, const void *values, struct strbuf *out)
{
    const char *secret = entry->secret ? config_value_text(entry, values) : "";
    if (*secret && strncmp(secret, "file:", 5) != 0) {
        strbuf_addf(out, "# %s is set and not shown\n", entry->name);
        return;
    }
    strbuf_addf(out, "%s = ", entry->name);
    config_value_print(entry, values, out);
    strbuf_add_byte(out, '\n');
}

void config_print(const struct config *config, struct strbuf *out)
{
    const struct config_table *table = config_table_of(config);
    for (size_t s = 0; s < table->section_count; s++) {
        print_title(table, s, out);
        for (size_t i = 0; i < table->sections[s]->count; i++)
            print_setting(&table->sections[s]->entries[i], config_values(config, table->sections[s]), out);
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
    char name[CONFIG_NAME_BYTES_MAX];
    config_name_env(table, entry, name);
    strbuf_addf(out, "%s", name);
    if (entry->type == CONFIG_CHOICE) strbuf_addf(out, "; one of %s", entry->choices);
    if (!config_value_is_text(entry->type) && (entry->min != 0 || entry->max != 0)) {
        char min[CONFIG_NUMBER_BYTES], max[CONFIG_NUMBER_BYTES];
        config_value_format_number(entry->type, entry->min, min, sizeof min);
        config_value_format_number(entry->type, entry->max, max, sizeof max);
        strbuf_addf(out, "; %s to %s", min, max);
    }
    if (entry->secret) strbuf_add_c(out, "; secret, file:/path reads it from a file");
    if (entry->reloadable) strbuf_add_c(out, "; read again on SIGHUP");
    if (!entry->def) strbuf_add_c(out, "; required");
}

static void print_example(const struct config_table *table, const struct config_entry *entry, struct strbuf *out)
{
    strbuf_add_byte(out, '\n');
    print_wrapped(out, "# ", str_c(entry->help));
    strbuf_add_c(out, "# (");
    print_notes(table, entry, out);
    // What has a default stays a comment, so that a later release may change it.
    strbuf_addf(out, ")\n%s%s =%s%s\n", entry->def ? "#" : "", entry->name, entry->def && *entry->def ? " " : "",
                entry->def ? entry->def : "");
}

void config_print_example(const struct config_table *table, struct strbuf *out)
{
    strbuf_addf(out, "# Settings of %s. Lines are name = value; environment and flags win over this file.\n\n",
                table->program);
    for (size_t s = 0; s < table->section_count; s++) {
        print_title(table, s, out);
        for (size_t i = 0; i < table->sections[s]->count; i++)
            print_example(table, &table->sections[s]->entries[i], out);
    }
}

static void print_help(const struct config_table *table, const struct config_entry *entry, struct strbuf *out)
{
    static const char *const kinds[] = {
        [CONFIG_STRING] = "text",       [CONFIG_PATH] = "file",     [CONFIG_ADDRESS] = "host:port",
        [CONFIG_BOOL] = "true|false",   [CONFIG_INT] = "number",    [CONFIG_BYTES] = "bytes",
        [CONFIG_DURATION] = "duration", [CONFIG_CHOICE] = "choice",
    };
    strbuf_addf(out, "  --%s=<%s>", entry->name, kinds[entry->type]);
    if (entry->def && *entry->def) strbuf_addf(out, "  (default %s)", entry->def);
    strbuf_add_byte(out, '\n');
    print_wrapped(out, "      ", str_c(entry->help));
    strbuf_add_c(out, "      ");
    print_notes(table, entry, out);
    strbuf_add_byte(out, '\n');
}

void config_print_help(const struct config_table *table, struct strbuf *out)
{
    for (size_t s = 0; s < table->section_count; s++) {
        const struct config_section *section = table->sections[s];
        strbuf_addf(out, "%s%s:\n", s == 0 ? "" : "\n", section->title);
        for (size_t i = 0; i < section->count; i++)
            print_help(table, &section->entries[i], out);
    }
}
