// culvert-agent-swarm: thousands of simulated agents, each a runtime of its own
// (tests/support/swarm.h).
//
//   culvert-agent-swarm --platform ADDRESS:PORT --name NAME --ca FILE --agents FILE [--sources N] [--report-every MS]
//
// FILE of agents: a line "ACCOUNT RUNTIME TOKEN" each. Addresses 127.0.0.2 and N-1 more are dialled
// from. Commands on standard input, for each a line of JSON on standard output:
//   start FIRST COUNT SPREAD_MS   these agents dial, the first time within so many ms
//   stop FIRST COUNT              these close their tunnels and stay away
//   stall FIRST COUNT             these read and write no more, without closing: half-open connections
//   redial FIRST COUNT            these open another tunnel, of a new boot, beside what they have
//   mark                          figures of times and waits begin anew
//   stats                         all figures
//   quit                          (so does the end of standard input)
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "tests/support/swarm.h"

enum {
    TICK_MS = 10,
    LINK_TICK_MS = 50,
    EVENTS_MAX = 512,
    SOURCES_DEFAULT = 8,
    AGENTS_MAX = 200000,
    WAITS_MAX = 1 << 22
};

static const char *const count_names[SWARM_COUNTS] = {
    [SWARM_DIALS] = "dials",
    [SWARM_TLS] = "tls_handshakes",
    [SWARM_TLS_RESUMED] = "tls_resumed",
    [SWARM_UPGRADED] = "upgraded",
    [SWARM_ACKED] = "acked",
    [SWARM_REFUSED_401] = "refused_401",
    [SWARM_REFUSED_403] = "refused_403",
    [SWARM_REFUSED_429] = "refused_429",
    [SWARM_REFUSED_503] = "refused_503",
    [SWARM_REFUSED_OTHER] = "refused_other",
    [SWARM_FAILED_CONNECT] = "failed_connect",
    [SWARM_FAILED_TLS] = "failed_tls",
    [SWARM_FAILED_UPGRADE] = "failed_upgrade",
    [SWARM_FAILED_HELLO] = "failed_hello",
    [SWARM_LOST] = "lost",
    [SWARM_DRAINS] = "drains",
    [SWARM_SUPERSEDED] = "superseded",
    [SWARM_PINGS] = "pings",
    [SWARM_CALLS] = "calls",
    [SWARM_CALLS_REFUSED] = "calls_refused",
    [SWARM_REPORT_STREAMS] = "report_streams",
    [SWARM_REPORTS_ACKED] = "reports_acked",
    [SWARM_PROTOCOL_ERRORS] = "protocol_errors",
};

void swarm_count(struct swarm *swarm, enum swarm_count what)
{
    swarm->counts[what]++;
}

void swarm_note_acked(struct swarm *swarm, uint64_t waited_ms)
{
    swarm_count(swarm, SWARM_ACKED);
    swarm->last_acked_ms = clock_mono_ms();
    if (!swarm->first_acked_ms) swarm->first_acked_ms = swarm->last_acked_ms;
    if (swarm->wait_count == swarm->wait_cap && swarm->wait_cap < WAITS_MAX) {
        swarm->wait_cap = swarm->wait_cap ? swarm->wait_cap * 2 : 1024;
        swarm->waits_ms = mem_realloc(swarm->waits_ms, swarm->wait_cap * sizeof(*swarm->waits_ms));
    }
    if (swarm->wait_count < swarm->wait_cap) swarm->waits_ms[swarm->wait_count++] = (uint32_t)waited_ms;
}

// ---- figures -----------------------------------------------------------------------------------------------------

static int compare_waits(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t quantile(const struct swarm *swarm, size_t percent)
{
    if (!swarm->wait_count) return 0;
    return swarm->waits_ms[(swarm->wait_count - 1) * percent / 100];
}

static long long since_mark(const struct swarm *swarm, uint64_t at_ms)
{
    return at_ms ? (long long)(at_ms - swarm->mark_ms) : -1;
}

static void print_stats(struct swarm *swarm)
{
    if (swarm->wait_count) qsort(swarm->waits_ms, swarm->wait_count, sizeof(*swarm->waits_ms), compare_waits);
    printf("{\"agents\":%zu,\"serving\":%zu,\"links\":%zu,\"first_acked_ms\":%lld,\"last_acked_ms\":%lld,"
           "\"since_mark_ms\":%lld,\"waits\":%zu,\"wait_p50_ms\":%u,\"wait_p99_ms\":%u,\"wait_max_ms\":%u",
           swarm->agent_count, swarm->serving, swarm->link_count, since_mark(swarm, swarm->first_acked_ms),
           since_mark(swarm, swarm->last_acked_ms), since_mark(swarm, clock_mono_ms()), swarm->wait_count,
           quantile(swarm, 50), quantile(swarm, 99), quantile(swarm, 100));
    for (int i = 0; i < SWARM_COUNTS; i++)
        printf(",\"%s\":%llu", count_names[i], (unsigned long long)swarm->counts[i]);
    puts("}");
}

static void mark(struct swarm *swarm)
{
    swarm->mark_ms = clock_mono_ms();
    swarm->first_acked_ms = swarm->last_acked_ms = 0;
    swarm->wait_count = 0;
}

// ---- commands ----------------------------------------------------------------------------------------------------

static bool each(struct swarm *swarm, const char *verb, size_t first, size_t count, uint64_t spread_ms)
{
    if (first > swarm->agent_count || count > swarm->agent_count - first) return false;
    for (struct swarm_agent *agent = swarm->agents + first, *end = agent + count; agent < end; agent++) {
        if (strcmp(verb, "start") == 0)
            swarm_agent_start(agent, spread_ms);
        else if (strcmp(verb, "stop") == 0)
            swarm_agent_stop(agent);
        else if (strcmp(verb, "stall") == 0)
            swarm_agent_stall(agent);
        else if (strcmp(verb, "redial") == 0)
            swarm_agent_redial(agent);
        else
            return false;
    }
    return true;
}

// False: the program is to end.
static bool command(struct swarm *swarm, const char *line)
{
    char verb[16];
    size_t first = 0, count = 0;
    unsigned long long spread_ms = 0;
    int words = sscanf(line, "%15s %zu %zu %llu", verb, &first, &count, &spread_ms);
    if (words < 1) return true;
    if (strcmp(verb, "quit") == 0) return false;
    if (strcmp(verb, "stats") == 0)
        print_stats(swarm);
    else if (strcmp(verb, "mark") == 0)
        mark(swarm), puts("{\"ok\":true}");
    else
        puts(words >= 3 && each(swarm, verb, first, count, spread_ms) ? "{\"ok\":true}" : "{\"ok\":false}");
    fflush(stdout);
    return true;
}

// False: standard input has ended, or asked to quit.
static bool read_commands(struct swarm *swarm, struct strbuf *input)
{
    char chunk[4096];
    ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0 || !strbuf_add(input, chunk, (size_t)n)) return false;
    char *end;
    while (input->len && (end = memchr(input->at, '\n', input->len))) {
        *end = '\0';
        if (!command(swarm, input->at)) return false;
        strbuf_drop_front(input, (size_t)(end + 1 - input->at));
    }
    return true;
}

// ---- the loop ----------------------------------------------------------------------------------------------------

static void free_ended(struct swarm *swarm)
{
    while (swarm->ended) {
        struct swarm_link *link = swarm->ended;
        swarm->ended = link->next;
        swarm_link_free(link);
    }
}

static void tick(struct swarm *swarm, uint64_t now_ms, uint64_t *links_at_ms)
{
    for (size_t i = 0; i < swarm->agent_count; i++)
        swarm_agent_tick(&swarm->agents[i], now_ms);
    if (now_ms < *links_at_ms) return;
    *links_at_ms = now_ms + LINK_TICK_MS;
    for (struct swarm_link *link = swarm->links, *next; link; link = next) {
        next = link->next; // a tick ends its own link at most
        swarm_link_tick(link, now_ms);
    }
}

static void run(struct swarm *swarm)
{
    struct strbuf input;
    uint64_t tick_at_ms = 0, links_at_ms = 0;
    bool going = true;
    strbuf_init(&input, 64 * 1024);
    while (going) {
        struct epoll_event events[EVENTS_MAX];
        int count = epoll_wait(swarm->epoll, events, EVENTS_MAX, TICK_MS);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                swarm_link_on_events(events[i].data.ptr, events[i].events);
            else
                going = read_commands(swarm, &input);
        }
        uint64_t now_ms = clock_mono_ms();
        if (now_ms >= tick_at_ms) {
            tick(swarm, now_ms, &links_at_ms);
            tick_at_ms = now_ms + TICK_MS;
        }
        free_ended(swarm);
    }
    strbuf_finish(&input);
}

// ---- start -------------------------------------------------------------------------------------------------------

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "culvert-agent-swarm: %s: %s\n", what, detail);
    exit(1);
}

static void load_agents(struct swarm *swarm, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[512], account[ID_ACCOUNT_BYTES], runtime[64], token[TOKEN_TEXT_BYTES];
    size_t cap = 0;
    if (!file) die(path, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        if (swarm->agent_count == cap) {
            cap = cap ? cap * 2 : 1024;
            if (cap > AGENTS_MAX) die(path, "too many agents");
            swarm->agents = mem_realloc(swarm->agents, cap * sizeof(*swarm->agents));
        }
        struct swarm_agent *agent = &swarm->agents[swarm->agent_count];
        memset(agent, 0, sizeof(*agent));
        struct error err = {0};
        if (sscanf(line, "%24s %63s %89s", account, runtime, token) != 3 ||
            token_parse(str_c(token), &agent->token, &err))
            die(path, err.text[0] ? err.text : "a line is not ACCOUNT RUNTIME TOKEN");
        snprintf(agent->account_id, sizeof(agent->account_id), "%s", account);
        snprintf(agent->runtime, sizeof(agent->runtime), "%s", runtime);
        snprintf(agent->token_text, sizeof(agent->token_text), "%s", token);
        swarm->agent_count++;
    }
    fclose(file);
    for (size_t i = 0; i < swarm->agent_count; i++)
        swarm_agent_init(&swarm->agents[i], swarm);
}

static void set_platform(struct swarm *swarm, const char *text, const char *name)
{
    struct str host;
    uint16_t port = 0;
    char address[64];
    struct error err = {0};
    if (parse_address(str_c(text), &host, &port, &err)) die(text, err.text);
    snprintf(address, sizeof(address), "%.*s", STR_ARG(host));
    swarm->platform = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, address, &swarm->platform.sin_addr) != 1) die(text, "is no IPv4 address and port");
    snprintf(swarm->name, sizeof(swarm->name), "%s", name);
    snprintf(swarm->host, sizeof(swarm->host), "%s:%u", name, port);
}

static void set_tls(struct swarm *swarm, const char *ca_file)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    swarm->tls = SSL_CTX_new(TLS_client_method());
    if (!swarm->tls || SSL_CTX_load_verify_file(swarm->tls, ca_file) != 1) die(ca_file, "no CA certificates");
    SSL_CTX_set_min_proto_version(swarm->tls, TLS1_2_VERSION);
    SSL_CTX_set_verify(swarm->tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(swarm->tls,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(swarm->tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(swarm->tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(swarm->tls, swarm_link_on_tls_session);
    SSL_CTX_set_alpn_protos(swarm->tls, alpn, sizeof(alpn) - 1);
}

static void set_up(struct swarm *swarm)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    ws_frame_masks_init(&swarm->masks);
    swarm->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (swarm->epoll < 0 || epoll_ctl(swarm->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event)) die("epoll", strerror(errno));
    if (nghttp2_hd_inflate_new(&swarm->inflater) || nghttp2_hd_inflate_change_table_size(swarm->inflater, 0))
        die("HPACK", "out of memory");
    mark(swarm);
}

static void finish(struct swarm *swarm)
{
    while (swarm->links)
        swarm_link_end(swarm->links, NULL);
    free_ended(swarm);
    for (size_t i = 0; i < swarm->agent_count; i++)
        SSL_SESSION_free(swarm->agents[i].tls_session);
    nghttp2_hd_inflate_del(swarm->inflater);
    SSL_CTX_free(swarm->tls);
    close(swarm->epoll);
    mem_free(swarm->waits_ms);
    mem_free_secret(swarm->agents, swarm->agent_count * sizeof(*swarm->agents));
    mem_free(swarm);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"platform", required_argument, NULL, 'p'},
        {"name", required_argument, NULL, 'n'},
        {"ca", required_argument, NULL, 'c'},
        {"agents", required_argument, NULL, 'a'},
        {"sources", required_argument, NULL, 's'},
        {"report-every", required_argument, NULL, 'r'},
        {0},
    };
    const char *platform = NULL, *name = NULL, *ca = NULL, *agents = NULL;
    uint64_t sources = SOURCES_DEFAULT, report_every_ms = 0;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        enum error_code code = ERROR_NONE;
        switch (option) {
        case 'p': platform = optarg; break;
        case 'n': name = optarg; break;
        case 'c': ca = optarg; break;
        case 'a': agents = optarg; break;
        case 's': code = parse_u64(str_c(optarg), 1, 200, &sources, NULL); break;
        case 'r': code = parse_u64(str_c(optarg), 0, 86400000, &report_every_ms, NULL); break;
        default: return 2;
        }
        if (code) die(optarg, "is not a number in range");
    }
    if (!platform || !name || !ca || !agents) die("usage", "--platform, --name, --ca and --agents are needed");
    struct swarm *swarm = mem_zalloc(sizeof(*swarm));
    swarm->first_source = 2;
    swarm->source_count = (unsigned)sources;
    swarm->report_every_ms = report_every_ms;
    set_platform(swarm, platform, name);
    set_tls(swarm, ca);
    load_agents(swarm, agents);
    set_up(swarm);
    printf("{\"ready\":true,\"agents\":%zu}\n", swarm->agent_count);
    fflush(stdout);
    run(swarm);
    finish(swarm);
    return 0;
}
