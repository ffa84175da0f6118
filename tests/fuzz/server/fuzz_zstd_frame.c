// Compressed bytes from an agent or a broker: whatever they state, what is unpacked is bounded by
// the limit and by their own length, and is as much as they state.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "server/intake/zstd_frame.h"
#include "tunnel/wire/report.h"

enum { BYTES_MAX = 4 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str frame = str_of((const char *)at, len);
    struct error err = {0};
    size_t bytes = 0;
    enum error_code code = zstd_frame_size(frame, BYTES_MAX, WIRE_REPORT_RATIO_MAX, &bytes, &err);
    assert(code == ERROR_NONE || ((code == ERROR_INVALID || code == ERROR_TOO_LARGE) && err.text[0] != '\0'));
    if (code != ERROR_NONE) return 0;
    assert(bytes <= BYTES_MAX && (bytes <= WIRE_REPORT_RATIO_FREE_BYTES || bytes <= len * WIRE_REPORT_RATIO_MAX));
    char *plain = mem_alloc(bytes ? bytes : 1); // exact, so that a sanitizer sees a write past its end
    code = zstd_frame_unpack(NULL, frame, plain, bytes, &err);
    assert(code == ERROR_NONE || (code == ERROR_INVALID && err.text[0] != '\0'));
    mem_free(plain);
    return 0;
}
