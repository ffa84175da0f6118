// Addresses of RabbitMQ: what is taken has hosts with ports, and no error text shows a part of the
// credential.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "server/bus/amqp_address.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct amqp_address address;
    struct error err = {0};
    if (len > 4096) return 0;
    AUTO_FREE char *url = mem_strndup((const char *)at, len);
    if (strlen(url) != len) return 0; // a setting has no NUL
    if (amqp_address_init(&address, url, NULL, len % 2, &err) != ERROR_NONE) {
        assert(err.text[0] != '\0' && !strstr(err.text, "hunter2"));
        return 0;
    }
    assert(address.host_count > 0 && address.host_count <= AMQP_ADDRESS_HOSTS_MAX);
    for (size_t i = 0; i < address.host_count; i++)
        assert(address.hosts[i].name[0] != '\0' && address.hosts[i].port != 0);
    assert(address.user[0] && address.password[0] && address.vhost);
    amqp_address_finish(&address);
    return 0;
}
