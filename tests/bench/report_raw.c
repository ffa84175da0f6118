// report_raw: the limit. The statements that culvertd would make of the same reports, with the same values, in
// transactions as large as its largest, made beforehand; then nothing but libpq's pipeline, one connection and thread a
// runtime, with a transaction always waiting behind the one that the server works on.
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "modules/modules.h"
#include "report_load.h"
#include "storage/pg/pg_batch.h"
#include "storage/pg/pg_setup.h"
#include "storage/reports/report_batch.h"

enum { PIPELINED = 2, STATEMENT_TIMEOUT_MS = 30000 };

struct raw_batch {
    struct pg_batch *pg;
    struct report_batch *meaning;
    size_t count;
};

struct raw {
    PGconn *conn;
    struct raw_batch *batches;
    size_t batch_count, batch_cap;
    struct report *reports; // of the batch that is being put together, with texts of their own
    char **texts;
    size_t waiting;
    uint64_t sequence;
    struct module_tables modules;
    struct manifest_known *known; // as culvertd has it
};

static void read_to_sync(struct report_lane *lane, struct raw_batch *batch)
{
    struct raw *raw = lane->way;
    for (;;) {
        PGresult *result = PQgetResult(raw->conn);
        if (!result) {
            if (PQstatus(raw->conn) == CONNECTION_BAD) client_die(PQerrorMessage(raw->conn));
            continue; // the end of one statement's answers
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            break;
        }
        if (!batch) {
            if (PQresultStatus(result) == PGRES_FATAL_ERROR) client_die(PQerrorMessage(raw->conn));
            PQclear(result);
            continue;
        }
        pg_batch_take(batch->pg, NULL, result); // no dynamic statements
    }
    if (batch && batch->pg->is_failed) client_die(batch->pg->error.text);
}

static void raw_open(struct report_load *load)
{
    for (size_t i = 0; i < load->lane_count; i++) {
        struct raw *raw = load->lanes[i].way = mem_zalloc(sizeof *raw);
        struct pg_setup setup;
        raw->known = manifest_known_create();
        module_tables_init(&raw->modules, modules);
        raw->conn = PQconnectdb(load->database);
        raw->reports = mem_array(load->batch_count, sizeof *raw->reports);
        raw->texts = mem_array(load->batch_count, sizeof *raw->texts);
        if (PQstatus(raw->conn) != CONNECTION_OK || PQenterPipelineMode(raw->conn) != 1 ||
            !pg_setup_send(&setup, raw->conn, STATEMENT_TIMEOUT_MS, false, ""))
            client_die(PQerrorMessage(raw->conn));
        read_to_sync(&load->lanes[i], NULL);
    }
}

// ---- before the run ------------------------------------------------------------------------------------------------

static void put_together(struct report_lane *lane)
{
    struct raw *raw = lane->way;
    if (!raw->waiting) return;
    if (raw->batch_count == raw->batch_cap) {
        raw->batch_cap = raw->batch_cap ? raw->batch_cap * 2 : 64;
        raw->batches = mem_realloc(raw->batches, raw->batch_cap * sizeof *raw->batches);
    }
    struct raw_batch *batch = &raw->batches[raw->batch_count++];
    batch->count = raw->waiting;
    batch->meaning = report_batch_create(raw->waiting);
    batch->pg = pg_batch_create(NULL, lane->account_id);
    report_batch_fill(batch->meaning, batch->pg, &raw->modules.report_kinds, raw->reports, raw->known, 0, NULL);
    report_batch_learn(batch->meaning, raw->known, 0);
    for (size_t i = 0; i < raw->waiting; i++)
        mem_free(raw->texts[i]);
    raw->waiting = 0;
}

static void raw_add(struct report_lane *lane, const struct report_mix_object *object)
{
    struct raw *raw = lane->way;
    struct report report = {
        .type = REPORT_OBJECT,
        .source = lane->load->as_http ? REPORT_FROM_HTTP : REPORT_FROM_TUNNEL,
        .account_id = str_c(lane->account_id),
        .runtime = str_c(lane->runtime),
        .epoch = lane->load->as_http ? 0 : 1,
        .sequence = lane->load->as_http ? 0 : ++raw->sequence,
        .ref = object->ref,
        .cluster = STR("in-cluster"),
        .application_ns = object->application_ns,
        .application_name = object->application_name,
        .sync_status = object->sync_status,
        .health_status = object->health_status,
        .observed_at_ms = lane->clock_ms,
        .manifest = object->manifest,
    };
    if (lane->load->as_http) {
        report.desired_manifest = report.git_manifest = report_mix_desired(lane->mix);
        report.repo_url = STR("https://git.example.com/shop/deploy.git");
        report.path = STR("apps/shop/main.yaml");
        report.revision = STR("0123456789abcdef0123456789abcdef01234567");
        report.commit_message = STR("Use the newer image");
        report.commit_author = STR("Ada <ada@example.com>");
        report.commit_date = STR("2026-11-20T10:00:00Z");
    }
    id_sha256(report.manifest.at, report.manifest.len, report.content_hash);
    raw->texts[raw->waiting] = mem_alloc(report_text_bytes(&report) + 1);
    report_copy_into(&raw->reports[raw->waiting], &report, raw->texts[raw->waiting]);
    raw->waiting++;
    size_t added = raw->batch_count * lane->load->batch_count + raw->waiting;
    if (raw->waiting == lane->load->batch_count || added == lane->count) put_together(lane);
}

// ---- the run -------------------------------------------------------------------------------------------------------

static void *run_lane(void *arg)
{
    struct report_lane *lane = arg;
    struct raw *raw = lane->way;
    size_t sent = 0, i = 0;
    for (size_t done = 0; done < raw->batch_count; done++) {
        for (; sent < raw->batch_count && sent < done + PIPELINED; sent++) {
            for (size_t n = 0; n < raw->batches[sent].count; n++)
                report_lane_tell(lane);
            if (!pg_batch_send(raw->batches[sent].pg, NULL, raw->conn)) client_die(PQerrorMessage(raw->conn));
        }
        struct raw_batch *batch = &raw->batches[done];
        read_to_sync(lane, batch);
        const struct report_outcome *outcomes = report_batch_outcomes(batch->meaning, batch->pg->results);
        for (size_t n = 0; n < batch->count; n++, i++) {
            if (outcomes[n].result == REPORT_REFUSED) lane->refused++;
            report_lane_durable(lane, i);
        }
    }
    return NULL;
}

static void raw_run(struct report_load *load)
{
    pthread_t threads[64];
    for (size_t i = 0; i < load->running; i++)
        if (pthread_create(&threads[i], NULL, run_lane, &load->lanes[i]) != 0) client_die("a thread");
    for (size_t i = 0; i < load->running; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < load->running; i++) {
        struct raw *raw = load->lanes[i].way;
        for (size_t b = 0; b < raw->batch_count; b++) {
            pg_batch_destroy(raw->batches[b].pg);
            report_batch_destroy(raw->batches[b].meaning);
        }
        raw->batch_count = 0;
    }
}

static void raw_close(struct report_load *load)
{
    for (size_t i = 0; i < load->lane_count; i++) {
        struct raw *raw = load->lanes[i].way;
        PQfinish(raw->conn);
        manifest_known_destroy(raw->known);
        module_tables_finish(&raw->modules);
        mem_free(raw->batches);
        mem_free(raw->reports);
        mem_free(raw->texts);
        mem_free(raw);
    }
}

const struct report_way report_way_raw = {.open = raw_open, .add = raw_add, .run = raw_run, .close = raw_close};
