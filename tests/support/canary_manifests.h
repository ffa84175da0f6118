// canary_manifests: Kubernetes objects whose every secret leaf is a canary, made from a seed:
// templates of 12 kinds and 8 kinds of other makers in which only what may leave has ordinary
// values, filled up with members that nobody opened, in every form that a value can have.
#ifndef CULVERT_TESTS_CANARY_MANIFESTS_H
#define CULVERT_TESTS_CANARY_MANIFESTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { CANARY_KINDS = 20 };

// What canaries begin with: texts, and numbers.
#define CANARY_TEXT   "CNRY"
#define CANARY_NUMBER "731337"

// The i-th object of this seed; kinds come in turn. The caller owns it.
json_t *canary_manifest(uint64_t seed, unsigned i);
// The same without canaries: what must be left as it is.
json_t *canary_template(unsigned kind);

#endif
