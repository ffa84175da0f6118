#include "agent/logs/log_query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"

enum { VALUE_BYTES_MAX = 512, PARAMETERS_MAX = 64 };

static const struct log_kind kinds[] = {
    {"Pod", "", "/api/v1", "pods"},
    {"ReplicationController", "", "/api/v1", "replicationcontrollers"},
    {"Deployment", "apps", "/apis/apps/v1", "deployments"},
    {"StatefulSet", "apps", "/apis/apps/v1", "statefulsets"},
    {"DaemonSet", "apps", "/apis/apps/v1", "daemonsets"},
    {"ReplicaSet", "apps", "/apis/apps/v1", "replicasets"},
    {"Job", "batch", "/apis/batch/v1", "jobs"},
    {"Rollout", "argoproj.io", "/apis/argoproj.io/v1alpha1", "rollouts"},
    {"Application", "argoproj.io", "/apis/argoproj.io/v1alpha1", "applications"},
};

const struct log_kind *log_kind_find(struct str group, struct str name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_eq(name, str_c(kinds[i].name)) && str_eq(group, str_c(kinds[i].group))) return &kinds[i];
    return NULL;
}

// ---- one parameter ------------------------------------------------------------------------------

// application/x-www-form-urlencoded
static enum error_code decode(struct str text, char out[VALUE_BYTES_MAX], struct str *out_value, struct error *err)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i] == '+' ? ' ' : text.at[i];
        if (c == '%') {
            uint8_t byte;
            if (text.len - i < 3 || parse_hex(str_of(text.at + i + 1, 2), &byte, 1, NULL) != ERROR_NONE)
                return error_set(err, ERROR_INVALID, "incomplete percent escape in the query");
            c = (char)byte;
            i += 2;
        }
        if (c == '\0' || len == VALUE_BYTES_MAX)
            return error_set(err, ERROR_INVALID, "a value of the query has a NUL or more than %d bytes",
                             VALUE_BYTES_MAX);
        out[len++] = c;
    }
    *out_value = str_of(out, len);
    return ERROR_NONE;
}

bool log_name_ok(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        if (!is_plain && (c != '.' || i == 0)) return false;
    }
    return name.len > 0 && name.len < LOG_NAME_BYTES;
}

static enum error_code take_name(const char *parameter, struct str value, char out[LOG_NAME_BYTES], struct error *err)
{
    if (!log_name_ok(value))
        return error_set(err, ERROR_INVALID,
                         "%s: invalid name \"%.*s\", must have 1 to %d lower-case letters, digits, - and .", parameter,
                         STR_ARG(str_first(value, 100)), LOG_NAME_BYTES - 1);
    snprintf(out, LOG_NAME_BYTES, "%.*s", STR_ARG(value));
    return ERROR_NONE;
}

static enum error_code take_container(struct log_query *query, struct str value, struct error *err)
{
    if (query->container_count == LOG_CONTAINERS_MAX)
        return error_set(err, ERROR_INVALID, "container: given more than %d times", LOG_CONTAINERS_MAX);
    return take_name("container", value, query->containers[query->container_count++], err);
}

static enum error_code take_number(const char *parameter, struct str value, int64_t min, int64_t *out,
                                   struct error *err)
{
    if (parse_i64(value, min, INT32_MAX, out, NULL) == ERROR_NONE) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s: \"%.*s\", must be a number between %" PRIi64 " and %d", parameter,
                     STR_ARG(str_first(value, 40)), min, INT32_MAX);
}

static enum error_code take_flag(const char *parameter, struct str value, bool *out, struct error *err)
{
    if (parse_bool(value, out, NULL) == ERROR_NONE) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s: \"%.*s\", must be true or false", parameter,
                     STR_ARG(str_first(value, 40)));
}

static enum error_code take_time(struct str value, char out[LOG_TIME_BYTES], struct error *err)
{
    int64_t any_ms;
    if (value.len >= LOG_TIME_BYTES || clock_parse_rfc3339(value, &any_ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "sinceTime: \"%.*s\", must be a time as 2026-01-31T12:00:00Z (RFC 3339)",
                         STR_ARG(str_first(value, 40)));
    snprintf(out, LOG_TIME_BYTES, "%.*s", STR_ARG(value));
    return ERROR_NONE;
}

// The kind is looked up once group and name of it are known.
struct kind_text {
    char name[LOG_NAME_BYTES], group[LOG_NAME_BYTES];
    bool has_group;
};

static enum error_code take_kind(struct str value, char out[LOG_NAME_BYTES], struct error *err)
{
    if (value.len >= LOG_NAME_BYTES) return error_set(err, ERROR_INVALID, "kind, group: longer than 253 bytes");
    snprintf(out, LOG_NAME_BYTES, "%.*s", STR_ARG(value));
    return ERROR_NONE;
}

static enum error_code take(struct log_query *query, struct kind_text *kind, struct str name, struct str value,
                            struct error *err)
{
    bool is_name = str_eq(name, STR("name")) || str_eq(name, STR("podName")) || str_eq(name, STR("resourceName"));
    if (str_eq(name, STR("namespace"))) return take_name("namespace", value, query->ns, err);
    if (is_name) return take_name("name", value, query->name, err);
    if (str_eq(name, STR("kind"))) return take_kind(value, kind->name, err);
    if (str_eq(name, STR("group"))) {
        kind->has_group = true;
        return take_kind(value, kind->group, err);
    }
    if (str_eq(name, STR("container"))) return value.len ? take_container(query, value, err) : ERROR_NONE;
    if (str_eq(name, STR("follow"))) return take_flag("follow", value, &query->follow, err);
    if (str_eq(name, STR("previous"))) return take_flag("previous", value, &query->previous, err);
    if (str_eq(name, STR("timestamps"))) return take_flag("timestamps", value, &query->timestamps, err);
    if (str_eq(name, STR("sinceSeconds"))) return take_number("sinceSeconds", value, 1, &query->since_seconds, err);
    if (str_eq(name, STR("tailLines"))) return take_number("tailLines", value, 0, &query->tail_lines, err);
    if (str_eq(name, STR("limitBytes"))) return take_number("limitBytes", value, 1, &query->limit_bytes, err);
    if (str_eq(name, STR("sinceTime"))) return take_time(value, query->since_time, err);
    return error_set(err, ERROR_INVALID,
                     "unknown parameter \"%.*s\", must be one of namespace, kind, group, name, container, follow, "
                     "previous, timestamps, sinceSeconds, sinceTime, tailLines, limitBytes",
                     STR_ARG(str_first(name, 60)));
}

// ---- the whole ----------------------------------------------------------------------------------

static enum error_code find_kind(const struct kind_text *text, const struct log_kind **out, struct error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool is_group = !text->has_group || strcmp(text->group, kinds[i].group) == 0;
        if (!is_group || strcmp(text->name, kinds[i].name) != 0) continue;
        *out = &kinds[i];
        return ERROR_NONE;
    }
    return error_set(err, ERROR_INVALID,
                     "kind: no logs of \"%.60s\" of group \"%.60s\", must be Pod, Deployment, StatefulSet, DaemonSet, "
                     "ReplicaSet, ReplicationController, Job, Rollout or Application",
                     text->name, text->group);
}

static enum error_code check(const struct log_query *query, struct error *err)
{
    if (!query->ns[0] || !query->name[0])
        return error_set(err, ERROR_INVALID, "namespace and name: both are needed, of the pod or of what has the pods");
    if (query->since_seconds >= 0 && query->since_time[0])
        return error_set(err, ERROR_INVALID, "sinceSeconds and sinceTime: only one of them may be given");
    if (query->follow && query->previous)
        return error_set(err, ERROR_INVALID, "follow and previous: what has ended cannot be followed");
    if (query->follow && query->limit_bytes >= 0)
        return error_set(err, ERROR_INVALID, "follow and limitBytes: a log that is followed has no last byte");
    return ERROR_NONE;
}

enum error_code log_query_parse(struct str text, struct log_query *out, struct error *err)
{
    struct kind_text kind = {.name = "Pod"};
    *out = (struct log_query){.since_seconds = -1, .tail_lines = -1, .limit_bytes = -1};
    bool more = text.len > 0;
    for (int count = 0; more; count++) {
        struct str pair, name, value, decoded;
        char bytes[VALUE_BYTES_MAX];
        if (count == PARAMETERS_MAX) return error_set(err, ERROR_INVALID, "more than %d parameters", PARAMETERS_MAX);
        more = str_cut(&text, '&', &pair);
        if (!pair.len) continue;
        value = pair;
        if (!str_cut(&value, '=', &name)) value = STR_EMPTY;
        enum error_code code = decode(value, bytes, &decoded, err);
        if (code == ERROR_NONE) code = take(out, &kind, name, decoded, err);
        if (code != ERROR_NONE) return code;
    }
    enum error_code code = find_kind(&kind, &out->kind, err);
    return code == ERROR_NONE ? check(out, err) : code;
}

bool log_query_wants(const struct log_query *query, struct str container)
{
    for (size_t i = 0; i < query->container_count; i++)
        if (str_eq(container, str_c(query->containers[i]))) return true;
    return query->container_count == 0;
}

// A time of RFC 3339 in a query: "+" and ":" are the bytes that need an escape or may have one.
static void add_time(struct str time, struct strbuf *out)
{
    strbuf_add_c(out, "&sinceTime=");
    for (size_t i = 0; i < time.len; i++)
        if (time.at[i] == '+')
            strbuf_add_c(out, "%2B");
        else
            strbuf_add_byte(out, time.at[i]);
}

void log_query_add_path(const struct log_query *query, struct str ns, struct str pod, struct str container,
                        const char *since, struct strbuf *out)
{
    strbuf_addf(out, "/api/v1/namespaces/%.*s/pods/%.*s/log?container=%.*s&timestamps=true", STR_ARG(ns), STR_ARG(pod),
                STR_ARG(container));
    if (query->follow) strbuf_add_c(out, "&follow=true");
    if (query->previous) strbuf_add_c(out, "&previous=true");
    if (query->limit_bytes >= 0) strbuf_addf(out, "&limitBytes=%" PRIi64, query->limit_bytes);
    if (since) {
        if (*since) add_time(str_c(since), out);
        return;
    }
    if (query->tail_lines >= 0) strbuf_addf(out, "&tailLines=%" PRIi64, query->tail_lines);
    if (query->since_seconds >= 0) strbuf_addf(out, "&sinceSeconds=%" PRIi64, query->since_seconds);
    if (query->since_time[0]) add_time(str_c(query->since_time), out);
}
