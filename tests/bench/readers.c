// readers: N clients that take an endless download at a trickle (--rate bytes a second each): what makes a careless
// tunnel buffer without end, or stop. It says "ready" when each has the head of its answer, goes on until SIGTERM, and
// prints one line of JSON: seconds, slowest (bytes that the slowest took), cut (how many were cut off). One thread.
#include "client.h"
#include "histogram.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    TICK_MS = 100,
    START_SECONDS_MAX = 5,
    RECEIVE_BUFFER_BYTES = 64 * 1024, // little room here, so that the other end feels the trickle
};

struct reader {
    struct client client;
    size_t head_bytes;
    bool answered;
    uint64_t taken;
    char head[CLIENT_HEAD_BYTES_MAX + 1];
};

struct run {
    struct client_options options;
    struct reader *readers;
    unsigned answered, cut;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void ask(struct run *run, struct reader *reader, SSL_CTX *tls)
{
    char request[CLIENT_REQUEST_BYTES_MAX];
    client_open(&reader->client, &run->options, tls);
    client_send(&reader->client, request, client_make_request(&run->options, "GET", "", request));
    if (fcntl(reader->client.fd, F_SETFL, O_NONBLOCK) != 0) client_die("fcntl");
}

static void cut_off(struct run *run, struct reader *reader)
{
    run->cut++;
    client_close(&reader->client);
}

static void take_head(struct run *run, struct reader *reader)
{
    struct client_answer answer;
    size_t room = CLIENT_HEAD_BYTES_MAX - reader->head_bytes;
    long count = room > 0 ? client_receive(&reader->client, reader->head + reader->head_bytes, room) : -1;
    if (count < 0) {
        cut_off(run, reader);
        return;
    }
    reader->head_bytes += (size_t)count;
    if (client_parse_head(reader->head, reader->head_bytes, &answer) == 0) return;
    if (answer.status != 200) {
        fprintf(stderr, "readers: answered with %u\n", answer.status);
        cut_off(run, reader);
        return;
    }
    reader->answered = true;
    run->answered++;
}

// Until everybody has the head of an answer, or for as long as is reasonable.
static void take_heads(struct run *run)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000 / 10};
    uint64_t until = histogram_now_ns() + (uint64_t)START_SECONDS_MAX * 1000000000;
    while (run->answered + run->cut < run->options.connections && histogram_now_ns() < until && !stopped) {
        for (unsigned i = 0; i < run->options.connections; i++) {
            struct reader *reader = &run->readers[i];
            if (!reader->answered && reader->client.fd >= 0) take_head(run, reader);
        }
        nanosleep(&tick, NULL);
    }
}

// Takes what is its due by now, or what there is. False when it was cut off.
static bool take(struct reader *reader, uint64_t due)
{
    static char scratch[64 * 1024];
    while (reader->taken < due) {
        uint64_t left = due - reader->taken;
        long count = client_receive(&reader->client, scratch, left < sizeof(scratch) ? (size_t)left : sizeof(scratch));
        if (count <= 0) return count == 0;
        reader->taken += (uint64_t)count;
    }
    return true;
}

static void read_slowly(struct run *run, uint64_t begin)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
    while (!stopped) {
        nanosleep(&tick, NULL);
        uint64_t due = (uint64_t)((double)(histogram_now_ns() - begin) / 1e9 * (double)run->options.rate);
        for (unsigned i = 0; i < run->options.connections; i++) {
            struct reader *reader = &run->readers[i];
            if (reader->answered && reader->client.fd >= 0 && !take(reader, due)) cut_off(run, reader);
        }
    }
}

int main(int argc, char **argv)
{
    static struct run run;
    client_parse_options(argc, argv, &run.options);
    run.options.receive_buffer_bytes = RECEIVE_BUFFER_BYTES;
    run.readers = calloc(run.options.connections, sizeof(*run.readers));
    if (run.readers == NULL || run.options.rate == 0) client_die("--rate is needed");
    (void)sigaction(SIGTERM, &(const struct sigaction){.sa_handler = on_signal}, NULL);
    SSL_CTX *tls = client_tls(&run.options);
    for (unsigned i = 0; i < run.options.connections; i++)
        ask(&run, &run.readers[i], tls);
    take_heads(&run);
    puts("ready");
    fflush(stdout);
    uint64_t begin = histogram_now_ns(), slowest = UINT64_MAX;
    read_slowly(&run, begin);
    double seconds = (double)(histogram_now_ns() - begin) / 1e9;
    for (unsigned i = 0; i < run.options.connections; i++) {
        if (run.readers[i].taken < slowest) slowest = run.readers[i].taken;
        client_close(&run.readers[i].client);
    }
    printf("{\"seconds\": %.3f, \"slowest\": %llu, \"answered\": %u, \"cut\": %u}\n", seconds,
           (unsigned long long)slowest, run.answered, run.cut);
    SSL_CTX_free(tls);
    free(run.readers);
    return 0;
}
