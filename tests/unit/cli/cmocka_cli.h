// What cmocka needs before it.
#ifndef CULVERT_TESTS_UNIT_CLI_CMOCKA_CLI_H
#define CULVERT_TESTS_UNIT_CLI_CMOCKA_CLI_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif
