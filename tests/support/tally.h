// tally: counts that several threads make and one waits for. The mutex guards the counts, and
// whatever else its owner puts under it.
#ifndef CULVERT_TESTS_TALLY_H
#define CULVERT_TESTS_TALLY_H

#include <pthread.h>

struct tally {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

#define TALLY_INITIALIZER                                                                                              \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                                        \
    }

void tally_note(struct tally *tally, unsigned *count); // one more
// What it has come to when it is `wanted`, or after a minute.
unsigned tally_wait(struct tally *tally, const unsigned *count, unsigned wanted);

#endif
