// culvert-canary-manifests SEED COUNT: prints as many objects with canaries (canary_manifests.h),
// one a line.
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/canary_manifests.h"

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: culvert-canary-manifests SEED COUNT\n"), 2;
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < count; i++) {
        json_t *object = canary_manifest(strtoull(argv[1], NULL, 10), i);
        json_dumpf(object, stdout, JSON_COMPACT);
        json_decref(object);
        putchar('\n');
    }
    return ferror(stdout) != 0;
}
