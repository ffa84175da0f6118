#include "server/admin/command_status.h"

#include <stdio.h>

int command_usage(const char *text)
{
    fprintf(stderr, "culvertd: %s; see culvertd --help\n", text);
    return EXIT_USAGE;
}

int command_failed(const struct error *err)
{
    fprintf(stderr, "culvertd: %s\n", err->text);
    return err->code == ERROR_CONFLICT || err->code == ERROR_NOT_FOUND ? EXIT_STATE : EXIT_FAILED;
}
