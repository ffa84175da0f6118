// redaction: what it costs to redact one object, in microseconds of CPU: a manifest from a file, as often as fits into
// a second, beside decoding and writing it. tests/bench/redaction builds and runs it.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "tunnel/wire/redaction.h"

static double cpu_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    static const uint8_t key[REDACTION_KEY_BYTES] = {1};
    struct redaction *redaction = NULL;
    json_t *object = argc == 2 ? json_load_file(argv[1], 0, NULL) : NULL;
    double began = cpu_us();
    if (!object || redaction_create(key, NULL, &redaction, NULL) != ERROR_NONE) return 2;
    printf("rules: %.0f us once\n", cpu_us() - began);
    size_t len, rounds = 0;
    char *text = json_canonical(object, &len);
    struct redaction_object identity = {.ref.kind = json_get_str(object, "kind"), .ref.name = STR("n")};
    object_ref_set_api_version(&identity.ref, json_get_str(object, "apiVersion"));
    struct strbuf out;
    strbuf_init(&out, 2 * len + REDACTION_GROWTH_BYTES_MAX + 65536);
    for (began = cpu_us(); cpu_us() - began < 1e6; rounds++) {
        strbuf_clear(&out);
        if (redaction_apply(redaction, &identity, str_of(text, len), &out, NULL) != ERROR_NONE) return 1;
    }
    double redact = (cpu_us() - began) / (double)rounds;
    size_t digests = 0;
    for (const char *at = out.at; (at = strstr(at, "hmac-sha256:")); at++)
        digests++;
    rounds = 0;
    for (began = cpu_us(); cpu_us() - began < 1e6; rounds++) {
        json_t *tree = NULL;
        size_t same;
        if (json_decode(str_of(text, len), NULL, &tree, NULL) != ERROR_NONE) return 1;
        mem_free(json_canonical(tree, &same));
        json_decref(tree);
    }
    printf("%zu bytes, %zu digests: %.1f us to redact; %.1f us to decode and write it\n", len, digests, redact,
           (cpu_us() - began) / (double)rounds);
    strbuf_finish(&out);
    mem_free(text);
    json_decref(object);
    redaction_destroy(redaction);
    return 0;
}
