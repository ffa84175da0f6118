// share: how much of a loop's queue of reports is whose. An account may hold a part of it, and a runtime a part of
// that, so that somebody who says fifty times as much as others finds the listener closed before
// they do. What is counted is bytes that wait or are being written; whoever holds nothing costs
// nothing here. One loop.
#ifndef CULVERT_SERVER_INTAKE_SHARE_H
#define CULVERT_SERVER_INTAKE_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/runtime_key.h"

struct share;

enum share_scope { SHARE_FREE, SHARE_ACCOUNT, SHARE_RUNTIME };

struct share_options {
    uint64_t account_bytes_max, runtime_bytes_max; // 0: no limit
};

struct share *share_create(const struct share_options *options);
void share_destroy(struct share *share);
void share_take(struct share *share, const struct runtime_key *key, size_t bytes);
void share_give_back(struct share *share, const struct runtime_key *key, size_t bytes);
// Which of the two limits is reached. One more is taken by whoever is below them, however large.
enum share_scope share_over(const struct share *share, const struct runtime_key *key);

#endif
