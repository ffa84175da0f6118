#include "modules/events/cloud_event_store.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/parse.h"
#include "culvert_statements.h"
#include "storage/manifests/manifest_blob.h"
#include "storage/sql/store_call.h"

struct cloud_event_call {
    store_count_done on_done;
    void *arg;
};

static void finish(struct cloud_event_call *call, const struct error *err, uint64_t count)
{
    call->on_done(call->arg, err, err ? 0 : count);
    mem_free(call);
}

static void on_put(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    struct cloud_event_call *call = arg;
    struct error gone;
    if (!err && pg_rows_count(&results[0]) == 0) {
        error_set(&gone, ERROR_NOT_FOUND, "the runtime was deleted");
        err = &gone;
    }
    finish(call, err, err || count < 2 ? 0 : pg_rows_affected(&results[1]));
}

static void event_key(const struct cloud_event *event, struct arena *arena, uint8_t out[ID_SHA256_BYTES])
{
    // A NUL between the two: neither can hold one.
    char *both = arena_alloc(arena, event->source.len + 1 + event->id.len);
    memcpy(both, event->source.at, event->source.len);
    memcpy(both + event->source.len + 1, event->id.at, event->id.len);
    id_sha256(both, event->source.len + 1 + event->id.len, out);
}

void cloud_event_store_put(struct pg *pg, const char *account_id, struct str runtime, const struct cloud_event *event,
                           store_count_done on_done, void *arg)
{
    struct arena *arena = arena_create(0);
    struct manifest_blob blob;
    uint8_t key[ID_SHA256_BYTES];
    char encoding[8], plain_bytes[24];
    event_key(event, arena, key);
    manifest_blob_make(&blob, event->json, arena);
    snprintf(encoding, sizeof encoding, "%d", (int)blob.encoding);
    snprintf(plain_bytes, sizeof plain_bytes, "%zu", blob.plain_bytes);
    struct pg_batch *batch = pg_batch_create(pg, account_id);
    pg_add(batch, cloud_event_runtime, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime));
    pg_add(batch, cloud_event_put, .account_id = pg_text(str_c(account_id)), .runtime = pg_text(runtime),
           .content = pg_bytea(blob.content.at, blob.content.len), .event_key = pg_bytea(key, sizeof key),
           .event_id = pg_text(event->id), .source = pg_text(event->source), .type = pg_text(event->type),
           .subject = pg_text_or_null(event->subject), .occurred_at = pg_text_or_null(event->time),
           .encoding = pg_text(str_c(encoding)), .plain_bytes = pg_text(str_c(plain_bytes)));
    struct cloud_event_call *call = mem_alloc(sizeof *call);
    *call = (struct cloud_event_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_put, call);
    arena_destroy(arena);
}

static void on_partitions(void *arg, const struct error *err, const struct pg_rows *results, size_t count)
{
    uint64_t dropped = 0;
    if (!err && count && parse_u64(pg_rows_get(&results[0], 0, 0), 0, INT32_MAX, &dropped, NULL) != ERROR_NONE)
        dropped = 0;
    finish(arg, err, dropped);
}

void cloud_event_store_partitions(struct pg *pg, unsigned keep_days, store_count_done on_done, void *arg)
{
    char days[16];
    snprintf(days, sizeof days, "%u", keep_days);
    struct pg_batch *batch = pg_batch_create(pg, NULL);
    pg_add(batch, cloud_event_partitions, .keep_days = pg_text(str_c(days)));
    struct cloud_event_call *call = mem_alloc(sizeof *call);
    *call = (struct cloud_event_call){on_done, arg};
    pg_batch_submit(batch, STORE_CHANGE_MS, on_partitions, call);
}
