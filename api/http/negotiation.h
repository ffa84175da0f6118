// negotiation: what a client accepts (RFC 9110, section 12.5), and the fields of a query string.
// Pure; any thread.
#ifndef CULVERT_API_HTTP_NEGOTIATION_H
#define CULVERT_API_HTTP_NEGOTIATION_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

// The media type of an answer to a GraphQL request (GraphQL over HTTP, section 6.3).
enum graphql_media {
    GRAPHQL_MEDIA_JSON,      // application/json, for clients that name nothing or anything
    GRAPHQL_MEDIA_JSON_ONLY, // that name this one alone: 200 where a well-formed request fails
    GRAPHQL_MEDIA_RESPONSE,  // application/graphql-response+json
    GRAPHQL_MEDIA_EVENTS,    // text/event-stream, where it is preferred: subscriptions
};
enum graphql_media negotiate_media(struct str accept);

enum content_coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD };
enum content_coding negotiate_coding(struct str accept_encoding);

// A field of application/x-www-form-urlencoded, decoded into the arena; *out stays when it is
// absent. ERROR_INVALID: an incomplete escape, a NUL, or the field is there twice.
MUST_CHECK enum error_code query_field(struct str query, struct str name, struct arena *arena, struct str *out,
                                       struct error *err);
// Of its value: %41 is A, and where it is of a form + is a space. ERROR_INVALID: an escape that
// is none, or %00.
MUST_CHECK enum error_code query_unescape(struct str text, struct str name, bool is_form, struct arena *arena,
                                          struct str *out, struct error *err);

#endif
