// resolvers: what resolvers of root fields share; they stand in the modules. Each asks a store for
// whole entities (JSON in the shape of their type); what of them is answered is the execution's
// business. ctx is the api_request.
#ifndef CULVERT_API_RESOLVERS_H
#define CULVERT_API_RESOLVERS_H

#include "api/graphql/execution.h"
#include "api/http/request.h"
#include "storage/sql/store.h"

// Who may use a root field (gql_resolver.access): a query needs the permission to read, a mutation
// that to write, or the one that is named here (access/permission.h).
enum api_access {
    API_USERS = 1,
    // And runtime tokens: such a field shows and changes nothing but what is of that runtime. Its
    // resolver sees to it.
    API_RUNTIMES_TOO,
    API_ADMINS,
    // The user's own credentials: any role.
    API_OWN,
};

// A resolver that waits for a store.
struct api_pending {
    struct api_request *request;
    gql_resolved on_resolved;
    void *arg;
    char name[256]; // of what it is about, for messages
};
struct api_pending *api_pending_create(struct api_request *request, gql_resolved on_resolved, void *arg);

// gql_request.admit; ctx is the api_request.
MUST_CHECK enum error_code api_admit(void *ctx, const struct gql_resolver *resolver, struct error *err);
// False: the caller is a runtime, and another one than this, which it does not get to know of.
bool api_sees_runtime(const struct api_request *request, struct str runtime);
// The runtime that the caller is; empty for users.
struct str api_own_runtime(const struct api_request *request);

// A row that a statement gave as JSON text; *out is NULL for none, or with an error. Returns err, or
// *memory with ERROR_INTERNAL when the text cannot be read.
const struct error *api_decode_node(const struct error *err, struct str node, json_t **out, struct error *memory);
// The stores' callbacks for one entity and for a slice of them; arg is the api_pending.
void api_resolved_node(void *arg, const struct error *err, struct str node);
void api_resolved_slice(void *arg, const struct error *err, const struct store_slice *slice);

// SlicePaginationArgs of a resolver. ERROR_INVALID: first or last is out of bounds, or both are there.
MUST_CHECK enum error_code api_page_of(const json_t *arguments, struct store_page *out, struct error *err);
// The same. False when first or last is out of bounds, or both are there: that was answered.
bool api_page_or_answer(const json_t *arguments, struct store_page *out, gql_resolved on_resolved, void *arg);

// A slice without edges.
json_t *api_empty_slice(void);

#endif
