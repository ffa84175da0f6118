// runtimes: the resolvers and routes of the module, which stand in several files. Private to
// modules/runtimes/.
#ifndef CULVERT_MODULES_RUNTIMES_RUNTIMES_H
#define CULVERT_MODULES_RUNTIMES_RUNTIMES_H

#include "api/http/request.h"
#include "api/resolvers.h"

void runtimes_resolve_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_runtimes(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_runtime_tokens(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_create_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_delete_runtime(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_create_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_rotate_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_revoke_runtime_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_enrollment_tokens(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_create_enrollment_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_revoke_enrollment_token(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_report_runtime_errors(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_save_sealing_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_store_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
void runtimes_resolve_get_sealing_key(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);

void runtimes_event_source_error(struct api_request *request);

// How long a token shall live, in seconds in the input and milliseconds in *out; 0: for ever, as
// when nothing is given.
MUST_CHECK enum error_code runtimes_token_life(const json_t *input, const char *name, uint64_t *out, struct error *err);

#endif
