// execution: one GraphQL request from its text to the answer's text. Root fields are resolved by
// functions of the API, at the same time for a query, one after the other for a mutation; what they
// give is projected. No I/O of its own. On one loop.
#ifndef CULVERT_API_GRAPHQL_EXECUTION_H
#define CULVERT_API_GRAPHQL_EXECUTION_H

#include "api/graphql/projection.h"

// A resolver's answer: err, or value (its reference is taken; NULL is null). Exactly once, at once
// or later.
typedef void (*gql_resolved)(void *arg, const struct error *err, json_t *value);

// arguments are borrowed until resolved. ctx is the request's.
typedef void (*gql_resolve)(void *ctx, const json_t *arguments, gql_resolved on_resolved, void *arg);
// A field with what is selected of it, for resolvers that write the answer themselves. Valid until
// written.
struct gql_selected {
    struct gql_projection *projection;
    const struct gql_field_def *def;
    struct gql_collected *field;
    const json_t *arguments;
    size_t answer_bytes_max;
};
// Its answer: err, or the text of the field's value, whose memory is taken. Empty: null, because of
// a null inside that was noted. Exactly once, at once or later.
typedef void (*gql_written)(void *arg, const struct error *err, struct strbuf *text);
// with is the resolver's.
typedef void (*gql_resolve_selected)(void *ctx, const void *with, const struct gql_selected *selected,
                                     gql_written on_written, void *arg);

struct gql_resolver {
    enum gql_operation_kind kind;
    const char *field;
    gql_resolve resolve;
    unsigned access;   // what gql_request.admit decides by; not 0
    bool is_versioned; // of entities alone whose version is known; see gql_request.repeatable
    // Its clients read `data` alone: what is wrong with the request and refused before anything
    // changed is answered as a document that is not valid, with 400 and without data.
    bool is_strict;
    // In place of resolve.
    gql_resolve_selected resolve_selected;
    const void *with;
};

struct gql_request {
    struct str query, operation_name; // operation_name may be empty
    const json_t *variables;          // object or NULL
    const struct gql_schema *schema;
    const struct gql_resolver *resolvers;
    size_t resolver_count;
    const struct gql_limits *limits;
    size_t answer_bytes_max;
    bool mutations_allowed;     // false for GET
    bool subscriptions_allowed; // resolvers of kind GQL_SUBSCRIPTION give one event each time
    bool *is_mutation;          // set before it is answered; may be NULL
    void *ctx;                  // of the resolvers and of admit
    // May this field be resolved for the caller? Else it says why not. NULL: every one may.
    enum error_code (*admit)(void *ctx, const struct gql_resolver *resolver, struct error *err);
    // Around each resolver, when it begins: enter(ctx, resolver) before it, leave(leave_arg) behind
    // it, where ctx may be dead already. NULL, both: nothing.
    void (*enter)(void *ctx, const struct gql_resolver *resolver);
    void (*leave)(void *leave_arg);
    void *leave_arg;
    bool *repeatable; // set when it is answered: by versioned resolvers alone, without errors; may be NULL
};

// status: 400 when nothing ran (syntax, validation, variables), 405 for a mutation that is not
// allowed, else 200. body is valid during the call.
typedef void (*gql_answered)(void *arg, int status, struct str body);

// The request's texts are copied. on_answered exactly once, at once or later. There is no
// cancelling: resolvers answer within their own deadlines; a caller that left ignores the answer.
void gql_execute(const struct gql_request *request, gql_answered on_answered, void *arg);

#endif
