#include "base/loop/loop.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"

struct message {
    struct message *next;
    loop_fn fn;
    void *arg;
};

enum { BUSY_LEAST_US = 100 * 1000, BUSY_MOST_US = 10 * 1000 * 1000, ADMITTED_PERCENT = 5 };

// What loop_busy_percent() knows; zero: nothing.
struct busy {
    bool has_clock;
    clockid_t clock; // processor time of the thread
    uint64_t asked_us, used_us;
    unsigned percent;
};

struct loop {
    uv_loop_t uv;
    // No uv_async_t: before libuv 1.45 who is woken spins until who wakes it is out of the system call that did; on a
    // busy machine that one has often lost its processor there, to nobody else than who spins.
    int wake_fd;
    uv_poll_t wake;
    pthread_mutex_t mutex; // guards the mailbox (first, last, stopping), and busy
    struct message *first, *last;
    bool stopping;
    struct busy busy;
    pthread_t thread;
    bool has_thread;
    unsigned index;
    char name[16];
};

static __thread struct loop *current;

// Runs what is there now; what is posted meanwhile comes in the next turn, so that the loop's other work gets its
// share.
static void deliver(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    struct message *message = loop->first;
    loop->first = loop->last = NULL;
    bool stopping = loop->stopping;
    pthread_mutex_unlock(&loop->mutex);
    while (message) {
        struct message *next = message->next;
        message->fn(message->arg);
        mem_free(message);
        message = next;
    }
    if (stopping) uv_stop(&loop->uv);
}

// Emptied before the mailbox is: what is posted from then on wakes anew.
static void on_wake(uv_poll_t *wake, int status, int events)
{
    struct loop *loop = wake->data;
    uint64_t count;
    (void)status;
    (void)events;
    if (read(loop->wake_fd, &count, sizeof count) < 0) return; // somebody was there before
    deliver(loop);
}

static void wake_up(struct loop *loop)
{
    const uint64_t one = 1;
    if (write(loop->wake_fd, &one, sizeof one) < 0) return; // only when it is full of others: it wakes
}

struct loop *loop_create(const char *name, unsigned index)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    loop->index = index;
    snprintf(loop->name, sizeof loop->name, "%s", name);
    pthread_mutex_init(&loop->mutex, NULL);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0 || uv_loop_init(&loop->uv) != 0 || uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd) != 0 ||
        uv_poll_start(&loop->wake, UV_READABLE, on_wake) != 0) {
        fprintf(stderr, "no event loop from the system (descriptors?)\n");
        abort();
    }
    loop->wake.data = loop;
    loop->uv.data = loop;
    return loop;
}

static void report_open_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    fprintf(stderr, "loop: a %s handle was left open\n", uv_handle_type_name(handle->type));
}

void loop_destroy(struct loop *loop)
{
    if (!loop) return;
    struct loop *outer = current;
    current = loop;
    for (;;) {
        pthread_mutex_lock(&loop->mutex);
        bool empty = loop->first == NULL;
        pthread_mutex_unlock(&loop->mutex);
        if (empty) break;
        deliver(loop);
    }
    uv_close((uv_handle_t *)&loop->wake, NULL);
    loop->stopping = false;
    // Closing handles need turns to finish; open ones would never let this end, so it does not block.
    for (int turns = 0; turns < 64 && uv_run(&loop->uv, UV_RUN_NOWAIT) != 0; turns++)
        continue;
    if (uv_loop_close(&loop->uv) != 0) {
        uv_walk(&loop->uv, report_open_handle, NULL);
        abort();
    }
    close(loop->wake_fd);
    current = outer;
    pthread_mutex_destroy(&loop->mutex);
    mem_free(loop);
}

uv_loop_t *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

unsigned loop_index(const struct loop *loop)
{
    return loop->index;
}

bool loop_is_current(const struct loop *loop)
{
    return current == loop;
}

struct loop *loop_of_thread(void)
{
    return current;
}

static void *thread_main(void *arg)
{
    struct loop *loop = arg;
    pthread_setname_np(pthread_self(), loop->name);
    loop_run(loop);
    return NULL;
}

enum error_code loop_start(struct loop *loop, struct error *err)
{
    if (pthread_create(&loop->thread, NULL, thread_main, loop) != 0)
        return error_set(err, ERROR_IO, "cannot create a thread for %s", loop->name);
    loop->has_thread = true;
    return ERROR_NONE;
}

void loop_run(struct loop *loop)
{
    current = loop;
    pthread_mutex_lock(&loop->mutex);
    loop->busy = (struct busy){.percent = 100};
    loop->busy.has_clock = pthread_getcpuclockid(pthread_self(), &loop->busy.clock) == 0;
    pthread_mutex_unlock(&loop->mutex);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    pthread_mutex_lock(&loop->mutex);
    loop->busy = (struct busy){.percent = 100};
    pthread_mutex_unlock(&loop->mutex);
    current = NULL;
}

static unsigned measure(struct busy *busy, uint64_t now_us)
{
    struct timespec used;
    if (!busy->has_clock || clock_gettime(busy->clock, &used) != 0) return 100;
    uint64_t used_us = (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
    uint64_t passed_us = now_us - busy->asked_us;
    busy->percent = passed_us > BUSY_MOST_US ? 100 : (unsigned)((used_us - busy->used_us) * 100 / passed_us);
    busy->asked_us = now_us;
    busy->used_us = used_us;
    return busy->percent;
}

static unsigned ask(struct busy *busy)
{
    uint64_t now_us = clock_mono_us();
    return now_us - busy->asked_us < BUSY_LEAST_US ? busy->percent : measure(busy, now_us);
}

unsigned loop_busy_percent(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    unsigned percent = ask(&loop->busy);
    pthread_mutex_unlock(&loop->mutex);
    return percent;
}

bool loop_admit(struct loop *loop, unsigned percent)
{
    pthread_mutex_lock(&loop->mutex);
    bool admitted = ask(&loop->busy) < percent;
    if (admitted) loop->busy.percent += ADMITTED_PERCENT;
    pthread_mutex_unlock(&loop->mutex);
    return admitted;
}

void loop_join(struct loop *loop)
{
    if (!loop->has_thread) return;
    pthread_join(loop->thread, NULL);
    loop->has_thread = false;
}

void loop_post(struct loop *loop, loop_fn fn, void *arg)
{
    struct message *message = mem_alloc(sizeof *message);
    *message = (struct message){.fn = fn, .arg = arg};
    pthread_mutex_lock(&loop->mutex);
    bool first = loop->first == NULL;
    if (first)
        loop->first = message;
    else
        loop->last->next = message;
    loop->last = message;
    pthread_mutex_unlock(&loop->mutex);
    if (first) wake_up(loop);
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->mutex);
    wake_up(loop);
}
