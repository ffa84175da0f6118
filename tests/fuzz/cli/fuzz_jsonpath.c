// Templates of -o jsonpath: any text is refused or gives text, within bounds.
#include <stdint.h>

#include "cli/print/jsonpath.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    static json_t *value;
    if (!value)
        value = json_loads("{\"items\":[{\"a\":{\"b\":[1,2.5,\"x\",null,true]}},{\"a\":{}},[]],\"k\":\"v\",\"n\":-3}",
                           0, NULL);
    if (len > 512) return 0; // conditions inside of conditions multiply
    struct strbuf out;
    strbuf_init(&out, 1024 * 1024);
    if (jsonpath_write(str_of((const char *)at, len), value, &out, NULL) != ERROR_NONE) strbuf_clear(&out);
    strbuf_finish(&out);
    return 0;
}
