#include "base/config/config_name.h"

#include <ctype.h>
#include <stdio.h>

void config_name_env(const struct config_table *table, const struct config_entry *entry,
                     char out[CONFIG_NAME_BYTES_MAX])
{
    snprintf(out, CONFIG_NAME_BYTES_MAX, "%s%s", table->env_prefix, entry->name);
    for (char *c = out + strlen(table->env_prefix); *c; c++)
        *c = *c == '.' || *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

// Levenshtein distance; names longer than the table's are far from everything.
static size_t edit_distance(struct str a, struct str b)
{
    size_t row[CONFIG_NAME_BYTES_MAX + 1];
    if (a.len > CONFIG_NAME_BYTES_MAX || b.len > CONFIG_NAME_BYTES_MAX) return SIZE_MAX;
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

const struct config_entry *config_name_nearest(const struct config_table *table, struct str name)
{
    const struct config_entry *best = NULL;
    size_t best_distance = 4;
    for (size_t s = 0; s < table->section_count; s++) {
        const struct config_section *section = table->sections[s];
        for (size_t i = 0; i < section->count; i++) {
            size_t distance = edit_distance(name, str_c(section->entries[i].name));
            if (distance >= best_distance) continue;
            best_distance = distance;
            best = &section->entries[i];
        }
    }
    return best;
}

// Kubernetes puts the addresses of services into every pod; a service named culvert-api gives
// CULVERT_API_PORT.
static bool is_service_link(struct str name, struct str value)
{
    return str_ends(name, STR("_SERVICE_HOST")) || str_starts(value, STR("tcp://")) ||
           memmem(name.at, name.len, "_SERVICE_PORT", 13) || memmem(name.at, name.len, "_TCP_", 5);
}

static bool resembles(const struct config_table *table, const struct config_entry *entry, struct str name)
{
    char known[CONFIG_NAME_BYTES_MAX];
    config_name_env(table, entry, known);
    const char *dot = strchr(entry->name, '.');
    size_t word = dot && entry->secret ? strlen(table->env_prefix) + (size_t)(dot - entry->name) + 1 : 0;
    if (word && str_starts(name, str_of(known, word))) return true;
    return edit_distance(name, str_c(known)) <= 2;
}

bool config_name_is_misspelt(const struct config_table *table, struct str name, struct str value)
{
    bool resembling = false;
    if (!str_starts(name, str_c(table->env_prefix)) || is_service_link(name, value)) return false;
    for (size_t s = 0; s < table->section_count; s++) {
        const struct config_section *section = table->sections[s];
        for (size_t i = 0; i < section->count; i++) {
            char known[CONFIG_NAME_BYTES_MAX];
            config_name_env(table, &section->entries[i], known);
            if (str_eq(name, str_c(known))) return false;
            if (resembles(table, &section->entries[i], name)) resembling = true;
        }
    }
    return resembling;
}
