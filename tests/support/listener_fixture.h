// listener_fixture: for tests of listeners: a loop on a thread of its own, clients that dial it,
// and a count of who came. The test's own fixture has it as its first member.
#ifndef CULVERT_TESTS_SUPPORT_LISTENER_FIXTURE_H
#define CULVERT_TESTS_SUPPORT_LISTENER_FIXTURE_H

#include <semaphore.h>

#include "base/error.h"
#include "base/loop/loop.h"

struct listener_fixture {
    struct loop *loop;
    char address[64];
    sem_t done, accepted;
};

void listener_fixture_start(struct listener_fixture *f, const char *address);
void listener_fixture_stop(struct listener_fixture *f);
// Runs fn on the loop and waits for it.
void listener_fixture_run(struct listener_fixture *f, loop_fn fn, void *arg);
// On the loop: somebody came.
void listener_fixture_count(struct listener_fixture *f);
// Waits until somebody came; each is told once. False: nobody did.
bool listener_fixture_comes(struct listener_fixture *f, int seconds);
int listener_fixture_dial(uint16_t port); // loopback

#endif
