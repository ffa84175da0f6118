// requests: a closed loop of small requests. N keep-alive connections, each with one GET (or POST of --body-file) in
// flight, for S seconds; then one line of JSON: requests (answered with 200), refused (with anything else), failed
// (connections that broke), seconds, p50 and p99 in microseconds, answers completed in each second. One thread.
#include "client.h"
#include "histogram.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct connection {
    struct client client;
    uint64_t sent_ns;   // when the request in flight left
    size_t head_bytes;  // received of a head that is not complete yet
    uint64_t body_left; // of an answer whose head is complete
    bool in_body;
    bool refused; // the answer under way is no 200
    char head[CLIENT_HEAD_BYTES_MAX + 1];
};

struct run {
    struct client_options options;
    char request[CLIENT_REQUEST_BYTES_MAX];
    size_t request_bytes;
    int epoll;
    uint64_t start_ns, end_ns;
    uint64_t refused, failed;
    unsigned first_refusal; // its status
    uint64_t *per_second;
    struct histogram latencies;
    struct connection *connections;
};

static void open_connection(struct run *run, SSL_CTX *tls, struct connection *connection)
{
    client_open(&connection->client, &run->options, tls); // blocking: this comes before the clock starts
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (fcntl(connection->client.fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->client.fd, &event) != 0)
        client_die("epoll");
}

// A request is far smaller than an empty send buffer, so a partial write means that the connection is broken.
static bool send_request(struct run *run, struct connection *connection)
{
    struct client *client = &connection->client;
    connection->sent_ns = histogram_now_ns();
    connection->head_bytes = 0;
    connection->in_body = false;
    long sent = client->ssl != NULL ? SSL_write(client->ssl, run->request, (int)run->request_bytes)
                                    : write(client->fd, run->request, run->request_bytes);
    return sent == (long)run->request_bytes;
}

// False when the answer has no length, or more than it.
static bool take_head(struct run *run, struct connection *connection, const struct client_answer *answer)
{
    connection->refused = answer->status != 200;
    if (connection->refused && run->first_refusal == 0) run->first_refusal = answer->status;
    connection->in_body = true;
    connection->body_left = answer->length - answer->body_bytes;
    return answer->has_length && answer->body_bytes <= answer->length;
}

static void count_answer(struct run *run, struct connection *connection)
{
    if (connection->refused) {
        run->refused++;
        return;
    }
    uint64_t now = histogram_now_ns();
    uint64_t second = (now - run->start_ns) / 1000000000;
    histogram_add(&run->latencies, (now - connection->sent_ns) / 1000);
    if (second < run->options.seconds) run->per_second[second]++;
}

// Reads all there is. False when the connection is of no more use.
static bool on_readable(struct run *run, struct connection *connection)
{
    static char scratch[64 * 1024];
    for (;;) {
        bool in_body = connection->in_body;
        char *at = in_body ? scratch : connection->head + connection->head_bytes;
        size_t room = in_body ? sizeof(scratch) : CLIENT_HEAD_BYTES_MAX - connection->head_bytes;
        long count = client_receive(&connection->client, at, room);
        if (count <= 0) return count == 0;
        if (in_body) {
            if ((uint64_t)count > connection->body_left) return false;
            connection->body_left -= (uint64_t)count;
        } else {
            struct client_answer answer;
            connection->head_bytes += (size_t)count;
            if (client_parse_head(connection->head, connection->head_bytes, &answer) == 0) {
                if (connection->head_bytes == CLIENT_HEAD_BYTES_MAX) return false;
                continue;
            }
            if (!take_head(run, connection, &answer)) return false;
        }
        if (connection->body_left == 0) {
            count_answer(run, connection);
            return send_request(run, connection);
        }
    }
}

static void run_loop(struct run *run)
{
    static struct epoll_event events[CLIENT_CONNECTIONS_MAX];
    unsigned open = run->options.connections;
    run->start_ns = histogram_now_ns();
    run->end_ns = run->start_ns + (uint64_t)run->options.seconds * 1000000000;
    for (unsigned i = 0; i < run->options.connections; i++) {
        if (!send_request(run, &run->connections[i])) client_die("the first request");
    }
    while (open > 0) {
        uint64_t now = histogram_now_ns();
        if (now >= run->end_ns) break;
        int wait_ms = (int)((run->end_ns - now) / 1000000) + 1;
        int ready = epoll_wait(run->epoll, events, CLIENT_CONNECTIONS_MAX, wait_ms);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (on_readable(run, connection)) continue;
            run->failed++;
            open--;
            client_close(&connection->client); // leaves the poll, too
        }
    }
    run->end_ns = histogram_now_ns();
}

static void print_result(const struct run *run)
{
    printf(
        "{\"requests\": %llu, \"refused\": %llu, \"failed\": %llu, \"seconds\": %.3f, \"p50_us\": %u, \"p99_us\": %u, "
        "\"per_second\": [",
        (unsigned long long)run->latencies.count, (unsigned long long)run->refused, (unsigned long long)run->failed,
        (double)(run->end_ns - run->start_ns) / 1e9, histogram_percentile_us(&run->latencies, 0.50),
        histogram_percentile_us(&run->latencies, 0.99));
    for (unsigned i = 0; i < run->options.seconds; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)run->per_second[i]);
    printf("]}\n");
    if (run->first_refusal != 0) fprintf(stderr, "requests: the first refusal had status %u\n", run->first_refusal);
}

// A POST of the body file, or a GET.
static void make_request(struct run *run)
{
    char body[CLIENT_REQUEST_BYTES_MAX / 2], more[64] = "";
    size_t bytes = 0;
    if (run->options.body_file != NULL) {
        FILE *file = fopen(run->options.body_file, "r");
        if (file == NULL) client_die(run->options.body_file);
        bytes = fread(body, 1, sizeof(body), file);
        if (bytes == sizeof(body)) client_die("the body is too long");
        fclose(file);
        snprintf(more, sizeof(more), "Content-Length: %zu\r\n", bytes);
    }
    run->request_bytes =
        client_make_request(&run->options, run->options.body_file ? "POST" : "GET", more, run->request);
    if (run->request_bytes + bytes > sizeof(run->request)) client_die("the request is too long");
    memcpy(run->request + run->request_bytes, body, bytes);
    run->request_bytes += bytes;
}

int main(int argc, char **argv)
{
    static struct run run;
    client_parse_options(argc, argv, &run.options);
    make_request(&run);
    SSL_CTX *tls = client_tls(&run.options);
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    run.connections = calloc(run.options.connections, sizeof(*run.connections));
    run.per_second = calloc(run.options.seconds, sizeof(*run.per_second));
    if (run.epoll < 0 || run.connections == NULL || run.per_second == NULL) client_die("start");
    histogram_init(&run.latencies);
    for (unsigned i = 0; i < run.options.connections; i++)
        open_connection(&run, tls, &run.connections[i]);
    run_loop(&run);
    print_result(&run);
    for (unsigned i = 0; i < run.options.connections; i++)
        client_close(&run.connections[i].client);
    histogram_finish(&run.latencies);
    SSL_CTX_free(tls);
    close(run.epoll);
    free(run.per_second);
    free(run.connections);
    return 0;
}
