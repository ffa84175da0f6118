// What a CONNECT proxy answers: the verdict on the whole is the first verdict on a beginning of it.
#include <stdint.h>
#include <stdlib.h>

#include "agent/tunnel/connect_proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct error err = {0};
    const char *text = (const char *)at;
    enum error_code whole = connect_proxy_answer(text, len, &err);
    if (whole != ERROR_NONE && whole != ERROR_AGAIN && !err.text[0]) abort();
    if (whole == ERROR_AGAIN && len > CONNECT_PROXY_HEAD_BYTES_MAX) abort();
    if (len > 2048) return 0;
    // TLS may begin only where the head ends: no beginning of a good answer is good, and a good
    // beginning makes bytes behind it an error.
    for (size_t i = 0; i < len; i++) {
        enum error_code code = connect_proxy_answer(text, i, &err);
        if (code == ERROR_NONE && (whole == ERROR_NONE || whole == ERROR_AGAIN)) abort();
        if (whole == ERROR_NONE && code != ERROR_AGAIN) abort();
    }
    return 0;
}
