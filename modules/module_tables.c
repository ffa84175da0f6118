#include <string.h>

#include "base/mem.h"
#include "modules/modules.h"

// *list becomes longer by the `more` elements at `from`.
static void append(void *list_pointer, size_t *count, const void *from, size_t more, size_t element_bytes)
{
    void **list = list_pointer;
    if (!more) return;
    *list = mem_realloc(*list, (*count + more) * element_bytes);
    memcpy((char *)*list + *count * element_bytes, from, more * element_bytes);
    *count += more;
}

void module_tables_add_sweeps(struct module_tables *tables, const struct sweep *sweeps, size_t count)
{
    append(&tables->sweeps, &tables->sweep_count, sweeps, count, sizeof *sweeps);
}

void module_tables_init(struct module_tables *tables, const struct module *const *list)
{
    *tables = (struct module_tables){0};
    for (; *list; list++) {
        const struct module *module = *list;
        append(&tables->resolvers, &tables->resolver_count, module->resolvers, module->resolvers_count,
               sizeof *module->resolvers);
        append(&tables->resolvers, &tables->resolver_count, module->declared, module->declared_count,
               sizeof *module->declared);
        append(&tables->routes, &tables->route_count, module->routes, module->routes_count, sizeof *module->routes);
        append(&tables->report_kinds.kinds, &tables->report_kinds.count, module->report_kinds,
               module->report_kinds_count, sizeof *module->report_kinds);
        append(&tables->report_kinds.besides, &tables->report_kinds.beside_count, module->report_besides,
               module->report_besides_count, sizeof *module->report_besides);
        module_tables_add_sweeps(tables, module->sweeps, module->sweeps_count);
    }
}

void module_tables_finish(struct module_tables *tables)
{
    mem_free(tables->resolvers);
    mem_free(tables->routes);
    mem_free(tables->sweeps);
    mem_free((void *)tables->report_kinds.kinds);
    mem_free((void *)tables->report_kinds.besides);
    *tables = (struct module_tables){0};
}
