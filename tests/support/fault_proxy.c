// culvert-fault-proxy LISTEN TARGET: a TCP proxy that does on command what networks do to people.
//
// LISTEN and TARGET are address:port (IPv4); port 0 takes a free one. It says "ok address:port"
// when it listens, then takes one command a line on standard input and answers each with a line
// that begins with "ok" or "error":
//   delay MS            every byte arrives that much later, each way
//   jitter MS           each chunk up to MS later still; the order is kept
//   rate BYTES          bytes a second, each way of each connection; 0: no limit
//   window BYTES        no more than a TCP receive window of that size lets be under way in a round trip; 0: no limit
//   chunk N             writes of N bytes at most; 0: as they come
//   stall up|down|both  nothing passes that way (up: client to target), and soon the sender's window is full
//   swap [up|down|both] the next bytes that way are cut in two and the second part is delivered first
//   refuse, blackhole   new connections are reset; are accepted and never answered
//   resume              no stall, no refusal, no black hole any more
//   cut, close          every connection ends by RST at both ends; by FIN at both ends
//   stats               ok open=N accepted=N refused=N up_bytes=N down_bytes=N queued_bytes=N
// It ends when standard input does. One thread; bytes wait in a queue of bounded size for each way
// of a connection.
#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { UP = 0, DOWN = 1 };
enum { CLIENT = 0, TARGET = 1 };
enum { HANDLES_OF_A_PAIR = 4, LINE_BYTES_MAX = 128, READ_BYTES = 256 * 1024 };

static const size_t QUEUE_BYTES = 1024 * 1024;              // what a way holds when it only has to pass bytes on
static const size_t QUEUE_BYTES_DELAYED = 64 * 1024 * 1024; // with a delay: a second at 500 Mbit/s
static const uint64_t NS_PER_MS = 1000000, NS_PER_S = 1000000000;

enum mode { MODE_PASS, MODE_REFUSE, MODE_BLACKHOLE };

struct chunk {
    struct chunk *next;
    uint64_t due_ns;
    size_t bytes, done;
    char data[];
};

// One way of a connection: what was read from one end and is to be written to the other.
struct flow {
    struct pair *pair;
    uv_stream_t *from, *to;
    struct chunk *first, **last;
    size_t queued;
    size_t piece;     // bytes of `first` that the write under way carries; 0: none
    uint64_t due_ns;  // of the newest chunk: nobody overtakes
    uint64_t free_ns; // when the rate allows the next piece
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    int way;
    bool reading, ended, finished, swap;
};

struct pair {
    struct proxy *proxy;
    struct pair *next, **link;
    uv_tcp_t ends[2];
    struct flow flows[2];
    uv_connect_t connect;
    int handles;
    bool connected; // to the target
    bool discard;   // what arrives goes nowhere: a black hole, or a connection that is being closed by FIN
    bool closing;
};

struct proxy {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_poll_t input;
    struct sockaddr_in target;
    struct pair *pairs;
    enum mode mode;
    bool stalled[2];
    uint64_t delay_ns, jitter_ns, rate, window, chunk_bytes, random;
    uint64_t open, accepted, refused, bytes[2];
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
    char scratch[READ_BYTES];
};

static void flow_pump(struct flow *flow);

static void *must(void *memory)
{
    if (memory == NULL) abort();
    return memory;
}

// ---- the end of a connection ---------------------------------------------------------------------------------------

static void flow_drop(struct flow *flow)
{
    struct chunk *kept = flow->piece > 0 ? flow->first : NULL; // a write still points into it
    for (struct chunk *chunk = kept ? kept->next : flow->first, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    flow->first = kept;
    flow->last = kept ? &kept->next : &flow->first;
    *flow->last = NULL;
    flow->queued = kept ? kept->bytes - kept->done : 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pair *pair = handle->data;
    if (--pair->handles > 0) return;
    for (int way = UP; way <= DOWN; way++)
        flow_drop(&pair->flows[way]);
    if ((*pair->link = pair->next) != NULL) pair->next->link = pair->link;
    pair->proxy->open--;
    free(pair);
}

static void pair_close(struct pair *pair, bool reset)
{
    if (pair->closing) return;
    pair->closing = true;
    for (int i = 0; i < 2; i++) {
        int fd;
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0}; // close() then sends RST
        if (reset && uv_fileno((uv_handle_t *)&pair->ends[i], &fd) == 0)
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        uv_close((uv_handle_t *)&pair->ends[i], on_handle_closed);
        uv_close((uv_handle_t *)&pair->flows[i].timer, on_handle_closed);
    }
}

// Done: both ends have said and been told that it is over. A black hole has one end only.
static void pair_check_end(struct pair *pair)
{
    const struct flow *up = &pair->flows[UP], *down = &pair->flows[DOWN];
    if (!pair->connected ? up->ended : up->ended && down->ended && up->finished && down->finished)
        pair_close(pair, false);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct flow *flow = request->data;
    if (flow->pair->closing) return;
    flow->finished = true;
    if (status != 0)
        pair_close(flow->pair, true);
    else
        pair_check_end(flow->pair);
}

// ---- one way -------------------------------------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer)
{
    for (int way = UP; way <= DOWN; way++) {
        struct flow *flow = &((struct pair *)timer->data)->flows[way];
        if (timer == &flow->timer) flow_pump(flow);
    }
}

static void flow_advance(struct flow *flow, size_t bytes)
{
    struct chunk *chunk = flow->first;
    struct proxy *proxy = flow->pair->proxy;
    proxy->bytes[flow->way] += bytes;
    flow->queued -= bytes;
    chunk->done += bytes;
    if (proxy->rate > 0) {
        uint64_t now = uv_hrtime();
        if (flow->free_ns < now) flow->free_ns = now;
        flow->free_ns += (uint64_t)((double)bytes / (double)proxy->rate * (double)NS_PER_S);
    }
    if (chunk->done < chunk->bytes) return;
    if ((flow->first = chunk->next) == NULL) flow->last = &flow->first;
    free(chunk);
}

static void on_write(uv_write_t *request, int status)
{
    struct flow *flow = request->data;
    size_t bytes = flow->piece;
    flow->piece = 0;
    if (flow->pair->closing) return;
    if (status != 0) {
        pair_close(flow->pair, true);
        return;
    }
    flow_advance(flow, bytes);
    flow_pump(flow);
}

// Writes what it can of the first chunk. False: wait for on_write, or the connection is closing.
static bool flow_write(struct flow *flow)
{
    struct proxy *proxy = flow->pair->proxy;
    struct chunk *chunk = flow->first;
    size_t bytes = chunk->bytes - chunk->done;
    if (proxy->chunk_bytes > 0 && bytes > proxy->chunk_bytes) bytes = proxy->chunk_bytes;
    if (proxy->rate > 0 && bytes > proxy->rate / 50 + 1) bytes = proxy->rate / 50 + 1; // 20 ms of it at a time
    uv_buf_t buffer = uv_buf_init(chunk->data + chunk->done, (unsigned)bytes);
    int done = uv_try_write(flow->to, &buffer, 1);
    if (done > 0) {
        flow_advance(flow, (size_t)done);
        return true;
    }
    flow->piece = bytes;
    flow->write.data = flow;
    if ((done < 0 && done != UV_EAGAIN) || uv_write(&flow->write, flow->to, &buffer, 1, on_write) != 0) {
        flow->piece = 0;
        pair_close(flow->pair, true);
    }
    return false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct proxy *proxy = ((struct pair *)handle->data)->proxy;
    size_t room = proxy->window > 0 && proxy->window < sizeof(proxy->scratch) ? proxy->window : sizeof(proxy->scratch);
    *out = uv_buf_init(proxy->scratch, (unsigned)room);
}

static void flow_put(struct flow *flow, const char *data, size_t bytes)
{
    struct proxy *proxy = flow->pair->proxy;
    struct chunk *chunk = must(malloc(sizeof(*chunk) + bytes));
    uint64_t wait = proxy->delay_ns;
    if (proxy->jitter_ns > 0) {
        proxy->random = proxy->random * 6364136223846793005u + 1442695040888963407u;
        wait += (proxy->random >> 32) % proxy->jitter_ns;
    }
    uint64_t due = wait > 0 ? uv_hrtime() + wait : 0;
    if (due > flow->due_ns) flow->due_ns = due;
    chunk->due_ns = flow->due_ns;
    chunk->next = NULL;
    chunk->bytes = bytes;
    chunk->done = 0;
    memcpy(chunk->data, data, bytes);
    *flow->last = chunk;
    flow->last = &chunk->next;
    flow->queued += bytes;
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct pair *pair = stream->data;
    struct flow *flow = stream == (uv_stream_t *)&pair->ends[CLIENT] ? &pair->flows[UP] : &pair->flows[DOWN];
    if (count == 0 || pair->closing) return;
    if (count < 0) {
        uv_read_stop(stream);
        flow->reading = false;
        flow->ended = true;
        if (count != UV_EOF)
            pair_close(pair, true);
        else
            pair_check_end(pair);
        if (!pair->closing) flow_pump(flow);
        return;
    }
    if (pair->discard) return;
    if (flow->swap && count > 1) {
        size_t half = (size_t)count / 2;
        flow->swap = false;
        flow_put(flow, buffer->base + half, (size_t)count - half);
        count = (ssize_t)half;
    }
    flow_put(flow, buffer->base, (size_t)count);
    flow_pump(flow);
}

// Reads while there is room in the queue: when the other side does not take, the sender feels it.
static void flow_steer_reading(struct flow *flow)
{
    struct proxy *proxy = flow->pair->proxy;
    size_t most = proxy->delay_ns + proxy->jitter_ns > 0 ? QUEUE_BYTES_DELAYED : QUEUE_BYTES;
    // A window opens again when its bytes have arrived and the acknowledgement is back; a queue at
    // half of that time.
    if (proxy->window > 0 && proxy->window / 2 < most) most = (size_t)proxy->window / 2;
    bool wanted = !flow->ended && flow->queued < most;
    if (wanted == flow->reading) return;
    flow->reading = wanted;
    if (!wanted)
        uv_read_stop(flow->from);
    else if (uv_read_start(flow->from, on_alloc, on_read) != 0)
        pair_close(flow->pair, true);
}

static void flow_pump(struct flow *flow)
{
    struct proxy *proxy = flow->pair->proxy;
    while (!flow->pair->closing && flow->piece == 0 && flow->first != NULL && !proxy->stalled[flow->way]) {
        uint64_t now = uv_hrtime(), due = flow->first->due_ns;
        if (proxy->rate > 0 && flow->free_ns > due) due = flow->free_ns;
        if (due > now) {
            uv_update_time(&proxy->loop);
            uv_timer_start(&flow->timer, on_timer, (due - now + NS_PER_MS - 1) / NS_PER_MS, 0);
            break;
        }
        if (!flow_write(flow)) break;
    }
    if (flow->pair->closing) return;
    bool told = flow->shutdown.data != NULL;
    if ((flow->ended || flow->pair->discard) && flow->first == NULL && !told && !proxy->stalled[flow->way]) {
        flow->shutdown.data = flow;
        if (uv_shutdown(&flow->shutdown, flow->to, on_shutdown) != 0) pair_close(flow->pair, true);
    }
    if (!flow->pair->closing) flow_steer_reading(flow);
}

// ---- connections ---------------------------------------------------------------------------------------------------

static struct pair *pair_create(struct proxy *proxy)
{
    struct pair *pair = must(calloc(1, sizeof(*pair)));
    pair->proxy = proxy;
    for (int i = 0; i < 2; i++) {
        struct flow *flow = &pair->flows[i];
        if (uv_tcp_init(&proxy->loop, &pair->ends[i]) != 0 || uv_timer_init(&proxy->loop, &flow->timer) != 0) abort();
        pair->ends[i].data = flow->timer.data = pair;
        flow->pair = pair;
        flow->way = i;
        flow->from = (uv_stream_t *)&pair->ends[i];
        flow->to = (uv_stream_t *)&pair->ends[1 - i];
        flow->last = &flow->first;
    }
    pair->handles = HANDLES_OF_A_PAIR;
    if ((pair->next = proxy->pairs) != NULL) pair->next->link = &pair->next;
    pair->link = &proxy->pairs;
    proxy->pairs = pair;
    proxy->open++;
    return pair;
}

static void on_connect(uv_connect_t *request, int status)
{
    struct pair *pair = request->data;
    if (pair->closing) return;
    if (status != 0 || uv_tcp_nodelay(&pair->ends[TARGET], 1) != 0) {
        pair_close(pair, true);
        return;
    }
    pair->connected = true;
    flow_pump(&pair->flows[UP]);
    if (!pair->closing) flow_pump(&pair->flows[DOWN]);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct proxy *proxy = listener->data;
    if (status != 0) return;
    struct pair *pair = pair_create(proxy);
    if (uv_accept(listener, (uv_stream_t *)&pair->ends[CLIENT]) != 0) {
        pair_close(pair, true);
        return;
    }
    proxy->accepted++;
    (void)uv_tcp_nodelay(&pair->ends[CLIENT], 1);
    pair->connect.data = pair;
    if (proxy->mode == MODE_REFUSE) {
        proxy->refused++;
        pair_close(pair, true);
    } else if (proxy->mode == MODE_BLACKHOLE) {
        pair->discard = true;
        flow_steer_reading(&pair->flows[UP]);
    } else if (uv_tcp_connect(&pair->connect, &pair->ends[TARGET], (const struct sockaddr *)&proxy->target,
                              on_connect) != 0) {
        pair_close(pair, true);
    }
}

static void pump_all(struct proxy *proxy)
{
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        for (int way = UP; way <= DOWN && pair->connected && !pair->closing; way++)
            flow_pump(&pair->flows[way]);
    }
}

// ---- commands ------------------------------------------------------------------------------------------------------

static void cut_all(struct proxy *proxy)
{
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        pair_close(pair, true);
}

static void close_all(struct proxy *proxy)
{
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        if (!pair->connected) pair_close(pair, false);
        pair->discard = true;
        for (int way = UP; way <= DOWN; way++)
            flow_drop(&pair->flows[way]);
    }
    pump_all(proxy);
}

static void say_stats(const struct proxy *proxy)
{
    size_t queued = 0;
    for (const struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next)
        queued += pair->flows[UP].queued + pair->flows[DOWN].queued;
    printf("ok open=%" PRIu64 " accepted=%" PRIu64 " refused=%" PRIu64 " up_bytes=%" PRIu64 " down_bytes=%" PRIu64
           " queued_bytes=%zu\n",
           proxy->open, proxy->accepted, proxy->refused, proxy->bytes[UP], proxy->bytes[DOWN], queued);
}

static bool parse_ways(const char *word, bool out_ways[2])
{
    bool both = strcmp(word, "both") == 0;
    out_ways[UP] = both || strcmp(word, "up") == 0;
    out_ways[DOWN] = both || strcmp(word, "down") == 0;
    return out_ways[UP] || out_ways[DOWN];
}

static bool parse_number(const char *word, uint64_t maximum, uint64_t *out)
{
    char *end;
    unsigned long long value = strtoull(word, &end, 10);
    if (*word < '0' || *word > '9' || *end != '\0' || value > maximum) return false;
    *out = value;
    return true;
}

static void swap_next(struct proxy *proxy, const bool ways[2])
{
    for (struct pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        for (int way = UP; way <= DOWN; way++)
            pair->flows[way].swap |= ways[way];
    }
}

// A command with a number or a direction. False: it is none, or what it says is out of bounds.
static bool obey_with_word(struct proxy *proxy, const char *command, const char *word)
{
    uint64_t number;
    bool ways[2];
    if (strcmp(command, "delay") == 0 && parse_number(word, 60000, &number)) {
        proxy->delay_ns = number * NS_PER_MS;
    } else if (strcmp(command, "jitter") == 0 && parse_number(word, 60000, &number)) {
        proxy->jitter_ns = number * NS_PER_MS;
    } else if (strcmp(command, "rate") == 0 && parse_number(word, UINT32_MAX, &number)) {
        proxy->rate = number;
    } else if (strcmp(command, "window") == 0 && parse_number(word, UINT32_MAX, &number)) {
        proxy->window = number;
    } else if (strcmp(command, "chunk") == 0 && parse_number(word, UINT32_MAX, &number)) {
        proxy->chunk_bytes = number;
    } else if (strcmp(command, "stall") == 0 && parse_ways(word, ways)) {
        proxy->stalled[UP] = ways[UP];
        proxy->stalled[DOWN] = ways[DOWN];
    } else if (strcmp(command, "swap") == 0 && parse_ways(word, ways)) {
        swap_next(proxy, ways);
    } else {
        return false;
    }
    pump_all(proxy);
    return true;
}

static bool obey_alone(struct proxy *proxy, const char *command)
{
    if (strcmp(command, "refuse") == 0) {
        proxy->mode = MODE_REFUSE;
    } else if (strcmp(command, "blackhole") == 0) {
        proxy->mode = MODE_BLACKHOLE;
    } else if (strcmp(command, "resume") == 0) {
        proxy->mode = MODE_PASS;
        proxy->stalled[UP] = proxy->stalled[DOWN] = false;
        pump_all(proxy);
    } else if (strcmp(command, "swap") == 0) {
        swap_next(proxy, (const bool[2]){true, true});
    } else if (strcmp(command, "cut") == 0) {
        cut_all(proxy);
    } else if (strcmp(command, "close") == 0) {
        close_all(proxy);
    } else {
        return false;
    }
    return true;
}

static void obey(struct proxy *proxy, char *line)
{
    char *word = strchr(line, ' ');
    if (word != NULL) *word++ = '\0';
    if (word == NULL && strcmp(line, "stats") == 0)
        say_stats(proxy);
    else if (word != NULL ? obey_with_word(proxy, line, word) : obey_alone(proxy, line))
        puts("ok");
    else
        puts("error: not a command, or out of bounds");
    fflush(stdout);
}

static void on_input(uv_poll_t *input, int status, int events)
{
    struct proxy *proxy = input->data;
    (void)events;
    ssize_t count = 0;
    if (status == 0)
        count = read(STDIN_FILENO, proxy->line + proxy->line_bytes, sizeof(proxy->line) - proxy->line_bytes);
    if (count <= 0) {
        uv_stop(&proxy->loop);
        return;
    }
    proxy->line_bytes += (size_t)count;
    for (char *end; (end = memchr(proxy->line, '\n', proxy->line_bytes)) != NULL;) {
        size_t bytes = (size_t)(end - proxy->line) + 1;
        *end = '\0';
        obey(proxy, proxy->line);
        proxy->line_bytes -= bytes;
        memmove(proxy->line, end + 1, proxy->line_bytes);
    }
    if (proxy->line_bytes == sizeof(proxy->line)) uv_stop(&proxy->loop); // no command is that long
}

// ---- start and end -------------------------------------------------------------------------------------------------

static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[INET_ADDRSTRLEN];
    uint64_t port;
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof(host) || !parse_number(colon + 1, 65535, &port)) return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    return uv_ip4_addr(host, (int)port, out) == 0;
}

static bool start(struct proxy *proxy, const struct sockaddr_in *at)
{
    struct sockaddr_in bound;
    int length = sizeof(bound);
    char host[INET_ADDRSTRLEN];
    proxy->listener.data = proxy->input.data = proxy;
    if (uv_tcp_init(&proxy->loop, &proxy->listener) != 0 ||
        uv_tcp_bind(&proxy->listener, (const struct sockaddr *)at, 0) != 0 ||
        uv_listen((uv_stream_t *)&proxy->listener, 1024, on_connection) != 0 ||
        uv_tcp_getsockname(&proxy->listener, (struct sockaddr *)&bound, &length) != 0 ||
        uv_ip4_name(&bound, host, sizeof(host)) != 0) {
        fprintf(stderr, "culvert-fault-proxy: cannot listen\n");
        return false;
    }
    if (uv_poll_init(&proxy->loop, &proxy->input, STDIN_FILENO) != 0 ||
        uv_poll_start(&proxy->input, UV_READABLE, on_input) != 0) {
        fprintf(stderr, "culvert-fault-proxy: commands come from a pipe or a terminal\n");
        return false;
    }
    printf("ok %s:%u\n", host, ntohs(bound.sin_port));
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    struct proxy *proxy = must(calloc(1, sizeof(*proxy)));
    struct sockaddr_in at;
    proxy->random = 1;
    signal(SIGPIPE, SIG_IGN);
    if (argc != 3 || !parse_address(argv[1], &at) || !parse_address(argv[2], &proxy->target)) {
        fprintf(stderr, "usage: culvert-fault-proxy ADDRESS:PORT ADDRESS:PORT\n");
        free(proxy);
        return 2;
    }
    if (uv_loop_init(&proxy->loop) != 0) abort();
    bool started = start(proxy, &at);
    if (started) uv_run(&proxy->loop, UV_RUN_DEFAULT);
    cut_all(proxy);
    uv_close((uv_handle_t *)&proxy->listener, NULL);
    if (started) uv_close((uv_handle_t *)&proxy->input, NULL);
    uv_run(&proxy->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&proxy->loop) != 0) abort();
    free(proxy);
    return started ? 0 : 1;
}
