#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/reports/projection.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/mem.h"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static char *project(const char *text, uint8_t hash[ID_SHA256_BYTES])
{
    json_t *object = parse(text);
    size_t len;
    projection_apply(object);
    char *out = json_canonical(object, &len);
    id_sha256(out, len, hash);
    assert_int_equal(len, strlen(out));
    json_decref(object);
    return out;
}

static void drops_what_controllers_rewrite(void **state)
{
    (void)state;
    uint8_t hash[ID_SHA256_BYTES];
    AUTO_FREE char *text = project(
        "{\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\",\"managedFields\":[{\"x\":1}],"
        "\"selfLink\":\"/x\",\"annotations\":{\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}},"
        "\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"keep\":\"me\","
        "\"kubectl.kubernetes.io/last-applied-configuration\":\"CANARY\"}}}},"
        "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"lastHeartbeatTime\":\"t\",\"lastProbeTime\":null}]}}",
        hash);
    assert_string_equal(text, "{\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"template\":{"
                              "\"metadata\":{\"annotations\":{\"keep\":\"me\"}}}},"
                              "\"status\":{\"conditions\":[{\"type\":\"Ready\"}]}}");
}

static void hash_ignores_version_and_order(void **state)
{
    (void)state;
    uint8_t first[ID_SHA256_BYTES], second[ID_SHA256_BYTES], third[ID_SHA256_BYTES];
    AUTO_FREE char *a = project("{\"kind\":\"Application\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"},"
                                "\"status\":{\"reconciledAt\":\"t1\",\"sync\":{\"status\":\"Synced\"}}}",
                                first);
    AUTO_FREE char *b =
        project("{\"status\":{\"sync\":{\"status\":\"Synced\"},\"reconciledAt\":\"t2\",\"observedAt\":"
                "\"t\"},\"metadata\":{\"resourceVersion\":\"2\",\"name\":\"a\"},\"kind\":\"Application\"}",
                second);
    AUTO_FREE char *c = project("{\"kind\":\"Application\",\"metadata\":{\"name\":\"a\"},"
                                "\"status\":{\"sync\":{\"status\":\"OutOfSync\"}}}",
                                third);
    assert_string_equal(a, b);
    assert_memory_equal(first, second, sizeof first);
    assert_memory_not_equal(first, third, sizeof first);
}

static void survives_odd_shapes(void **state)
{
    (void)state;
    static const char *const shapes[] = {"{}",
                                         "{\"metadata\":[]}",
                                         "{\"metadata\":{\"annotations\":\"x\"}}",
                                         "{\"status\":[],\"kind\":7}",
                                         "{\"status\":{\"conditions\":{}},\"kind\":\"Application\"}",
                                         "{\"spec\":{\"template\":{\"metadata\":3}}}",
                                         "[]"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        uint8_t hash[ID_SHA256_BYTES];
        mem_free(project(shapes[i], hash));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_what_controllers_rewrite),
        cmocka_unit_test(hash_ignores_version_and_order),
        cmocka_unit_test(survives_odd_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
