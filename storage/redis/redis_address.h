// redis_address: where Redis is and how to greet it, from redis_options. A value owned by its
// holder.
#ifndef CULVERT_STORAGE_REDIS_REDIS_ADDRESS_H
#define CULVERT_STORAGE_REDIS_REDIS_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct redis_address {
    char *path; // of a unix socket, else NULL
    char *host;
    uint16_t port;
    bool tls;
    char *user;     // of an ACL; NULL: the default one
    char *password; // NULL: none
    unsigned database;
};

// url: redis[s]://[[user]:password@]host[:port][/db] or unix:///path[?db=n]; user and password may
// be percent-encoded. password_file ("" or NULL: none) wins over the one in the URL; its last
// newline does not count. ERROR_INVALID also: a user without a password, and redis:// to a host
// other than the loopback unless allow_plaintext. Blocking file read: at start.
MUST_CHECK enum error_code redis_address_init(struct redis_address *out, const char *url, const char *password_file,
                                              bool allow_plaintext, struct error *err);
void redis_address_finish(struct redis_address *address);

#endif
