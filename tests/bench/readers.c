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

enum { TICK_MS = 100, RECEIVE_BUFFER_BYTES = 64 * 1024 }; // little room here, so that the other end feels the trickle

struct reader {
    struct client client;
    uint64_t taken;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void start(struct reader *reader, const struct client_options *options, SSL_CTX *tls)
{
    static char head[CLIENT_HEAD_BYTES_MAX + 1], request[CLIENT_REQUEST_BYTES_MAX];
    struct client_answer answer;
    client_open(&reader->client, options, tls);
    client_send(&reader->client, request, client_make_request(options, "GET", "", request));
    client_receive_head(&reader->client, head, &answer);
    errno = 0;
    if (answer.status != 200) {
        fprintf(stderr, "readers: answered with %u\n", answer.status);
        client_die("no download");
    }
    if (fcntl(reader->client.fd, F_SETFL, O_NONBLOCK) != 0) client_die("fcntl");
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

int main(int argc, char **argv)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
    struct client_options options;
    client_parse_options(argc, argv, &options);
    options.receive_buffer_bytes = RECEIVE_BUFFER_BYTES;
    struct reader *readers = calloc(options.connections, sizeof(*readers));
    if (readers == NULL || options.rate == 0) client_die("--rate is needed");
    (void)sigaction(SIGTERM, &(const struct sigaction){.sa_handler = on_signal}, NULL);
    SSL_CTX *tls = client_tls(&options);
    for (unsigned i = 0; i < options.connections; i++)
        start(&readers[i], &options, tls);
    puts("ready");
    fflush(stdout);
    uint64_t begin = histogram_now_ns(), slowest = UINT64_MAX;
    unsigned cut = 0;
    while (!stopped) {
        nanosleep(&tick, NULL);
        uint64_t due = (uint64_t)((double)(histogram_now_ns() - begin) / 1e9 * (double)options.rate);
        for (unsigned i = 0; i < options.connections; i++) {
            if (readers[i].client.fd < 0 || take(&readers[i], due)) continue;
            cut++;
            client_close(&readers[i].client);
        }
    }
    double seconds = (double)(histogram_now_ns() - begin) / 1e9;
    for (unsigned i = 0; i < options.connections; i++) {
        if (readers[i].taken < slowest) slowest = readers[i].taken;
        client_close(&readers[i].client);
    }
    printf("{\"seconds\": %.3f, \"slowest\": %llu, \"cut\": %u}\n", seconds, (unsigned long long)slowest, cut);
    SSL_CTX_free(tls);
    free(readers);
    return 0;
}
