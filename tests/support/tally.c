#include "tests/support/tally.h"

#include <time.h>

enum { WAIT_SECONDS = 60 };

void tally_note(struct tally *tally, unsigned *count)
{
    pthread_mutex_lock(&tally->mutex);
    ++*count;
    pthread_cond_signal(&tally->changed);
    pthread_mutex_unlock(&tally->mutex);
}

unsigned tally_wait(struct tally *tally, const unsigned *count, unsigned wanted)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&tally->mutex);
    while (*count < wanted && pthread_cond_timedwait(&tally->changed, &tally->mutex, &limit) == 0)
        continue;
    unsigned reached = *count;
    pthread_mutex_unlock(&tally->mutex);
    return reached;
}
