// amqp_address: where RabbitMQ is and how to greet it. A value owned by its holder.
#ifndef CULVERT_SERVER_BUS_AMQP_ADDRESS_H
#define CULVERT_SERVER_BUS_AMQP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { AMQP_ADDRESS_HOSTS_MAX = 9 };

struct amqp_address {
    bool tls;
    struct {
        char *name;
        uint16_t port;
    } hosts[AMQP_ADDRESS_HOSTS_MAX]; // nodes of one cluster
    size_t host_count;
    char *user, *password;
    char *vhost; // "/" by default
};

// url: amqp[s]://[user[:password]@]host[:port][,host[:port]...][/vhost]; user, password and vhost
// may be percent-encoded. password_file ("" or NULL: none) wins over the one in the URL; its last
// newline does not count. ERROR_INVALID also: without user and password (there is no default, and
// guest:guest, which everybody knows, is refused); amqp:// to a host other than the loopback unless
// allow_plaintext. Blocking file read: at start. No error text has a part of the credential.
MUST_CHECK enum error_code amqp_address_init(struct amqp_address *out, const char *url, const char *password_file,
                                             bool allow_plaintext, struct error *err);
void amqp_address_finish(struct amqp_address *address);

#endif
