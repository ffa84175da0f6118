#include "server/tunnel_table.h"

#include <stdio.h>

#include "base/json/json.h"

static void write_bytes(char *out, size_t size, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(out, size, "%.*f %s", unit ? 1 : 0, value, units[unit]);
}

static void print_row(const json_t *node)
{
    char rtt[32] = "-", streams[24] = "-", in[32] = "-", out[32] = "-";
    if (json_is_integer(json_object_get(node, "rttUs"))) { // else nothing was measured yet
        snprintf(rtt, sizeof rtt, "%.1f ms", (double)json_get_int(node, "rttUs", 0) / 1e3);
        snprintf(streams, sizeof streams, "%lld", (long long)json_get_int(node, "streams", 0));
        write_bytes(in, sizeof in, json_get_int(node, "bytesIn", 0));
        write_bytes(out, sizeof out, json_get_int(node, "bytesOut", 0));
    }
    printf("%-24.*s  %-20.*s  %-16.*s %7lld  %-10.*s  %-24.*s %9s %8s %11s %11s  %.*s\n",
           STR_ARG(json_get_str(node, "account")), STR_ARG(json_get_str(node, "runtime")),
           STR_ARG(json_get_str(node, "replica")), (long long)json_get_int(node, "epoch", 0),
           STR_ARG(json_get_str(node, "state")), STR_ARG(json_get_str(node, "since")), rtt, streams, in, out,
           STR_ARG(json_get_str(node, "version")));
}

enum error_code tunnel_table_print(struct str nodes, struct error *err)
{
    const struct json_limits limits = {
        .bytes_max = 64 * 1024 * 1024, .depth_max = 4, .tokens_max = (size_t)TUNNEL_TABLE_ROWS_MAX * 32};
    json_t *list = NULL;
    enum error_code code = json_decode(nodes, &limits, &list, err);
    if (code != ERROR_NONE) return code;
    printf("%-24s  %-20s  %-16s %7s  %-10s  %-24s %9s %8s %11s %11s  %s\n", "ACCOUNT", "RUNTIME", "REPLICA", "EPOCH",
           "STATE", "SINCE", "RTT", "STREAMS", "IN", "OUT", "VERSION");
    for (size_t i = 0; i < json_array_size(list); i++)
        print_row(json_array_get(list, i));
    json_decref(list);
    return ERROR_NONE;
}
