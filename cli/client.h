// client: requests to the platform over HTTPS (libcurl). One thread; the program's one connection.
#ifndef CULVERT_CLI_CLIENT_H
#define CULVERT_CLI_CLIENT_H

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/context.h"

enum { CLIENT_ANSWER_BYTES_MAX = 64 * 1024 * 1024 };

struct client;

// timeout_ms: of one request. context lives longer than the client. Proxies are those of the
// environment (https_proxy, no_proxy).
MUST_CHECK enum error_code client_create(const struct context *context, unsigned timeout_ms, struct client **out,
                                         struct error *err);
void client_destroy(struct client *client);

// Sends a GraphQL document; variables (NULL: none) is taken over. *out_data is the answer's "data"
// (a new reference). Errors beside data are printed to stderr as warnings where the field "needed"
// has a value, and are the result where it has none.
//   ERROR_UNAVAILABLE  not reached, or the platform answers 502, 503, 504
//   ERROR_UNAUTHENTICATED, ERROR_FORBIDDEN, ERROR_NOT_FOUND, ERROR_LIMITED, ERROR_CONFLICT
//   ERROR_PROTOCOL     what answered is not the platform
//   ERROR_INTERNAL     any other refusal
MUST_CHECK enum error_code client_query(struct client *client, const char *document, json_t *variables,
                                        const char *needed, json_t **out_data, struct error *err);

// POST of a form (application/x-www-form-urlencoded) to a path below the platform's URL, without
// the key. *out: the answer's JSON object (a new reference), whatever its status.
// An answer that is no JSON object: an error as above.
MUST_CHECK enum error_code client_form(struct client *client, const char *path, const char *form, long *out_status,
                                       json_t **out, struct error *err);

typedef enum error_code (*client_line_fn)(void *arg, struct str line, struct error *err);

// GET of a path below the platform's URL, answered by lines of JSON (application/x-ndjson) for as
// long as they come; a minute without any ends it. on_line gets each as it arrives, without its line
// feed; its error ends the request. Errors as above.
MUST_CHECK enum error_code client_lines(struct client *client, const char *path, client_line_fn on_line, void *arg,
                                        struct error *err);
// GET of a URL of http or https that is no part of the platform's API: no key is sent. Appends the
// answer of status 200. ERROR_UNAVAILABLE: any other, or none in ten seconds.
MUST_CHECK enum error_code client_fetch(const char *url, struct strbuf *out, struct error *err);
// Appends text as a component of a query (RFC 3986, section 2.1).
void client_escape(struct str text, struct strbuf *out);

#endif
