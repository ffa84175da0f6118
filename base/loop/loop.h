// loop: one thread, one uv loop, one mailbox. An object belongs to the loop it was made on and is touched there
// only; loop_post() is the one call that crosses threads.
#ifndef CULVERT_BASE_LOOP_LOOP_H
#define CULVERT_BASE_LOOP_LOOP_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

struct loop;

typedef void (*loop_fn)(void *arg);

// name: for logs and the thread ("loop-0"); index: 0..N-1 among its siblings.
struct loop *loop_create(const char *name, unsigned index);
// After the thread has ended (or if it never ran). Every handle must be closed: leftovers are logged and abort.
void loop_destroy(struct loop *loop);

uv_loop_t *loop_uv(struct loop *loop);
unsigned loop_index(const struct loop *loop);
bool loop_is_current(const struct loop *loop);
struct loop *loop_of_thread(void); // the loop that runs on this thread, or NULL

MUST_CHECK enum error_code loop_start(struct loop *loop, struct error *err); // runs it on a thread of its own
void loop_run(struct loop *loop);                                            // runs it on this thread, until loop_stop
void loop_join(struct loop *loop);                                           // waits for the thread of loop_start

// Thread-safe. fn(arg) runs on the loop's thread, in the order posted by one sender; never inside this call.
// arg's ownership goes along. Posts after loop_stop was handled are run by loop_destroy, so that nothing leaks.
void loop_post(struct loop *loop, loop_fn fn, void *arg);

// Thread-safe. How much of a processor the loop's thread has used of late, in percent: between the last question and
// this one, if that is a tenth of a second to ten seconds; what was found then, if it is less. 100: not known yet.
unsigned loop_busy_percent(struct loop *loop);
// Thread-safe. May the loop get something more to do, because it is less busy than that? Each yes counts as five
// percent until it is measured again, so that not everybody who asks at once is told so.
bool loop_admit(struct loop *loop, unsigned percent);

// Thread-safe. The loop ends its turn and returns from loop_run.
void loop_stop(struct loop *loop);

#endif
