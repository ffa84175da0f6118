#include "server/ingress/ingress_transfer.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct ingress_transfer {
    struct tls_stream_rest rest;
    struct connection_limiter *addresses, *accounts;
    bool counted, patient;
    char account[INGRESS_ACCOUNT_KEY_BYTES];
    char peer[INET6_ADDRSTRLEN];
    char network[INET6_ADDRSTRLEN];
};

// The connection's places in the limiters go along.
static void pack(struct ingress_transfer *transfer, struct ingress_connection *connection)
{
    transfer->addresses = connection->ingress->options.addresses;
    transfer->accounts = connection->ingress->options.accounts;
    transfer->counted = connection->counted;
    transfer->patient = connection->patient;
    memcpy(transfer->account, connection->account, sizeof transfer->account);
    memcpy(transfer->peer, connection->peer, sizeof transfer->peer);
    memcpy(transfer->network, connection->network, sizeof transfer->network);
    connection->counted = false;
    connection->account[0] = '\0';
}

bool ingress_transfer_begin(struct ingress_connection *connection, unsigned loop_index)
{
    struct ingress *ingress = connection->ingress;
    const struct ingress_options *options = &ingress->options;
    struct tls_stream_rest rest;
    bool is_ending =
        connection->state != INGRESS_SERVING || connection->eof || connection->cut_reason || ingress->winding_down;
    if (is_ending || !options->transfer || !options->may_transfer(options->ctx, loop_index) ||
        !tls_stream_take_apart(connection->stream, &rest))
        return false;
    struct ingress_transfer *transfer = mem_alloc(sizeof *transfer);
    *transfer = (struct ingress_transfer){.rest = rest};
    pack(transfer, connection);
    metric_add(ingress->transfers, 1);
    ingress_connection_close(connection);
    options->transfer(options->ctx, loop_index, transfer);
    return true;
}

void ingress_transfer_drop(struct ingress_transfer *transfer)
{
    if (transfer->counted) connection_limiter_leave(transfer->addresses, str_c(transfer->network));
    if (transfer->account[0]) connection_limiter_leave(transfer->accounts, str_c(transfer->account));
    SSL_free(transfer->rest.ssl);
    close(transfer->rest.fd);
    mem_free(transfer);
}

void ingress_take_over(struct ingress *ingress, struct ingress_transfer *transfer)
{
    uv_tcp_t *tcp = ingress->closing ? NULL : tcp_listener_adopt(ingress->listener, transfer->rest.fd);
    if (!tcp) {
        ingress_transfer_drop(transfer);
        return;
    }
    struct ingress_connection *connection = ingress_connection_resume(ingress, tcp, transfer->rest.ssl);
    connection->counted = transfer->counted;
    connection->patient = transfer->patient;
    memcpy(connection->account, transfer->account, sizeof connection->account);
    memcpy(connection->peer, transfer->peer, sizeof connection->peer);
    memcpy(connection->network, transfer->network, sizeof connection->network);
    mem_free(transfer);
    if (ingress->stopped) ingress_connection_stop(connection);
}
