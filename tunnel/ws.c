#include "tunnel/ws.h"

#include <assert.h>
#include <libwebsockets.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/listener.h"
#include "base/log.h"
#include "base/mem.h"
#include "tunnel/wire/handshake.h"

enum {
    WS_READ_BYTES = 4096,            // receive buffer a connection: it is there even while the tunnel is idle
    WS_SERVICE_BYTES = 32 * 1024,    // a context's, for reading
    WS_SEND_BYTES = 4 * 1024 * 1024, // kernel's send buffer, cut by it to net.core.wmem_max
    WS_HEAD_BYTES_MAX = 8192,
    WS_HEAD_TEXTS = 16, // headers that are looked at
    WS_HANDSHAKE_S = 10,
    WS_CLOSE_S = 3,
    WS_END_TURNS = 4,
    WS_FD_DIRECT_MAX = 128 * 1024,
};

struct tunnel_ws_server {
    struct tunnel_ws_options options;
    struct lws_context *context;
    struct lws_vhost *vhost;
    SSL_CTX *tls;        // the vhost's
    SSL_CTX *client_tls; // of no use, but given one the library does not make (and leak) its own
    struct lws_protocols protocols[3];
    struct error tls_error;
    unsigned connections; // adopted and not yet destroyed
    unsigned handshakes;  // of them, not yet established
    uint8_t out[LWS_PRE + TUNNEL_WS_WRITE_BYTES];
    uv_loop_t *loop;
    uv_idle_t end; // turns the loop until the context is gone
    unsigned end_turns;
    void (*on_done)(void *arg);
    void *arg;
};

struct tunnel_ws {
    struct tunnel_ws_server *server;
    struct lws *wsi;
    void *user;
    bool accepted;    // 101 was decided
    bool established; // on_open was called
    bool closing;
    bool writing; // inside on_writable
    bool write_wanted;
    uint16_t close_status;
    char remote[LISTENER_REMOTE_BYTES];
};

static void ws_log_line(int level, const char *line)
{
    size_t len = strlen(line);
    while (len && (line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    (void)level;
    // Peers can provoke any of these, so that they are no warnings.
    log_debug("tunnel", "websocket_library", log_str("text", str_of(line, len)));
}

void tunnel_ws_init_library(void)
{
    // Off unless somebody wants to read them: each line costs the library a local time stamp.
    lws_set_log_level(log_wants(LOG_DEBUG) ? LLL_ERR | LLL_WARN : 0, ws_log_line);
}

// ---- TLS -----------------------------------------------------------------------------------------------------

static enum error_code ws_tls_error(struct error *err, const char *what, const char *file)
{
    char text[160] = "unknown";
    unsigned long code = ERR_get_error();
    if (code) ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, "%s %s: %s", what, file, text);
}

static enum error_code ws_tls_load(SSL_CTX *tls, const struct tunnel_ws_options *options, struct error *err)
{
    if (SSL_CTX_use_certificate_chain_file(tls, options->tls_certificate_file) != 1)
        return ws_tls_error(err, "TLS certificate", options->tls_certificate_file);
    if (SSL_CTX_use_PrivateKey_file(tls, options->tls_key_file, SSL_FILETYPE_PEM) != 1)
        return ws_tls_error(err, "TLS key", options->tls_key_file);
    if (SSL_CTX_check_private_key(tls) != 1) return ws_tls_error(err, "TLS key does not fit", options->tls_key_file);
    return ERROR_NONE;
}

static enum error_code ws_tls_configure(SSL_CTX *tls, const struct tunnel_ws_options *options, struct error *err)
{
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS); // half of what an idle tunnel would cost
    return ws_tls_load(tls, options, err);
}

enum error_code tunnel_ws_server_reload_tls(struct tunnel_ws_server *server, struct error *err)
{
    // First on a scratch context: a broken pair of files must not reach the one that serves.
    SSL_CTX *scratch = SSL_CTX_new(TLS_server_method());
    if (!scratch) return error_set(err, ERROR_INTERNAL, "no TLS context");
    enum error_code code = ws_tls_configure(scratch, &server->options, err);
    SSL_CTX_free(scratch);
    if (code) return code;
    return ws_tls_load(server->tls, &server->options, err);
}

// ---- the handshake -------------------------------------------------------------------------------------------

struct ws_head {
    struct tunnel_upgrade upgrade;
    char text[WS_HEAD_TEXTS][UPGRADE_HEADER_BYTES_MAX + 1];
    unsigned used;
};

static char *ws_head_text(struct ws_head *head)
{
    assert(head->used < WS_HEAD_TEXTS);
    return head->text[head->used++];
}

static struct str ws_head_token(struct ws_head *head, struct lws *wsi, enum lws_token_indexes token)
{
    int len = lws_hdr_total_length(wsi, token);
    if (len <= 0) return STR_EMPTY;
    bool is_line = token == WSI_TOKEN_GET_URI || token == WSI_TOKEN_HTTP_URI_ARGS;
    if (!is_line && lws_hdr_fragment_length(wsi, token, 1) > 0) head->upgrade.repeated = true;
    char *text = ws_head_text(head);
    if (len > UPGRADE_HEADER_BYTES_MAX || lws_hdr_copy(wsi, text, UPGRADE_HEADER_BYTES_MAX + 1, token) < 0) {
        head->upgrade.too_long = true;
        return STR_EMPTY;
    }
    return str_c(text);
}

static struct str ws_head_custom(struct ws_head *head, struct lws *wsi, const char *name_with_colon)
{
    int name_len = (int)strlen(name_with_colon);
    int len = lws_hdr_custom_length(wsi, name_with_colon, name_len);
    if (len <= 0) return STR_EMPTY;
    char *text = ws_head_text(head);
    if (len > UPGRADE_HEADER_BYTES_MAX ||
        lws_hdr_custom_copy(wsi, text, UPGRADE_HEADER_BYTES_MAX + 1, name_with_colon, name_len) < 0) {
        head->upgrade.too_long = true;
        return STR_EMPTY;
    }
    text[len] = '\0';
    return str_trim(str_c(text));
}

static void ws_head_read(struct ws_head *head, struct lws *wsi, const char *remote)
{
    memset(head, 0, sizeof(*head));
    struct tunnel_upgrade *u = &head->upgrade;
    char version[16];
    u->remote = remote;
    u->is_get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0;
    u->http_1_1 = lws_hdr_copy(wsi, version, sizeof(version), WSI_TOKEN_HTTP) > 0 && !strcmp(version, "HTTP/1.1");
    u->has_origin =
        lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) > 0 || lws_hdr_total_length(wsi, WSI_TOKEN_SWORIGIN) > 0;
    u->has_body = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) > 0 ||
                  lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0;
    u->path = ws_head_token(head, wsi, WSI_TOKEN_GET_URI);
    u->query = ws_head_token(head, wsi, WSI_TOKEN_HTTP_URI_ARGS);
    u->host = ws_head_token(head, wsi, WSI_TOKEN_HOST);
    u->upgrade = ws_head_token(head, wsi, WSI_TOKEN_UPGRADE);
    u->connection = ws_head_token(head, wsi, WSI_TOKEN_CONNECTION);
    u->websocket_version = ws_head_token(head, wsi, WSI_TOKEN_VERSION);
    u->websocket_key = ws_head_token(head, wsi, WSI_TOKEN_KEY);
    u->subprotocols = ws_head_token(head, wsi, WSI_TOKEN_PROTOCOL);
    u->authorization = ws_head_token(head, wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
    u->instance_id = ws_head_custom(head, wsi, WIRE_HEADER_INSTANCE_ID ":");
    u->boot_id = ws_head_custom(head, wsi, WIRE_HEADER_BOOT_ID ":");
    u->agent_version = ws_head_custom(head, wsi, WIRE_HEADER_AGENT_VERSION ":");
    u->runtime = ws_head_custom(head, wsi, WIRE_HEADER_RUNTIME ":");
}

static void ws_answer(struct tunnel_ws *ws, int status, unsigned retry_after_s, const struct error *err)
{
    struct strbuf answer;
    strbuf_init(&answer, LWS_PRE + UPGRADE_ANSWER_BYTES_MAX);
    if (strbuf_reserve(&answer, LWS_PRE)) {
        memset(answer.at, 0, LWS_PRE);
        strbuf_commit(&answer, LWS_PRE);
    }
    tunnel_upgrade_answer(status, retry_after_s, err, &answer);
    if (!answer.overflow)
        (void)lws_write(ws->wsi, (unsigned char *)answer.at + LWS_PRE, answer.len - LWS_PRE, LWS_WRITE_HTTP_HEADERS);
    strbuf_finish(&answer);
    log_info("tunnel", "handshake_refused", log_c("remote", ws->remote), log_int("status", status), log_err(err));
}

// 0: go on with 101. Else the connection is to be closed; the answer was written.
static int ws_on_request(struct tunnel_ws *ws)
{
    struct ws_head head;
    struct error err = {0};
    unsigned retry_after_s = 1;
    ws_head_read(&head, ws->wsi, ws->remote);
    struct tunnel_ws_options *options = &ws->server->options;
    int status = options->on_upgrade(options->ctx, &head.upgrade, &ws->user, &retry_after_s, &err);
    explicit_bzero(&head, sizeof(head));
    if (status == 101) {
        ws->accepted = true;
        return 0;
    }
    ws_answer(ws, status, retry_after_s, &err);
    return -1;
}

// ---- a connection --------------------------------------------------------------------------------------------

static void ws_widen_send_buffer(struct lws *wsi)
{
    // The library has just cut it down to the receive buffer's size, which would cap a tunnel at 8 KiB a round trip.
    int bytes = WS_SEND_BYTES;
    (void)setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static int ws_on_established(struct tunnel_ws *ws)
{
    if (!ws->accepted) return -1;
    ws_widen_send_buffer(ws->wsi);
    ws->established = true;
    ws->server->handshakes--;
    void *user = ws->user;
    ws->user = NULL;
    ws->server->options.on_open(ws->server->options.ctx, user, ws);
    ws->server->options.on_room(ws->server->options.ctx);
    return 0;
}

static int ws_on_writable(struct tunnel_ws *ws)
{
    struct tunnel_ws_server *server = ws->server;
    ws->write_wanted = false;
    if (lws_partial_buffered(ws->wsi)) return 0; // the library flushes that first and asks again
    size_t len = 0;
    if (ws->user) {
        ws->writing = true;
        len = server->options.on_writable(ws->user, server->out + LWS_PRE, TUNNEL_WS_WRITE_BYTES);
        ws->writing = false;
    }
    if (len == 0) {
        if (!ws->closing) return 0;
        lws_close_reason(ws->wsi, (enum lws_close_status)ws->close_status, NULL, 0);
        return -1;
    }
    if (lws_write(ws->wsi, server->out + LWS_PRE, len, LWS_WRITE_BINARY) < (int)len) return -1;
    tunnel_ws_want_write(ws); // there may be more; on_writable says 0 when not
    return 0;
}

static void ws_on_closed(struct tunnel_ws *ws)
{
    void *user = ws->user;
    ws->user = NULL;
    if (!ws->established || !user) return;
    ws->server->options.on_closed(user);
}

static void ws_on_destroyed(struct tunnel_ws *ws)
{
    struct tunnel_ws_server *server = ws->server;
    if (ws->established)
        ws_on_closed(ws);
    else if (ws->accepted && ws->user)
        server->options.on_abandoned(server->options.ctx, ws->user);
    server->connections--;
    if (!ws->established) server->handshakes--;
    mem_free(ws);
    if (!server->on_done) server->options.on_room(server->options.ctx);
}

static int ws_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    (void)user;
    if (reason == LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS) {
        // `user` is the vhost's SSL_CTX, `in` the vhost; there is no connection yet.
        struct tunnel_ws_server *server = lws_get_vhost_user(in);
        server->tls = user;
        return ws_tls_configure(server->tls, &server->options, &server->tls_error) ? 1 : 0;
    }
    struct tunnel_ws *ws = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    switch (reason) {
    case LWS_CALLBACK_FILTER_HTTP_CONNECTION: // no Upgrade at all
    case LWS_CALLBACK_HTTP:
        if (ws) (void)ws_on_request(ws);
        return -1;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        // `in` may dangle (CVE-2025-11677: the library answers an unknown Upgrade itself, drops the headers and still
        // comes here), so that it is never looked at; without headers ws_on_request() refuses.
        return ws ? ws_on_request(ws) : -1;
    case LWS_CALLBACK_RAW_ADOPT: // CONNECT makes the library think of a raw tunnel
    case LWS_CALLBACK_RAW_RX:
    case LWS_CALLBACK_RAW_WRITEABLE:
        if (ws && reason == LWS_CALLBACK_RAW_ADOPT) (void)ws_on_request(ws);
        return -1;
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION: return ws && ws->accepted ? 0 : -1;
    case LWS_CALLBACK_ESTABLISHED: return ws ? ws_on_established(ws) : -1;
    case LWS_CALLBACK_RECEIVE:
        if (!ws || !ws->established || !lws_frame_is_binary(wsi)) return -1;
        if (ws->user && len) ws->server->options.on_bytes(ws->user, in, len);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE: return ws && ws->established ? ws_on_writable(ws) : -1;
    case LWS_CALLBACK_CLOSED:
        if (ws) ws_on_closed(ws);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (ws) {
            lws_set_opaque_user_data(wsi, NULL);
            ws_on_destroyed(ws);
        }
        return 0;
    default: return 0;
    }
}

void tunnel_ws_set_user(struct tunnel_ws *ws, void *user)
{
    ws->user = user;
}

const char *tunnel_ws_remote(const struct tunnel_ws *ws)
{
    return ws->remote;
}

void tunnel_ws_want_write(struct tunnel_ws *ws)
{
    if (ws->write_wanted || ws->writing) return; // one lws_write a WRITEABLE, which asks again by itself
    ws->write_wanted = true;
    lws_callback_on_writable(ws->wsi);
}

void tunnel_ws_close(struct tunnel_ws *ws, uint16_t status, bool now)
{
    if (now) {
        lws_set_timeout(ws->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
        ws->closing = true;
        return;
    }
    if (ws->closing) return;
    ws->closing = true;
    ws->close_status = status;
    // Should the socket never become writable, this ends it.
    lws_set_timeout(ws->wsi, PENDING_TIMEOUT_CLOSE_SEND, WS_CLOSE_S);
    tunnel_ws_want_write(ws);
}

// ---- the server ----------------------------------------------------------------------------------------------

// The library finds a connection by its descriptor in a table as long as the limit of descriptors, or, when it is told
// a smaller limit, by walking a list. So: the process's own limit where that table is small, else what is needed.
static unsigned ws_fd_limit(const struct tunnel_ws_options *options)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= WS_FD_DIRECT_MAX) return (unsigned)limit.rlim_cur;
    return options->connections_max + options->handshakes_max + 16;
}

static struct lws_vhost *ws_create_vhost(struct tunnel_ws_server *server)
{
    static const lws_retry_bo_t no_pings = {0}; // liveness is HTTP/2's PING, in tunnel/session.c
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = server->protocols,
        .options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX |
                   LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS,
        .user = server,
        .vhost_name = "tunnel",
        .alpn = "http/1.1", // never h2: tunnels are HTTP/1.1 upgrades
        .keepalive_timeout = 1,
        .timeout_secs = WS_HANDSHAKE_S,
        .timeout_secs_ah_idle = WS_HANDSHAKE_S,
        .retry_and_idle_policy = &no_pings,
        .provided_client_ssl_ctx = server->client_tls,
    };
    return lws_create_vhost(server->context, &info);
}

static struct lws_context *ws_create_context(struct tunnel_ws_server *server, uv_loop_t *loop)
{
    void *loops[1] = {loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT |
                   LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME | LWS_SERVER_OPTION_UV_NO_SIGSEGV_SIGFPE_SPIN,
        .foreign_loops = loops,
        .gid = -1,
        .uid = -1,
        .count_threads = 1,
        .fd_limit_per_thread = ws_fd_limit(&server->options),
        .pt_serv_buf_size = WS_SERVICE_BYTES,
        .max_http_header_data = WS_HEAD_BYTES_MAX,
        .server_string = "culvert",
    };
    return lws_create_context(&info);
}

enum error_code tunnel_ws_server_create(uv_loop_t *loop, const struct tunnel_ws_options *options,
                                        struct tunnel_ws_server **out, struct error *err)
{
    if (!options->tls_certificate_file || !options->tls_key_file)
        return error_set(err, ERROR_INVALID, "the tunnel door needs a TLS certificate and its key");
    struct tunnel_ws_server *server = mem_zalloc(sizeof(*server));
    server->options = *options;
    server->loop = loop;
    server->protocols[0] =
        (struct lws_protocols){.name = "http", .callback = ws_callback, .rx_buffer_size = WS_READ_BYTES};
    server->protocols[1] = (struct lws_protocols){
        .name = WIRE_TUNNEL_SUBPROTOCOL, .callback = ws_callback, .rx_buffer_size = WS_READ_BYTES};
    server->context = ws_create_context(server, loop);
    if (!server->context) {
        mem_free(server);
        return error_set(err, ERROR_INTERNAL, "libwebsockets gives no context (is its libuv plugin installed?)");
    }
    server->client_tls = SSL_CTX_new(TLS_client_method());
    server->vhost = ws_create_vhost(server);
    if (!server->vhost || server->tls_error.code) {
        enum error_code code = server->tls_error.code ? server->tls_error.code : ERROR_INTERNAL;
        (void)error_set(err, code, "%s",
                        server->tls_error.code ? server->tls_error.text : "libwebsockets gives no vhost");
        tunnel_ws_server_destroy(server, NULL, NULL);
        return code;
    }
    *out = server;
    return ERROR_NONE;
}

static void ws_on_end_closed(uv_handle_t *handle)
{
    struct tunnel_ws_server *server = handle->data;
    void (*on_done)(void *arg) = server->on_done;
    void *arg = server->arg;
    SSL_CTX_free(server->client_tls);
    mem_free(server);
    on_done(arg);
}

// On a foreign loop the library wants a second call for the rest, after its handles are closed, which takes libuv a
// turn; it cannot be asked whether they are.
static void ws_on_end_turn(uv_idle_t *idle)
{
    struct tunnel_ws_server *server = idle->data;
    if (server->connections || ++server->end_turns < WS_END_TURNS) return;
    lws_context_destroy(server->context);
    uv_close((uv_handle_t *)idle, ws_on_end_closed);
}

static void ws_ignore_done(void *arg)
{
    (void)arg;
}

void tunnel_ws_server_destroy(struct tunnel_ws_server *server, void (*on_done)(void *arg), void *arg)
{
    server->on_done = on_done ? on_done : ws_ignore_done;
    server->arg = arg;
    uv_idle_init(server->loop, &server->end);
    server->end.data = server;
    uv_idle_start(&server->end, ws_on_end_turn);
    lws_context_destroy(server->context);
}

bool tunnel_ws_server_has_room(const struct tunnel_ws_server *server)
{
    return server->handshakes < server->options.handshakes_max &&
           server->connections - server->handshakes < server->options.connections_max + server->options.handshakes_max;
}

void tunnel_ws_server_adopt(struct tunnel_ws_server *server, int fd, const char *remote)
{
    lws_sock_file_fd_type descriptor = {.sockfd = fd};
    struct lws *wsi = lws_adopt_descriptor_vhost(server->vhost, LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | LWS_ADOPT_ALLOW_SSL,
                                                 descriptor, NULL, NULL);
    if (!wsi) return; // closed by the library
    struct tunnel_ws *ws = mem_zalloc(sizeof(*ws));
    ws->server = server;
    ws->wsi = wsi;
    snprintf(ws->remote, sizeof(ws->remote), "%s", remote);
    lws_set_opaque_user_data(wsi, ws);
    server->connections++;
    server->handshakes++;
}
