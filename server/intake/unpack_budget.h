// unpack_budget: how many bytes of compressed manifests an account may have unpacked a second. Unpacking, hashing and
// reading them is CPU time that the bytes on the wire do not bound. Over it the account's tunnels are paused, not
// refused. A token bucket an account, in a fixed table; one loop's.
#ifndef CULVERT_SERVER_INTAKE_UNPACK_BUDGET_H
#define CULVERT_SERVER_INTAKE_UNPACK_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"
#include "base/str.h"

struct unpack_budget;

enum { UNPACK_BUDGET_BURST_SECONDS = 4 };

// bytes_per_second 0: no bound. on_refill is called some milliseconds after unpack_budget_wait().
struct unpack_budget *unpack_budget_create(struct loop *loop, uint64_t bytes_per_second, void (*on_refill)(void *ctx),
                                           void *ctx);
void unpack_budget_destroy(struct unpack_budget *budget); // NULL is fine
// May leave a debt, of one record at most: its caller pauses then.
void unpack_budget_take(struct unpack_budget *budget, struct str account_id, uint64_t bytes, uint64_t now_ms);
bool unpack_budget_has_room(struct unpack_budget *budget, struct str account_id, uint64_t now_ms);
// Has on_refill called soon.
void unpack_budget_wait(struct unpack_budget *budget);

#endif
