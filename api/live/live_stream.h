// live_stream: one subscriber: its operation, its window, and the events that are sent to it, as
// server-sent events (GraphQL over SSE, distinct connections mode). Private to api/live.
//
//   OPENING --first event--> OPEN --reason to end--> ENDING --client took the last one--> (freed)
//      |                      |                        |
//      +--an error: answered--+--the client left-------+--> (freed when no statement is under way)
#ifndef CULVERT_API_LIVE_LIVE_STREAM_H
#define CULVERT_API_LIVE_LIVE_STREAM_H

#include "api/api.h"
#include "api/live/live_options.h"
#include "api/live/live_window.h"
#include "base/list.h"
#include "base/loop/timer.h"
#include "base/strbuf.h"

struct metric;
struct metric_family;

struct live {
    struct live_options options;
    struct api *api; // of the requests; set by the first
    struct list streams;
    struct list due, refreshes; // whose statement is to be run: for changes; only to read everything again
    size_t count;
    unsigned reads, turn;
    bool is_stopped;
    struct timer tick;
    struct metric *open, *frames, *deltas, *failed_reads, *bytes;
    struct metric_family *ended, *refused;
};

enum live_stream_state { LIVE_OPENING, LIVE_OPEN, LIVE_ENDING };

struct live_stream {
    struct list entry, due; // of the loop's; due: of one of both lists
    struct live *live;
    enum live_stream_state state;
    struct api_principal principal;
    struct access_rules *rules; // that limit it; NULL: none do
    char *query, *operation_name;
    json_t *variables;
    uint8_t operation[8]; // digest of the operation, the build and the account: part of event ids
    struct live_window window;
    struct live_event event;
    struct api_request *request; // OPENING: that is to be answered
    uint32_t *hint;              // the client's, while OPENING
    struct api_stream *out;      // NULL: not yet, or the client left
    bool is_ready;               // out takes a piece
    bool is_reading, is_counted;
    bool is_refresh;     // due is in the loop's refreshes
    struct strbuf piece; // that waits for is_ready
    uint64_t read_at_ms; // not before
    uint64_t refreshed_ms, beat_ms, written_ms;
    unsigned failures;
    struct timer timer;
    void *watched;
};

// Takes body; answers the request.
void live_stream_open(struct live *live, struct api_request *request, json_t *body);
// Its window has dirty keys: a statement is run as soon as it may.
void live_stream_touch(struct live_stream *stream);
void live_stream_run(struct live_stream *stream);
// Several times a second.
void live_stream_tick(struct live_stream *stream, uint64_t now_ms);
// With an error for the client; code NULL: none, it comes back. reason: a label.
void live_stream_end(struct live_stream *stream, const char *reason, const char *code, const char *text);

// Runs statements that are due while there is room.
void live_run_due(struct live *live);

#endif
