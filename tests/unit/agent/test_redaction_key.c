#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/reports/redaction_key.h"
#include "base/mem.h"

static void key_is_kept_and_guarded(void **state)
{
    (void)state;
    char folder[] = "/tmp/redaction-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct error err;
    uint8_t first[REDACTION_KEY_BYTES], second[REDACTION_KEY_BYTES];
    assert_int_equal(redaction_key_load(folder, first, &err), ERROR_NONE);
    AUTO_FREE char *path = mem_printf("%s/redaction.key", folder);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(redaction_key_load(folder, second, &err), ERROR_NONE);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(redaction_key_load(folder, second, &err), ERROR_INVALID);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(redaction_key_load(folder, second, &err), ERROR_INVALID);
    unlink(path);
    rmdir(folder);
    assert_int_equal(redaction_key_load(folder, second, &err), ERROR_IO);
    assert_int_equal(redaction_key_load("", second, &err), ERROR_NONE);
    assert_memory_not_equal(first, second, sizeof first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(key_is_kept_and_guarded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
