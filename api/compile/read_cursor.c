#include "api/compile/read_cursor.h"

#include <string.h>

#include "base/parse.h"
#include "storage/sql/store_call.h"

void read_cursor_write(struct strbuf *out, const char *order_name, const struct pg_rows *rows, int row, int first_key,
                       size_t key_count)
{
    char keys[STORE_CURSOR_BYTES_MAX], text[STORE_CURSOR_BYTES_MAX / 3 * 4 + 8];
    size_t len = strlen(order_name) + 1;
    memcpy(keys, order_name, len);
    for (size_t i = 0; i < key_count; i++) {
        struct str key = pg_rows_get(rows, row, first_key + (int)i);
        if (key.len + 1 > sizeof keys - len) key = STR_EMPTY; // names are bounded far below
        if (key.len) memcpy(keys + len, key.at, key.len);
        len += key.len;
        keys[len++] = '\0';
    }
    strbuf_add(out, text, format_base64url((const uint8_t *)keys, len, text));
}
