#include "server/bus/amqp_link.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "base/metrics/metrics.h"

enum { FRAME_BYTES_MAX = 128 * 1024, CHANNELS_MAX = 256, RETRY_BASE_MS = 100, RETRY_CAP_MS = 10000 };

void amqp_link_init(struct amqp_link *link, const struct amqp_link_options *options)
{
    *link = (struct amqp_link){.options = *options, .fd = -1};
    pthread_mutex_init(&link->mutex, NULL);
    link->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (link->wake_fd < 0) abort(); // no descriptors at start
    backoff_init(&link->backoff, RETRY_BASE_MS, RETRY_CAP_MS);
    link->connected = metric_with(
        metrics_gauge("culvert_bus_connected", "Connections to RabbitMQ that are open.", "link", NULL), options->name);
    link->dials = metric_with(
        metrics_counter("culvert_bus_dials_total", "Attempts to connect to RabbitMQ.", "link", NULL), options->name);
}

void amqp_link_finish(struct amqp_link *link)
{
    amqp_link_close(link, false);
    close(link->wake_fd);
    pthread_mutex_destroy(&link->mutex);
}

// ---- errors --------------------------------------------------------------------------------------------------------

enum error_code amqp_link_status(int status, const char *what, struct error *err)
{
    if (status == AMQP_STATUS_OK) return ERROR_NONE;
    return error_set(err, ERROR_UNAVAILABLE, "%s: %s", what, amqp_error_string2(status));
}

static enum error_code closed_by_server(const amqp_method_t *method, const char *what, struct error *err)
{
    int status = 0;
    amqp_bytes_t text = amqp_empty_bytes;
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *said = method->decoded;
        status = said->reply_code;
        text = said->reply_text;
    } else if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *said = method->decoded;
        status = said->reply_code;
        text = said->reply_text;
    } else if (method->id == AMQP_BASIC_CANCEL_METHOD) {
        return error_set(err, ERROR_UNAVAILABLE, "%s: a queue was deleted or moved", what);
    }
    return error_set(err, ERROR_UNAVAILABLE, "%s: RabbitMQ answered %d %.*s", what, status, (int)text.len,
                     text.bytes ? (const char *)text.bytes : "");
}

static enum error_code check_reply(amqp_rpc_reply_t reply, const char *what, struct error *err)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return ERROR_NONE;
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) return closed_by_server(&reply.reply, what, err);
    return amqp_link_status(reply.library_error ? reply.library_error : AMQP_STATUS_CONNECTION_CLOSED, what, err);
}

enum error_code amqp_link_check(struct amqp_link *link, const char *what, struct error *err)
{
    return check_reply(amqp_get_rpc_reply(link->connection), what, err);
}

// ---- dialling ------------------------------------------------------------------------------------------------------

static struct timeval to_timeval(uint64_t ms)
{
    return (struct timeval){.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

static amqp_socket_t *make_socket(struct amqp_link *link, struct error *err)
{
    const struct amqp_link_options *options = &link->options;
    amqp_socket_t *socket =
        options->address->tls ? amqp_ssl_socket_new(link->connection) : amqp_tcp_socket_new(link->connection);
    if (!socket) {
        error_set(err, ERROR_INTERNAL, "librabbitmq cannot create a socket");
        return NULL;
    }
    if (!options->address->tls) return socket;
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    int status = amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (status == AMQP_STATUS_OK && options->ca_file[0]) status = amqp_ssl_socket_set_cacert(socket, options->ca_file);
    if (status == AMQP_STATUS_OK && options->certificate_file[0])
        status = amqp_ssl_socket_set_key(socket, options->certificate_file, options->key_file);
    return amqp_link_status(status, "TLS settings", err) == ERROR_NONE ? socket : NULL;
}

static enum error_code log_in(struct amqp_link *link, struct error *err)
{
    char name[160];
    snprintf(name, sizeof name, "culvertd %s %s", link->options.replica, link->options.name);
    amqp_table_entry_t can[] = {
        {amqp_link_bytes("connection.blocked"), {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}},
        {amqp_link_bytes("consumer_cancel_notify"), {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}},
    };
    amqp_table_entry_t entries[] = {
        {amqp_link_bytes("connection_name"), {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_link_bytes(name)}},
        {amqp_link_bytes("capabilities"), {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {2, can}}},
    };
    const amqp_table_t properties = {2, entries};
    const struct amqp_address *address = link->options.address;
    amqp_rpc_reply_t reply = amqp_login_with_properties(link->connection, address->vhost, CHANNELS_MAX, FRAME_BYTES_MAX,
                                                        (int)(link->options.heartbeat_ms / 1000), &properties,
                                                        AMQP_SASL_METHOD_PLAIN, address->user, address->password);
    return check_reply(reply, "login", err);
}

static void publish_fd(struct amqp_link *link, int fd)
{
    pthread_mutex_lock(&link->mutex);
    link->fd = fd;
    pthread_mutex_unlock(&link->mutex);
}

static enum error_code dial(struct amqp_link *link, struct error *err)
{
    const struct amqp_address *address = link->options.address;
    size_t host = (size_t)id_random_below(address->host_count);
    struct timeval timeout = to_timeval(link->options.connect_timeout_ms);
    amqp_set_handshake_timeout(link->connection, &timeout);
    amqp_set_rpc_timeout(link->connection, &timeout);
    amqp_socket_t *socket = make_socket(link, err);
    if (!socket) return err->code;
    int status = amqp_socket_open_noblock(socket, address->hosts[host].name, address->hosts[host].port, &timeout);
    if (status != AMQP_STATUS_OK) return amqp_link_status(status, address->hosts[host].name, err);
    int fd = amqp_get_sockfd(link->connection);
    unsigned patience_ms = (unsigned)(2 * link->options.heartbeat_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    publish_fd(link, fd);
    return log_in(link, err);
}

enum error_code amqp_link_open(struct amqp_link *link, struct error *err)
{
    metric_add(link->dials, 1);
    link->connection = amqp_new_connection();
    if (!link->connection) return error_set(err, ERROR_INTERNAL, "librabbitmq cannot create a connection");
    enum error_code code = dial(link, err);
    if (code != ERROR_NONE) {
        publish_fd(link, -1);
        amqp_destroy_connection(link->connection);
        link->connection = NULL;
        return code;
    }
    metric_move(link->connected, 1);
    return ERROR_NONE;
}

void amqp_link_close(struct amqp_link *link, bool in_order)
{
    if (!link->connection) return;
    if (in_order) amqp_connection_close(link->connection, AMQP_REPLY_SUCCESS);
    publish_fd(link, -1);
    amqp_destroy_connection(link->connection);
    link->connection = NULL;
    metric_move(link->connected, -1);
}

// ---- waiting -------------------------------------------------------------------------------------------------------

static void wait_for(struct amqp_link *link, int fd, uint64_t timeout_ms)
{
    struct pollfd waits[] = {{.fd = link->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(waits, fd >= 0 ? 2 : 1, timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms);
    uint64_t ignored;
    if (waits[0].revents && read(link->wake_fd, &ignored, sizeof ignored) < 0) return; // another thread was awake
}

void amqp_link_back_off(struct amqp_link *link)
{
    wait_for(link, -1, backoff_next_ms(&link->backoff) + 1);
}

void amqp_link_pause(struct amqp_link *link, uint64_t timeout_ms)
{
    wait_for(link, -1, timeout_ms);
}

void amqp_link_wait(struct amqp_link *link, uint64_t timeout_ms)
{
    // Heartbeats are sent and missed inside the calls that read.
    uint64_t most = link->options.heartbeat_ms / 4;
    if (amqp_frames_enqueued(link->connection) || amqp_data_in_buffer(link->connection)) return;
    wait_for(link, amqp_get_sockfd(link->connection), timeout_ms < most ? timeout_ms : most);
}

void amqp_link_wake(struct amqp_link *link)
{
    uint64_t one = 1;
    while (write(link->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void amqp_link_cut(struct amqp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    if (link->fd >= 0) shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&link->mutex);
}

enum error_code amqp_link_next(struct amqp_link *link, amqp_frame_t *out, struct error *err)
{
    struct timeval now = {0};
    int status = amqp_simple_wait_frame_noblock(link->connection, out, &now);
    if (status == AMQP_STATUS_TIMEOUT) {
        amqp_maybe_release_buffers(link->connection);
        return ERROR_AGAIN;
    }
    if (status != AMQP_STATUS_OK) return amqp_link_status(status, "connection", err);
    if (out->frame_type != AMQP_FRAME_METHOD) return ERROR_NONE;
    switch (out->payload.method.id) {
    case AMQP_CONNECTION_CLOSE_METHOD:
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_BASIC_CANCEL_METHOD: return closed_by_server(&out->payload.method, "connection", err);
    default: return ERROR_NONE;
    }
}
