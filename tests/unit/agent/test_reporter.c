#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "agent/reports/key_table.h"
#include "agent/reports/reporter.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "tests/unit/agent/fake_api.h"
#include "tunnel/wire/digest.h"
#include "tunnel/wire/report.h"

// A cluster with one application that names a Deployment and a Secret, and the platform at the
// other end.
struct world {
    struct loop *loop;
    struct fake_api api;
    struct reporter *reporter;
    char kubeconfig[64];
    char state_folder[64];
    unsigned deployments, secrets, pods;
    bool application_gone;
    bool version_hangs, unauthorized, read_hangs;
    int read_status;    // of the probe's read; 0: 404
    const char *sought; // in what is reported of the cluster
    bool is_ready;
    int get_status, pods_status, applications_status, apps_status; // of the lists; of what the group apps serves
    char unread[256];
    // What the platform has read.
    struct strbuf in;
    bool full, failed;
    bool compares, takes_details, takes_events;
    int events_status;
    unsigned events, event_lists;
    uint64_t event_sequence;
    char event[4096];
    const char *pod_state; // members of a pod's status
    int secrets_status;
    char presences[4096];      // a line an object that is not at hand, or has marks
    char verdicts[4096];       // a line an object: its health, where it comes from, and why
    struct digest last_digest; // of the words; its views are not kept
    uint8_t entries[16][DIGEST_ENTRY_BYTES];
    uint64_t digest_sequence;
    unsigned words[32]; // by kind
    unsigned watches, watches_before;
    unsigned lists; // of what the cluster has: kinds that are absent are looked for again and again
    uint64_t last_sequence, cluster_sequence, application_sequence, begin_sequence, end_sequence, end_count;
    unsigned hellos, begins, ends, clusters, tombstones, objects;
    struct key_table *held; // key -> told at or behind the mark
    char boot_id[64], cluster[8192], last_object[512];
    char manifests[256 * 1024];
};

static const char application[] =
    "{\"metadata\":{\"name\":\"shop\",\"namespace\":\"argocd\",\"uid\":\"app-1\",\"resourceVersion\":\"%u\"},"
    "\"spec\":{\"destination\":{\"server\":\"https://"
    "kubernetes.default.svc\"}},\"status\":{\"sync\":{\"status\":\"Synced\"},"
    "\"health\":{\"status\":\"Healthy\"},\"resources\":["
    "{\"group\":\"apps\",\"version\":\"v1\",\"kind\":\"Deployment\",\"namespace\":\"s\",\"name\":\"web\",\"status\":"
    "\"Synced\","
    "\"health\":{\"status\":\"Healthy\"}},"
    "{\"version\":\"v1\",\"kind\":\"Secret\",\"namespace\":\"s\",\"name\":\"db\",\"status\":\"Synced\","
    "\"requiresPruning\":true},"
    "{\"group\":\"unheard.io\",\"version\":\"v1\",\"kind\":\"Thing\",\"namespace\":\"s\",\"name\":\"x\",\"hook\":true}]"
    "}}";

static void reply_list(struct fake_exchange *exchange, const char *items)
{
    ((struct world *)exchange->api->arg)->lists++;
    char *body = mem_printf("{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[%s]}", items);
    fake_api_reply(exchange, 200, body);
    mem_free(body);
}

static const char deployment[] =
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"s\",\"uid\":\"web-1\",\"annotations\":{"
    "\"kubectl.kubernetes.io/"
    "last-applied-configuration\":\"CANARY\"}},\"spec\":{\"template\":{\"spec\":{\"containers\":[{"
    "\"name\":\"c\",\"image\":\"i\",\"env\":[{\"name\":\"E\",\"value\":\"CANARY\"}]}]}}}}";
static const char secret[] =
    "{\"metadata\":{\"name\":\"db\",\"namespace\":\"s\",\"uid\":\"db-1\"},\"data\":{\"p\":\"CANARY\"},"
    "\"type\":\"Opaque\"},{\"metadata\":{\"name\":\"other\",\"namespace\":\"s\",\"uid\":\"db-2\"},"
    "\"data\":{\"p\":\"CANARY\"}}";
static const char replica_set[] = "{\"metadata\":{\"name\":\"web-a\",\"namespace\":\"s\",\"uid\":\"rs-1\","
                                  "\"ownerReferences\":[{\"uid\":\"web-1\",\"controller\":true}]}}";

// Of a Pod that is reported, by its series; and of one that is not.
static const char kubernetes_events[] =
    "{\"metadata\":{\"name\":\"e1\",\"namespace\":\"s\",\"uid\":\"event-1\"},\"involvedObject\":{\"kind\":\"Pod\","
    "\"namespace\":\"s\",\"name\":\"web-a-0\",\"uid\":\"pod-0\",\"apiVersion\":\"v1\"},\"type\":\"Warning\","
    "\"reason\":\"Failed\",\"message\":\"pull https://user:CANARY@registry\\nwith "
    "token=CANARY\",\"source\":{"
    "\"component\":\"kubelet\"},\"count\":1,\"firstTimestamp\":\"2026-03-01T10:00:00Z\",\"lastTimestamp\":"
    "\"2026-03-01T10:00:00Z\",\"series\":{\"count\":4,\"lastObservedTime\":\"2026-03-01T10:05:00.000000Z\"}},"
    "{\"metadata\":{\"name\":\"e2\",\"namespace\":\"s\",\"uid\":\"event-2\"},\"involvedObject\":{\"kind\":\"Pod\","
    "\"namespace\":\"s\",\"name\":\"foreign\",\"apiVersion\":\"v1\"},\"type\":\"Normal\",\"reason\":\"Pulled\"}";

static void reply_pods(struct world *world, struct fake_exchange *exchange)
{
    struct strbuf items;
    strbuf_init(&items, 1 << 20);
    for (unsigned i = 0; i < world->pods; i++)
        strbuf_addf(
            &items,
            "%s{\"metadata\":{\"name\":\"web-a-%u\",\"namespace\":\"s\",\"uid\":\"pod-%u\",\"ownerReferences\":[{"
            "\"uid\":\"rs-1\",\"controller\":true}]},\"spec\":{\"restartPolicy\":\"Always\",\"containers\":[{\"args\":["
            "\"CANARY\"]}]},\"status\":{%s}}",
            i ? "," : "", i, i, world->pod_state ? world->pod_state : "");
    reply_list(exchange, items.at ? items.at : "");
    strbuf_finish(&items);
}

static void on_get(void *arg, struct fake_exchange *exchange)
{
    struct world *world = arg;
    const char *path = exchange->path;
    if (strcmp(exchange->authorization, "Bearer the-token") != 0 || world->unauthorized)
        fake_api_reply(exchange, 401, "{}");
    else if (strstr(path, "watch=true")) {
        world->watches++;
        fake_api_stream(exchange);
    } else if (strcmp(path, "/version") == 0 && world->version_hangs)
        return;
    else if (strstr(path, "/applications/culvert-agent-probe") && world->read_hangs)
        return;
    else if (strstr(path, "/applications/culvert-agent-probe"))
        fake_api_reply(exchange, world->read_status ? world->read_status : 404, "{}");
    else if (strcmp(path, "/version") == 0)
        fake_api_reply(exchange, 200, "{\"major\":\"1\",\"minor\":\"29+\",\"gitVersion\":\"v1.29.1\"}");
    else if (strstr(path, "/applications?") && world->applications_status != 200)
        fake_api_reply(exchange, world->applications_status, "{}");
    else if (strstr(path, "/applications?")) {
        char *item = mem_printf(application, 1);
        reply_list(exchange, world->application_gone ? "" : item);
        mem_free(item);
    } else if (strcmp(path, "/apis/apps/v1") == 0 && world->apps_status != 200)
        fake_api_reply(exchange, world->apps_status, "{}");
    else if (strcmp(path, "/apis/apps/v1") == 0)
        fake_api_reply(
            exchange, 200,
            "{\"resources\":[{\"name\":\"deployments/status\",\"kind\":\"Deployment\",\"namespaced\":true},"
            "{\"name\":\"deployments\",\"kind\":\"Deployment\",\"namespaced\":true,\"verbs\":[\"list\",\"watch\"]}]}");
    else if (strcmp(path, "/api/v1") == 0)
        fake_api_reply(exchange, 200,
                       "{\"resources\":[{\"name\":\"secrets\",\"kind\":\"Secret\",\"namespaced\":true,\"verbs\":["
                       "\"list\",\"watch\"]}]}");
    else if (strcmp(path, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop") == 0) {
        char *item = mem_printf(application, 1);
        fake_api_reply(exchange, 200, item);
        mem_free(item);
    } else if (strcmp(path, "/apis/apps/v1/namespaces/s/deployments/web") == 0 && world->get_status != 200)
        fake_api_reply(exchange, world->get_status, "{}");
    else if (strcmp(path, "/apis/apps/v1/namespaces/s/deployments/web") == 0)
        fake_api_reply(exchange, 200, deployment);
    else if (strstr(path, "/deployments?"))
        reply_list(exchange, world->deployments ? deployment : "");
    else if (strstr(path, "/secrets?") && world->secrets_status != 200)
        fake_api_reply(exchange, world->secrets_status, "{}");
    else if (strstr(path, "/secrets?"))
        reply_list(exchange, world->secrets ? secret : "");
    else if (strstr(path, "/replicasets?"))
        reply_list(exchange, replica_set);
    else if (strstr(path, "/pods?") && world->pods_status != 200)
        fake_api_reply(exchange, world->pods_status, "{}");
    else if (strstr(path, "/pods?"))
        reply_pods(world, exchange);
    else if (strstr(path, "/events?")) {
        world->event_lists++;
        if (world->events_status)
            fake_api_reply(exchange, world->events_status, "{}");
        else
            reply_list(exchange, kubernetes_events);
    } else
        fake_api_reply(exchange, 404, "{}");
}

// ---- the platform --------------------------------------------------------------------------------------------

static void take_object(struct world *world, const struct wire_report *record)
{
    char key[256];
    snprintf(key, sizeof key, "%.*s/%.*s/%.*s", STR_ARG(record->ref.kind), STR_ARG(record->ref.ns),
             STR_ARG(record->ref.name));
    if (record->type == WIRE_REPORT_DELETED) {
        world->tombstones++;
        key_table_remove(world->held, str_c(key));
        return;
    }
    world->objects++;
    if (str_eq(record->ref.kind, STR("Application"))) world->application_sequence = record->sequence;
    assert_true(str_eq(record->cluster, STR("in-cluster")));
    snprintf(world->last_object, sizeof world->last_object, "%s app=%.*s sync=%.*s health=%.*s", key,
             STR_ARG(record->application_name), STR_ARG(record->sync_status), STR_ARG(record->health_status));
    size_t told = strlen(world->verdicts);
    snprintf(world->verdicts + told, sizeof world->verdicts - told, "%s %.*s %.*s %.*s\n", key,
             STR_ARG(record->health_status), STR_ARG(record->health_source), STR_ARG(record->health_message));
    told = strlen(world->presences);
    if (record->presence.len || record->marks.len)
        snprintf(world->presences + told, sizeof world->presences - told, "%s %.*s %.*s %.*s\n", key,
                 STR_ARG(record->presence), STR_ARG(record->resource), STR_ARG(record->marks));
    key_table_put(world->held, str_c(key), world);
    char *text = mem_alloc(record->manifest_bytes + 1);
    assert_int_equal(ZSTD_decompress(text, record->manifest_bytes, record->manifest.at, record->manifest.len),
                     record->manifest_bytes);
    text[record->manifest_bytes] = 0;
    uint8_t hash[ID_SHA256_BYTES];
    id_sha256(text, record->manifest_bytes, hash);
    assert_memory_equal(hash, record->hash, sizeof hash);
    size_t used = strlen(world->manifests);
    snprintf(world->manifests + used, sizeof world->manifests - used, "%s\n", text);
    mem_free(text);
}

static void take_unread(struct world *world, const struct wire_report *record)
{
    snprintf(world->unread, sizeof world->unread, "%.*s", STR_ARG(record->unread));
}

static void take_digest(struct world *world, const struct wire_report *record)
{
    struct digest *digest = &world->last_digest;
    assert_true(world->compares);
    assert_int_equal(digest_decode((const uint8_t *)record->digest.at, record->digest.len, digest, NULL), ERROR_NONE);
    world->words[digest->kind]++;
    world->digest_sequence = record->sequence;
    if (digest->kind == DIGEST_ROOT) take_unread(world, record);
    if (digest->kind != DIGEST_LEAVES_SENT) return;
    assert_true(digest->count <= 16);
    memcpy(world->entries, digest->items, digest->count * DIGEST_ENTRY_BYTES);
}

static void take_event(struct world *world, const struct wire_report *record)
{
    assert_true(world->takes_events);
    world->events++;
    world->event_sequence = record->sequence;
    snprintf(world->event, sizeof world->event, "%.*s/%.*s %.*s", STR_ARG(record->ref.kind), STR_ARG(record->ref.name),
             STR_ARG(record->manifest));
}

static void take_record(struct world *world, const struct wire_report *record)
{
    assert_true(record->sequence > world->last_sequence);
    world->last_sequence = record->sequence;
    switch (record->type) {
    case WIRE_REPORT_HELLO:
        world->hellos++;
        snprintf(world->boot_id, sizeof world->boot_id, "%.*s", STR_ARG(record->boot_id));
        break;
    case WIRE_REPORT_OBJECT:
    case WIRE_REPORT_DELETED: take_object(world, record); break;
    case WIRE_REPORT_DIGEST: take_digest(world, record); break;
    case WIRE_REPORT_SNAPSHOT_BEGIN:
        world->begins++;
        world->begin_sequence = record->sequence;
        key_table_destroy(world->held);
        world->held = key_table_create();
        break;
    case WIRE_REPORT_SNAPSHOT_END:
        world->ends++;
        world->end_sequence = record->sequence;
        world->end_count = record->count;
        take_unread(world, record);
        // The platform's rule.
        assert_int_equal(record->count, key_table_count(world->held));
        break;
    case WIRE_REPORT_KUBERNETES_EVENT: take_event(world, record); break;
    case WIRE_REPORT_CLUSTER:
        world->clusters++;
        world->cluster_sequence = record->sequence;
        snprintf(world->cluster, sizeof world->cluster, "%.*s", STR_ARG(record->manifest));
        break;
    }
}

static bool sink_write(void *arg, const void *at, size_t len)
{
    struct world *world = arg;
    assert_true(len <= 64 * 1024);
    strbuf_add(&world->in, at, len);
    for (;;) {
        struct wire_report record;
        size_t used = 0;
        enum error_code code = wire_report_decode((const uint8_t *)world->in.at, world->in.len, &record, &used, NULL);
        if (code == ERROR_AGAIN) break;
        assert_int_equal(code, ERROR_NONE);
        take_record(world, &record);
        strbuf_drop_front(&world->in, used);
    }
    return !world->full;
}

static void sink_fail(void *arg)
{
    ((struct world *)arg)->failed = true;
}

static void answer_why(struct world *world, enum wire_ack_type type, uint64_t sequence, const char *reason)
{
    struct strbuf out;
    strbuf_init(&out, 1024);
    struct wire_ack ack = {.type = type, .sequence = sequence, .reason = str_c(reason)};
    assert_int_equal(wire_ack_encode(&ack, &out, NULL), ERROR_NONE);
    // Cut in the middle, as a stream may.
    reporter_on_ack_bytes(world->reporter, (const uint8_t *)out.at, 3);
    reporter_on_ack_bytes(world->reporter, (const uint8_t *)out.at + 3, out.len - 3);
    strbuf_finish(&out);
}

static void answer(struct world *world, enum wire_ack_type type, uint64_t sequence)
{
    answer_why(world, type, sequence, "because");
}

static void answer_digest(struct world *world, const struct digest *digest)
{
    struct strbuf text, out;
    strbuf_init(&text, DIGEST_ANSWER_BYTES_MAX);
    strbuf_init(&out, 2 * DIGEST_ANSWER_BYTES_MAX);
    assert_int_equal(digest_encode(digest, &text, NULL), ERROR_NONE);
    struct wire_ack ack = {.type = WIRE_ACK_DIGEST, .sequence = world->digest_sequence, .digest = strbuf_str(&text)};
    assert_int_equal(wire_ack_encode(&ack, &out, NULL), ERROR_NONE);
    reporter_on_ack_bytes(world->reporter, (const uint8_t *)out.at, out.len);
    strbuf_finish(&text);
    strbuf_finish(&out);
}

static void wait_word(struct world *world, enum digest_kind kind, unsigned count)
{
    while (world->words[kind] < count)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
}

static void open_stream(struct world *world)
{
    reporter_sink_open(world->reporter, &(struct report_sink){.write = sink_write,
                                                              .fail = sink_fail,
                                                              .arg = world,
                                                              .compares = world->compares,
                                                              .takes_details = world->takes_details,
                                                              .takes_kubernetes_events = world->takes_events});
}

static struct world *world_open_with(const struct outbox_options *outbox)
{
    log_set_level(LOG_ERROR);
    struct world *world = mem_zalloc(sizeof *world);
    world->loop = loop_create("test", 0);
    world->deployments = world->secrets = 1;
    world->pods = 2;
    world->get_status = world->pods_status = world->applications_status = world->apps_status = world->secrets_status =
        200;
    world->held = key_table_create();
    strbuf_init(&world->in, 16 << 20);
    fake_api_open(&world->api, world->loop, on_get, world);
    snprintf(world->kubeconfig, sizeof world->kubeconfig, "/tmp/test-reporter-XXXXXX");
    int fd = mkstemp(world->kubeconfig);
    assert_true(fd >= 0);
    dprintf(fd,
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
            "{server: \"%s\"}}], users: [{name: u, user: {token: the-token}}]}",
            world->api.url);
    close(fd);
    struct error err;
    world->reporter = reporter_create_with(world->loop,
                                           &(struct reporter_options){.kubeconfig = world->kubeconfig,
                                                                      .outbox = *outbox,
                                                                      .limit_retry_ms = 100,
                                                                      .kubernetes_events = true,
                                                                      .absent_retry_ms = 300,
                                                                      .probe_interval_ms = 100,
                                                                      .probe_timeout_ms = 1000},
                                           &err);
    if (!world->reporter) fail_msg("%s", err.text);
    return world;
}

static struct world *world_open(size_t outbox_bytes_max)
{
    return world_open_with(&(struct outbox_options){.bytes_max = outbox_bytes_max});
}

static void world_close(struct world *world)
{
    reporter_destroy(world->reporter);
    fake_api_close(&world->api);
    loop_destroy(world->loop);
    unlink(world->kubeconfig);
    key_table_destroy(world->held);
    strbuf_finish(&world->in);
    assert_null(strstr(world->manifests, "CANARY"));
    mem_free(world);
}

static bool snapshot_done(void *arg)
{
    const struct world *world = arg;
    return world->ends >= 1 && world->ends == world->begins;
}

static bool two_snapshots(void *arg)
{
    const struct world *world = arg;
    return world->begins >= 2 && world->ends >= 2;
}

static bool has_cluster(void *arg)
{
    return ((struct world *)arg)->clusters >= 1;
}

static void tells_what_applications_name(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    fake_wait(world->loop, has_cluster, world);
    assert_int_equal(world->hellos, 1);
    assert_int_equal(strlen(world->boot_id), 36);
    assert_int_equal(world->end_count, 6);
    static const char *const keys[] = {"Application/argocd/shop", "Deployment/s/web", "Secret/s/db",
                                       "ReplicaSet/s/web-a",      "Pod/s/web-a-0",    "Pod/s/web-a-1"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(key_table_get(world->held, str_c(keys[i])));
    assert_non_null(strstr(world->manifests, "hmac-sha256:"));
    json_t *cluster = json_loads(world->cluster, 0, NULL);
    assert_true(str_eq(json_get_str(cluster, "serverVersion"), STR("1.29")));
    assert_true(str_eq(json_str(json_path(cluster, "connectionState", "status", NULL)), STR("Successful")));
    json_decref(cluster);
    world_close(world);
}

static bool has_tombstone(void *arg)
{
    return ((struct world *)arg)->tombstones >= 1;
}

static bool has_more_objects(void *arg)
{
    struct world *world = arg;
    return world->objects > 6;
}

static struct fake_exchange *watch_of(struct world *world, const char *path)
{
    struct fake_exchange *exchange;
    while (!(exchange = fake_api_streaming(&world->api, path)))
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    return exchange;
}

static const char crashing[] = "\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"c\",\"restartCount\":3,"
                               "\"state\":{\"waiting\":{\"reason\":"
                               "\"CrashLoopBackOff\",\"message\":\"started with "
                               "token=CANARY\"}},\"lastState\":{\"terminated\":{\"reason\":\"OOMKilled\","
                               "\"exitCode\":137}}}]";

// From the object as it is in the cluster: what redaction takes is still there, and what leaves is
// scrubbed.
static void health_is_assessed_before_redaction(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->takes_details = true;
    world->pods = 1;
    world->pod_state = crashing;
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    assert_non_null(strstr(world->verdicts,
                           "Pod/s/web-a-0 Degraded AGENT container c: CrashLoopBackOff: started with "
                           "token=***, ended before with OOMKilled (exit code 137), restarted 3 times\n"));
    // What Argo CD wrote down is taken, and said to be from there.
    assert_non_null(strstr(world->verdicts, "Deployment/s/web Healthy ARGOCD_STATUS \n"));
    assert_non_null(strstr(world->verdicts, "Application/argocd/shop Healthy ARGOCD_STATUS \n"));
    assert_non_null(strstr(world->verdicts, "ReplicaSet/s/web-a Healthy AGENT \n"));
    assert_non_null(strstr(world->verdicts, "Secret/s/db   \n"));
    assert_null(strstr(world->verdicts, "CANARY"));
    // A platform of an older version gets the verdict, without what it does not know: in its
    // digests that has no place.
    reporter_stream_closed(world->reporter);
    world->verdicts[0] = 0;
    world->takes_details = false;
    unsigned ends = world->ends;
    open_stream(world);
    while (world->ends == ends)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_non_null(strstr(world->verdicts, "Pod/s/web-a-0 Degraded  \n"));
    world_close(world);
}

static bool has_event(void *arg)
{
    return ((const struct world *)arg)->events > 0;
}

// Without credentials, after the reports, and only of what is reported.
static void kubernetes_events_follow_reports(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->takes_events = true;
    open_stream(world);
    fake_wait(world->loop, has_event, world);
    assert_true(world->ends == 1 && world->event_sequence > world->end_sequence);
    assert_string_equal(world->event, "Pod/web-a-0 {\"uid\":\"event-1\",\"type\":\"Warning\",\"reason\":\"Failed\","
                                      "\"message\":\"pull https://***@registry with "
                                      "token=***\",\"component\":"
                                      "\"kubelet\",\"count\":4,\"firstAt\":\"2026-03-01T10:00:00Z\",\"lastAt\":"
                                      "\"2026-03-01T10:05:00.000000Z\"}");
    // The next stream has it again, unless it was acknowledged.
    reporter_stream_closed(world->reporter);
    world->events = 0;
    open_stream(world);
    fake_wait(world->loop, has_event, world);
    world_close(world);
}

// A platform that does not take them would store them as something else.
static void an_older_platform_is_sent_no_events(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    fake_wait(world->loop, has_cluster, world);
    assert_int_equal(world->events + world->event_lists, 0);
    world_close(world);
}

static bool has_finding(void *arg)
{
    return strstr(((const struct world *)arg)->cluster, "may not list and watch events") != NULL;
}

static void events_that_may_not_be_read_are_a_finding(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->takes_events = true;
    world->events_status = 403;
    open_stream(world);
    fake_wait(world->loop, has_finding, world);
    assert_int_equal(world->ends, 1); // and keep nothing else from being reported
    world_close(world);
}

static bool secret_is_there(void *arg)
{
    return strstr(((const struct world *)arg)->presences, "Secret/s/db   REQUIRES_PRUNING\n") != NULL;
}

static bool pods_are_unreadable(void *arg)
{
    const struct world *world = arg;
    return strstr(world->presences, "Pod/s/web-a-0 UNREADABLE pods \n") &&
           strstr(world->presences, "Pod/s/web-a-1 UNREADABLE pods \n");
}

// Every resource that an application names is an object of the platform: what the cluster lacks,
// what may not be read and what no API serves, too.
static void names_what_is_not_at_hand(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->takes_details = true;
    world->deployments = 0;
    world->secrets_status = 403;
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    assert_non_null(strstr(world->presences, "Deployment/s/web MISSING  \n"));
    assert_non_null(strstr(world->presences, "Secret/s/db UNREADABLE secrets REQUIRES_PRUNING\n"));
    assert_non_null(strstr(world->presences, "Thing/s/x UNKNOWN_KIND  HOOK\n"));
    // What is missing is so by the agent's word, unless Argo CD has written something else down.
    assert_non_null(strstr(world->verdicts, "Thing/s/x Missing AGENT \n"));
    assert_non_null(strstr(world->verdicts, "Deployment/s/web Healthy ARGOCD_STATUS \n"));
    assert_non_null(strstr(world->verdicts, "Secret/s/db   \n"));
    assert_int_equal(world->end_count, 4); // with the application; nothing hangs on what is missing
    // The right comes.
    world->presences[0] = 0;
    world->secrets_status = 200;
    fake_wait(world->loop, secret_is_there, world);
    // Without the application nobody names them: the next inventory is without them.
    world->application_gone = true;
    unsigned ends = world->ends;
    answer(world, WIRE_ACK_RESYNC, world->last_sequence);
    while (world->ends == ends)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_int_equal(world->end_count, 0);
    world_close(world);
}

// A right that is lost makes what was read unreadable, and deletes nothing.
static void lost_rights_are_shown(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->takes_details = true;
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    assert_int_equal(world->end_count, 7);
    assert_false(pods_are_unreadable(world));
    world->pods_status = 403;
    unsigned ends = world->ends;
    answer(world, WIRE_ACK_RESYNC, world->last_sequence);
    while (world->ends == ends)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_true(pods_are_unreadable(world));
    assert_int_equal(world->end_count, 7);
    assert_int_equal(world->tombstones, 0);
    world_close(world);
}

// Platforms of two versions have two notions of what is held: nothing is carried from one to the
// other.
static void details_make_other_digests(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    reporter_stream_closed(world->reporter);
    unsigned lists = world->lists;
    world->takes_details = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 2);
    assert_true(world->lists > lists);
    world_close(world);
}

static void tells_changes_and_deletions(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    answer(world, WIRE_ACK, world->last_sequence);
    // A new resourceVersion alone is no change.
    char *item = mem_printf(application, 77);
    char *event = mem_printf("{\"type\":\"MODIFIED\",\"object\":%s}\n", item);
    fake_api_push(watch_of(world, "/apis/argoproj.io/v1alpha1/applications"), event);
    mem_free(item);
    mem_free(event);
    fake_api_push(watch_of(world, "/api/v1/pods"),
                  "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"web-a-0\",\"namespace\":\"s\"}}}\n");
    fake_wait(world->loop, has_tombstone, world);
    assert_int_equal(world->objects, 6);
    assert_null(key_table_get(world->held, STR("Pod/s/web-a-0")));
    // What the application says of the Deployment changes: its content is fetched and told with it.
    item = mem_printf(application, 78);
    char *health = strstr(item, "Healthy\"}},{\"version");
    memcpy(health, "Missing", 7);
    event = mem_printf("{\"type\":\"MODIFIED\",\"object\":%s}\n", item);
    fake_api_push(watch_of(world, "/apis/argoproj.io/v1alpha1/applications"), event);
    mem_free(item);
    mem_free(event);
    fake_wait(world->loop, has_more_objects, world);
    while (!strstr(world->last_object, "Deployment/s/web app=shop sync=Synced health=Missing"))
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    world_close(world);
}

static void resync_is_a_new_snapshot(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    uint64_t first_begin = world->begin_sequence;
    world->pods = 1; // one went unseen
    answer(world, WIRE_ACK, first_begin);
    answer(world, WIRE_ACK_RESYNC, world->last_sequence);
    fake_wait(world->loop, two_snapshots, world);
    assert_int_equal(world->end_count, 5);
    assert_int_equal(world->hellos, 1);
    assert_true(world->begin_sequence > first_begin);
    world_close(world);
}

static void refused_records_are_named_in_every_snapshot(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    uint64_t first = world->application_sequence;
    answer(world, WIRE_ACK_REJECT, first);
    answer(world, WIRE_ACK, world->last_sequence);
    answer(world, WIRE_ACK_RESYNC, world->last_sequence);
    fake_wait(world->loop, two_snapshots, world);
    assert_true(world->application_sequence > world->begin_sequence);
    assert_non_null(key_table_get(world->held, STR("Application/argocd/shop")));
    world_close(world);
}

static void next_stream_begins_anew(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    uint64_t sequence = world->last_sequence;
    reporter_stream_closed(world->reporter);
    reporter_stream_closed(world->reporter);
    world->application_gone = true;
    open_stream(world);
    fake_wait(world->loop, two_snapshots, world);
    assert_int_equal(world->hellos, 2);
    assert_true(world->begin_sequence > sequence);
    assert_int_equal(world->end_count, 0);
    // Closed in mid-list and replaced: nothing dangles.
    open_stream(world);
    uv_run(loop_uv(world->loop), UV_RUN_NOWAIT);
    open_stream(world);
    uv_run(loop_uv(world->loop), UV_RUN_NOWAIT);
    world_close(world);
}

// ---- a platform that compares --------------------------------------------------------------------------------------

static uint64_t blind_ms(const struct world *world)
{
    uint64_t behind_ms, blind_ms;
    reporter_lag(world->reporter, &behind_ms, &blind_ms);
    return blind_ms;
}

static bool is_blind(void *arg)
{
    return blind_ms(arg) > 0;
}

static bool sees(void *arg)
{
    return blind_ms(arg) == 0;
}

static void unchanged_is_not_told_again(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    assert_int_equal(world->words[DIGEST_PROBE], 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    // A change from now on is told as ever; nothing else was.
    fake_api_push(watch_of(world, "/api/v1/pods"),
                  "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"web-a-0\",\"namespace\":\"s\"}}}\n");
    fake_wait(world->loop, has_tombstone, world);
    assert_int_equal(world->objects + world->begins, 0);
    // What happens without a stream is told on the next one, before it is compared; the cluster is
    // not listed again.
    unsigned lists = world->lists;
    reporter_stream_closed(world->reporter);
    char *item = mem_printf("{\"type\":\"MODIFIED\",\"object\":%s}\n", deployment);
    char *image = strstr(item, "\"image\":\"i\"");
    memcpy(image, "\"image\":\"j\"", 11);
    fake_api_push(watch_of(world, "/apis/apps/v1/deployments"), item);
    mem_free(item);
    while (reporter_outbox_depth(world->reporter) == 0)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    open_stream(world);
    while (world->objects == 0)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_non_null(strstr(world->last_object, "Deployment/s/web"));
    assert_int_equal(world->words[DIGEST_ROOT], 1);
    answer(world, WIRE_ACK, world->last_sequence);
    wait_word(world, DIGEST_ROOT, 2);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    assert_int_equal(world->objects, 1);
    assert_int_equal(world->lists, lists);
    assert_int_equal(world->begins, 0);
    world_close(world);
}

static void wanted_objects_are_told(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_ASK_BRANCHES, .branches = UINT64_MAX});
    wait_word(world, DIGEST_BRANCHES_SENT, 1);
    assert_int_equal(world->last_digest.branches, UINT64_MAX);
    struct digest ask = {.kind = DIGEST_ASK_LEAVES};
    memset(ask.leaves.bits, 0xff, sizeof ask.leaves.bits);
    answer_digest(world, &ask);
    wait_word(world, DIGEST_LEAVES_SENT, 1);
    assert_int_equal(world->last_digest.count, 6);
    static const uint8_t none[ID_SHA256_BYTES];
    uint8_t keys[2][DIGEST_ENTRY_BYTES] = {{0xff}}; // one that there never was
    digest_entry_make(&(struct digest_object){.ref.group = STR("apps"),
                                              .ref.kind = STR("Deployment"),
                                              .ref.ns = STR("s"),
                                              .ref.name = STR("web"),
                                              .manifest_sha256 = none},
                      keys[1]);
    bool told = false;
    for (size_t i = 0; i < world->last_digest.count; i++)
        told = told || memcmp(world->entries[i], keys[1], DIGEST_KEY_BYTES) == 0;
    assert_true(told);
    answer_digest(world, &(struct digest){.kind = DIGEST_WANTED, .items = keys[0], .count = 1});
    answer_digest(world, &(struct digest){.kind = DIGEST_WANTED, .items = keys[1], .count = 1});
    assert_int_equal(world->objects, 0);
    world->get_status = 403; // then a list has to tell it
    answer_digest(world, &(struct digest){.kind = DIGEST_DONE});
    while (world->objects == 0)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_non_null(strstr(world->last_object, "Deployment/s/web app=shop sync=Synced health=Healthy"));
    assert_int_equal(world->objects, 1);
    // What is shown is outdated until the platform has it, and says so.
    fake_wait(world->loop, is_blind, world);
    assert_int_equal(world->words[DIGEST_ROOT], 1);
    answer(world, WIRE_ACK, world->last_sequence);
    wait_word(world, DIGEST_ROOT, 2);
    assert_true(is_blind(world));
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    reporter_stream_closed(world->reporter);
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 3);
    answer_digest(world, &(struct digest){.kind = DIGEST_LATER});
    wait_word(world, DIGEST_ROOT, 4); // asked again
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    assert_false(world->failed);
    world_close(world);
}

// The agent is ready, and says what the platform refuses.
static bool warns(void *arg)
{
    const struct world *world = arg;
    struct strbuf why;
    strbuf_init(&why, 4096);
    bool warns = reporter_is_ready(world->reporter, &why) && why.len &&
                 strstr(why.at, "refuses reports: storage quota of the runtime: 0 of 5 bytes");
    strbuf_finish(&why);
    return warns;
}

// What found no room is offered again until it is taken; what was refused for good is not.
static void what_found_no_room_is_offered_again(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    fake_wait(world->loop, snapshot_done, world);
    answer(world, WIRE_ACK_REJECT, world->application_sequence);
    answer(world, WIRE_ACK, world->last_sequence);
    fake_wait(world->loop, sees, world);
    assert_int_equal(world->words[DIGEST_ROOT], 1);
    world_close(world);

    world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    fake_wait(world->loop, snapshot_done, world);
    answer_why(world, WIRE_ACK_REJECT, world->application_sequence, "storage quota of the runtime: 0 of 5 bytes");
    answer(world, WIRE_ACK, world->last_sequence);
    fake_wait(world->loop, is_blind, world); // until the platform has all of it
    fake_wait(world->loop, warns, world);
    wait_word(world, DIGEST_ROOT, 2);
    answer_digest(world, &(struct digest){.kind = DIGEST_ASK_BRANCHES, .branches = UINT64_MAX});
    wait_word(world, DIGEST_BRANCHES_SENT, 1);
    struct digest ask = {.kind = DIGEST_ASK_LEAVES};
    memset(ask.leaves.bits, 0xff, sizeof ask.leaves.bits);
    answer_digest(world, &ask);
    wait_word(world, DIGEST_LEAVES_SENT, 1);
    static const uint8_t none[ID_SHA256_BYTES];
    uint8_t key[DIGEST_ENTRY_BYTES];
    digest_entry_make(&(struct digest_object){.ref.group = STR("argoproj.io"),
                                              .ref.kind = STR("Application"),
                                              .ref.ns = STR("argocd"),
                                              .ref.name = STR("shop"),
                                              .manifest_sha256 = none},
                      key);
    uint64_t refused = world->application_sequence;
    answer_digest(world, &(struct digest){.kind = DIGEST_WANTED, .items = key, .count = 1});
    answer_digest(world, &(struct digest){.kind = DIGEST_DONE});
    while (world->application_sequence == refused)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    answer(world, WIRE_ACK, world->last_sequence);
    wait_word(world, DIGEST_ROOT, 3);
    assert_true(warns(world));
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    assert_false(warns(world));
    world_close(world);
}

// Greetings and the words of comparisons are never acknowledged: nothing waits for that.
static void quiet_is_not_behind(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    fake_wait(world->loop, has_cluster, world);
    answer(world, WIRE_ACK, world->cluster_sequence);
    answer_digest(world, &(struct digest){.kind = DIGEST_LATER});
    wait_word(world, DIGEST_ROOT, 2);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    uint64_t from_ms = clock_mono_ms(), behind_ms, blind_ms;
    while (clock_mono_ms() < from_ms + 20)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    answer(world, WIRE_ACK, world->cluster_sequence); // on a slow machine there is another by now
    reporter_lag(world->reporter, &behind_ms, &blind_ms);
    assert_int_equal(behind_ms, 0);
    world_close(world);
}

static void the_platform_may_want_everything(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_PROBE, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    fake_wait(world->loop, snapshot_done, world);
    assert_int_equal(world->end_count, 6);
    assert_int_equal(world->words[DIGEST_ROOT], 0);
    answer(world, WIRE_ACK, world->last_sequence);
    // In place of a comparison, too, and once is enough.
    reporter_stream_closed(world->reporter);
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    fake_wait(world->loop, two_snapshots, world);
    assert_int_equal(world->begins, 2);
    assert_int_equal(world->end_count, 6);
    // A platform that knows nothing of all this gets its snapshot.
    world->compares = false;
    unsigned ends = world->ends;
    open_stream(world);
    while (world->ends == ends)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_int_equal(world->end_count, 6);
    world_close(world);
}

static void on_patience(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

// Each snapshot is a list of everything: a platform that wants one after the other must not have
// the API server listed all day.
static void a_platform_that_is_never_content_has_to_wait(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_PROBE, 1);
    bool is_over = false;
    uv_timer_t timer;
    uv_timer_init(loop_uv(world->loop), &timer);
    timer.data = &is_over;
    uv_timer_start(&timer, on_patience, 3000, 0);
    while (!is_over) {
        if (world->ends == world->begins) answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    }
    // The waits are at most 1, 2, 4 ... seconds: that seven of them fit has a chance of 1 in
    // 5,000,000.
    assert_in_range(world->begins, 1, 8);
    uv_close((uv_handle_t *)&timer, NULL);
    world_close(world);
}

static bool has_another_watch(void *arg)
{
    struct world *world = arg;
    return world->watches > world->watches_before && sees(world);
}

// An API server that hangs leaves its watches open: they look quiet, and nothing that happens
// arrives.
static void an_api_server_that_hangs_is_not_believed(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    world->version_hangs = true;
    fake_wait(world->loop, is_blind, world);
    assert_true(blind_ms(world) >= 1000); // counted from when it was asked
    world->watches_before = world->watches;
    world->version_hangs = false;
    // What was silent meanwhile is watched anew before anything counts as seen.
    fake_wait(world->loop, has_another_watch, world);
    world_close(world);
}

// Without etcd it answers /version, and its watches look quiet.
static void an_api_server_without_its_storage_is_not_believed(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    world->read_hangs = true;
    fake_wait(world->loop, is_blind, world);
    assert_true(blind_ms(world) >= 1000);
    world->read_hangs = false;
    fake_wait(world->loop, sees, world);
    world->read_status = 500;
    fake_wait(world->loop, is_blind, world);
    world->read_status = 403; // it has no right to look
    fake_wait(world->loop, sees, world);
    world_close(world);
}

static bool is_ready(const struct world *world, const char *says)
{
    struct strbuf why;
    strbuf_init(&why, 4096);
    bool ready = reporter_is_ready(world->reporter, &why);
    if (says && !(why.at && strstr(why.at, says))) ready = !ready; // not for that reason
    strbuf_finish(&why);
    return ready;
}

static bool finds(void *arg)
{
    const struct world *world = arg;
    return strstr(world->cluster, world->sought) && is_ready(world, NULL) == world->is_ready;
}

static void await_finding(struct world *world, const char *sought, bool and_is_ready)
{
    world->sought = sought;
    world->is_ready = and_is_ready;
    fake_wait(world->loop, finds, world);
}

// What keeps the agent from reading is reported with its cause and cure, and is no more once it is
// over.
static void what_cannot_be_read_is_found(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->unauthorized = true;
    open_stream(world);
    assert_false(is_ready(world, "has not answered yet"));
    await_finding(world, "\"code\":\"KUBERNETES_API_UNAUTHORIZED\",\"level\":\"ERROR\"", false);
    assert_non_null(strstr(world->cluster, "\"status\":\"Failed\""));
    assert_non_null(strstr(world->cluster, "create a new one"));
    assert_false(is_ready(world, "refuses the credential"));
    world->unauthorized = false;
    await_finding(world, "\"findings\":[]", true);
    assert_non_null(strstr(world->cluster, "\"status\":\"Successful\""));
    // A right that is lost, and one that never was there.
    struct fake_exchange *pods = watch_of(world, "/api/v1/pods"); // they are listed last
    world->pods_status = world->apps_status = 403;
    fake_api_push(pods, "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n");
    await_finding(world, "resources: [pods], verbs: [get, list, watch]", true);
    assert_non_null(strstr(world->cluster, "\"code\":\"KUBERNETES_RIGHT_MISSING\",\"level\":\"ERROR\""));
    world->pods_status = 200;
    await_finding(world, "\"findings\":[]", true);
    world->applications_status = 403;
    fake_api_push(watch_of(world, "/apis/argoproj.io/v1alpha1/applications"),
                  "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n");
    await_finding(world, "may not list and watch applications.argoproj.io", false);
    world->applications_status = 200;
    await_finding(world, "\"findings\":[]", true);
    world->read_status = 500;
    await_finding(world, "KUBERNETES_STORAGE_FAILING", false);
    world->read_status = 0;
    await_finding(world, "\"findings\":[]", true);
    world->version_hangs = true;
    await_finding(world, "KUBERNETES_API_HUNG", false);
    world_close(world);
}

static void words_that_are_not_the_platforms_end_the_stream(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_PROBE});
    assert_true(world->failed);
    world_close(world);
}

static bool has_two_roots(void *arg)
{
    return ((struct world *)arg)->words[DIGEST_ROOT] >= 2;
}

static void a_right_that_is_lost_deletes_nothing(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    open_stream(world);
    wait_word(world, DIGEST_ROOT, 1);
    assert_string_equal(world->unread, "");
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    world->pods_status = 403;
    fake_api_push(watch_of(world, "/api/v1/pods"), "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n");
    fake_wait(world->loop, is_blind, world);
    // It is compared all the same, by the next stream, and in a snapshot nothing of it is taken for
    // gone.
    reporter_stream_closed(world->reporter);
    open_stream(world);
    fake_wait(world->loop, has_two_roots, world);
    assert_string_equal(world->unread, "/Pod\n");
    answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
    fake_wait(world->loop, snapshot_done, world);
    assert_string_equal(world->unread, "/Pod\n");
    assert_int_equal(world->tombstones, 0);
    assert_int_equal(world->end_count, 4);
    fake_wait(world->loop, is_blind, world);
    // Back again: those that are still there are told, the others are gone.
    world->pods = 1;
    world->pods_status = 200;
    fake_wait(world->loop, has_tombstone, world);
    answer(world, WIRE_ACK, world->last_sequence);
    // What went meanwhile and was never seen here is found by a comparison: until then the agent is
    // behind.
    wait_word(world, DIGEST_ROOT, 3);
    assert_string_equal(world->unread, "");
    fake_wait(world->loop, is_blind, world);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    assert_int_equal(world->tombstones, 1);
    world_close(world);
}

static void without_applications_nothing_is_concluded(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->compares = true;
    world->applications_status = 403;
    open_stream(world);
    watch_of(world, "/api/v1/pods"); // the others are held all the same
    fake_wait(world->loop, is_blind, world);
    assert_int_equal(world->words[DIGEST_ROOT] + world->ends, 0);
    world->applications_status = 200;
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    world_close(world);
}

static void a_kind_nobody_tells_the_name_of_is_not_empty(void **state)
{
    (void)state;
    static const int statuses[] = {429, 500, 503, 403};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        struct world *world = world_open(0);
        world->compares = true;
        world->apps_status = statuses[i];
        open_stream(world);
        // The kinds behind it are listed all the same.
        watch_of(world, "/api/v1/pods");
        fake_wait(world->loop, is_blind, world);
        assert_int_equal(world->words[DIGEST_ROOT] + world->ends, 0);
        world->apps_status = 200;
        wait_word(world, DIGEST_ROOT, 1);
        answer_digest(world, &(struct digest){.kind = DIGEST_SNAPSHOT});
        fake_wait(world->loop, snapshot_done, world);
        assert_int_equal(world->end_count, 6);
        fake_wait(world->loop, sees, world);
        world_close(world);
    }
}

static void what_finds_no_room_is_not_taken_for_gone(void **state)
{
    (void)state;
    struct world *world = world_open_with(&(struct outbox_options){.objects_max = 4});
    world->compares = true;
    open_stream(world);
    watch_of(world, "/api/v1/pods");
    fake_wait(world->loop, is_blind, world);
    unsigned lists = world->lists;
    // It tries again, now and then, and is none the wiser.
    while (world->lists < 2 * lists)
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_int_equal(world->words[DIGEST_ROOT] + world->ends, 0);
    assert_true(is_blind(world));
    world->pods = 0;
    wait_word(world, DIGEST_ROOT, 1);
    answer_digest(world, &(struct digest){.kind = DIGEST_MATCHED});
    fake_wait(world->loop, sees, world);
    world_close(world);
}

static void forbidden_kinds_do_not_hold_the_snapshot(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->pods_status = 403;
    open_stream(world);
    fake_wait(world->loop, snapshot_done, world);
    assert_int_equal(world->end_count, 4);
    assert_string_equal(world->unread, "/Pod\n");
    assert_int_equal(blind_ms(world), 0); // it never saw any
    // The right comes: the pods follow as ordinary changes.
    world->pods_status = 200;
    while (!key_table_get(world->held, STR("Pod/s/web-a-1")))
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    world_close(world);
}

static void failing_kinds_hold_the_snapshot_but_nothing_else(void **state)
{
    (void)state;
    struct world *world = world_open(0);
    world->pods_status = 500;
    open_stream(world);
    while (!key_table_get(world->held, STR("ReplicaSet/s/web-a")))
        uv_run(loop_uv(world->loop), UV_RUN_ONCE);
    assert_int_equal(world->ends, 0);
    world->pods_status = 200;
    fake_wait(world->loop, snapshot_done, world);
    assert_int_equal(world->end_count, 6);
    world_close(world);
}

static void slow_platform_is_waited_for(void **state)
{
    (void)state;
    struct world *world = world_open(2000);
    world->pods = 400;
    world->full = true;
    open_stream(world);
    // Every write returns "full": the next one waits for writable, and the watches for the outbox.
    for (int i = 0; i < 5000 && world->ends == 0; i++) {
        uv_run(loop_uv(world->loop), UV_RUN_NOWAIT);
        if (i % 10 == 0) reporter_stream_writable(world->reporter);
    }
    world->full = false;
    reporter_stream_writable(world->reporter);
    fake_wait(world->loop, snapshot_done, world);
    assert_int_equal(world->end_count, 404);
    world_close(world);
}

static void nonsense_acknowledgements_end_the_stream(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *world = world_open(0);
        open_stream(world);
        fake_wait(world->loop, snapshot_done, world);
        if (i == 0)
            answer(world, WIRE_ACK, world->last_sequence + 1000);
        else
            reporter_on_ack_bytes(world->reporter, (const uint8_t *)"\xff\xff\xff\xff\xff", 5);
        assert_true(world->failed);
        world_close(world);
    }
}

static void wrong_configuration_is_refused(void **state)
{
    (void)state;
    struct loop *loop = loop_create("test", 0);
    struct error err;
    assert_null(reporter_create_with(loop, &(struct reporter_options){.kubeconfig = "/nonexistent"}, &err));
    struct world *world = world_open(0);
    assert_null(reporter_create_with(
        loop, &(struct reporter_options){.kubeconfig = world->kubeconfig, .namespaces = "ok,Not OK"}, &err));
    assert_non_null(strstr(err.text, "Not OK"));
    assert_null(reporter_create_with(
        loop, &(struct reporter_options){.kubeconfig = world->kubeconfig, .state_folder = "/nonexistent"}, &err));
    world_close(world);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kubernetes_events_follow_reports),
        cmocka_unit_test(an_older_platform_is_sent_no_events),
        cmocka_unit_test(events_that_may_not_be_read_are_a_finding),
        cmocka_unit_test(tells_what_applications_name),
        cmocka_unit_test(health_is_assessed_before_redaction),
        cmocka_unit_test(details_make_other_digests),
        cmocka_unit_test(names_what_is_not_at_hand),
        cmocka_unit_test(lost_rights_are_shown),
        cmocka_unit_test(tells_changes_and_deletions),
        cmocka_unit_test(resync_is_a_new_snapshot),
        cmocka_unit_test(refused_records_are_named_in_every_snapshot),
        cmocka_unit_test(next_stream_begins_anew),
        cmocka_unit_test(unchanged_is_not_told_again),
        cmocka_unit_test(wanted_objects_are_told),
        cmocka_unit_test(what_found_no_room_is_offered_again),
        cmocka_unit_test(quiet_is_not_behind),
        cmocka_unit_test(the_platform_may_want_everything),
        cmocka_unit_test(a_platform_that_is_never_content_has_to_wait),
        cmocka_unit_test(an_api_server_that_hangs_is_not_believed),
        cmocka_unit_test(an_api_server_without_its_storage_is_not_believed),
        cmocka_unit_test(what_cannot_be_read_is_found),
        cmocka_unit_test(words_that_are_not_the_platforms_end_the_stream),
        cmocka_unit_test(a_right_that_is_lost_deletes_nothing),
        cmocka_unit_test(without_applications_nothing_is_concluded),
        cmocka_unit_test(a_kind_nobody_tells_the_name_of_is_not_empty),
        cmocka_unit_test(what_finds_no_room_is_not_taken_for_gone),
        cmocka_unit_test(forbidden_kinds_do_not_hold_the_snapshot),
        cmocka_unit_test(failing_kinds_hold_the_snapshot_but_nothing_else),
        cmocka_unit_test(slow_platform_is_waited_for),
        cmocka_unit_test(nonsense_acknowledgements_end_the_stream),
        cmocka_unit_test(wrong_configuration_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
