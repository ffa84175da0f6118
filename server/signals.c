#include "server/signals.h"

#include <signal.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/mem.h"

enum { SIGNALS = 3 };
static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct signals {
    uv_signal_t handles[SIGNALS];
    loop_fn on_terminate, on_reload;
    void *arg;
    unsigned open;
    bool terminating;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;
    if (number == SIGHUP) {
        signals->on_reload(signals->arg);
        return;
    }
    if (signals->terminating) {
        log_warn("signals", "second_signal_received", log_int("signal", number));
        _exit(1);
    }
    signals->terminating = true;
    log_info("signals", "terminate", log_int("signal", number));
    signals->on_terminate(signals->arg);
}

struct signals *signals_create(struct loop *loop, loop_fn on_terminate, loop_fn on_reload, void *arg)
{
    signal(SIGPIPE, SIG_IGN);
    struct signals *signals = mem_zalloc(sizeof *signals);
    signals->on_terminate = on_terminate;
    signals->on_reload = on_reload;
    signals->arg = arg;
    signals->open = SIGNALS;
    for (int i = 0; i < SIGNALS; i++) {
        uv_signal_init(loop_uv(loop), &signals->handles[i]);
        signals->handles[i].data = signals;
        uv_signal_start(&signals->handles[i], on_signal, numbers[i]);
    }
    return signals;
}

static void on_closed(uv_handle_t *handle)
{
    struct signals *signals = handle->data;
    if (--signals->open == 0) mem_free(signals);
}

void signals_destroy(struct signals *signals)
{
    if (!signals) return;
    for (int i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}
