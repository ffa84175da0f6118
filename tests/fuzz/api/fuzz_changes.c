// Messages about changes from Redis: what is taken is written as a message that says the same.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/live/change.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct changes *changes, *again;
    char origin[CHANGE_ORIGIN_BYTES], other[CHANGE_ORIGIN_BYTES];
    struct error err = {0};
    if (changes_parse(STR("account"), str_of((const char *)at, len), origin, &changes, &err) != ERROR_NONE) {
        assert(err.text[0] != '\0');
        return 0;
    }
    struct strbuf first, second;
    strbuf_init(&first, CHANGES_MESSAGE_BYTES_MAX);
    strbuf_init(&second, CHANGES_MESSAGE_BYTES_MAX);
    size_t count, count_again;
    assert(str_eq(changes_account(changes), STR("account")));
    changes_items(changes, &count);
    assert(count > 0 && count <= CHANGES_MAX);
    // Escapes make it longer than what came; a member that we do not know makes it shorter.
    if (changes_write(changes, origin, &first)) {
        assert(changes_parse(STR("account"), strbuf_str(&first), other, &again, &err) == ERROR_NONE);
        changes_items(again, &count_again);
        assert(count == count_again && changes_write(again, other, &second));
        assert(str_eq(strbuf_str(&first), strbuf_str(&second)));
        changes_unref(again);
    }
    strbuf_finish(&first);
    strbuf_finish(&second);
    changes_unref(changes);
    return 0;
}
