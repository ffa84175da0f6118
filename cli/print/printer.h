// printer: rows to stdout in the format of -o. Owned by one command; one thread.
#ifndef CULVERT_CLI_PRINT_PRINTER_H
#define CULVERT_CLI_PRINT_PRINTER_H

#include <jansson.h>

#include "cli/noun.h"
#include "cli/print/table.h"

enum printer_format {
    PRINTER_TABLE,
    PRINTER_WIDE,
    PRINTER_NAME, // TYPE/[RUNTIME/][NAMESPACE/]NAME, which commands take back
    PRINTER_JSON,
    PRINTER_YAML,
    PRINTER_JSONPATH,
    PRINTER_CUSTOM_COLUMNS,
};

struct printer {
    const struct noun *noun;
    enum printer_format format;
    const char *expression; // of jsonpath and custom-columns
    bool has_headers;
    bool is_single; // one object, not a list
    bool has_begun;
    bool is_table_open; // its columns are known
    struct table table;
    json_t *items; // kept for jsonpath
};

// output: the value of -o; NULL: a table. ERROR_INVALID names those that there are.
MUST_CHECK enum error_code printer_init(struct printer *printer, const struct noun *noun, const char *output,
                                        bool has_headers, struct error *err);
void printer_finish(struct printer *printer);

// The selection of a row that this format needs.
void printer_select(const struct printer *printer, struct strbuf *out);
MUST_CHECK enum error_code printer_add(struct printer *printer, const json_t *rows, struct error *err);
MUST_CHECK enum error_code printer_end(struct printer *printer, struct error *err);

// One value as JSON or YAML to stdout.
void printer_write_json(const json_t *value, int indent);
void printer_write_yaml(const json_t *value, int indent, bool is_brief);

#endif
