// stored_route: paths of REST that are stored GraphQL documents, so that both answer the same. They
// are declared in modules/<noun>/<noun>.rest; a route begins with its first line:
//   route: GET /v1/things/{name}    {name} is the variable $name of the document
//   summary: One thing              for the OpenAPI document
//   answer: thing                   the member of data that is the answer; a.b, a.0: inside; @: all
//   tool: list_things               also a tool of this name for language models (mcp.h)
//   status: 200                     of the answer; the default
//   text: yes                       the answer is a string, sent as text/plain
//   body: input                     the body is the variable $input; else its members are variables
//   account: id                     {id} must be the caller's account; it is no variable
//   lenient: yes                    names in body and query string that are no variables are
//                                   ignored; body, query: there alone
//   document:                       to the end of the route
// What is no part of the path comes of the query string or, unless the method is GET, of the body.
// Lists ($first: Int, $after: String) are answered as {"items", "next"}. Made once; constant after
// that, any thread.
#ifndef CULVERT_API_REST_STORED_ROUTE_H
#define CULVERT_API_REST_STORED_ROUTE_H

#include "api/graphql/document.h"
#include "api/graphql/schema.h"
#include "api/http/route.h"
#include "base/arena.h"

struct stored_route {
    struct api_route route;
    struct str summary, answer, text, document_text;
    struct str tool;    // empty: none
    struct str body;    // the variable; empty: members are variables
    struct str account; // the part of the path; empty: none
    int status;
    bool is_lenient, is_query_lenient, is_text;
    struct gql_document document;
};

struct stored_routes {
    struct arena *arena;
    struct stored_route *list;
    size_t count;
    struct str openapi; // the document, JSON: openapi_write()
    struct str tools;   // JSON: mcp_write_tools()
};

// ERROR_INVALID: where the text is wrong, or which document is not valid.
MUST_CHECK enum error_code stored_routes_create(struct str text, const struct gql_schema *schema,
                                                struct stored_routes **out, struct error *err);
void stored_routes_destroy(struct stored_routes *routes);

// The one of the router's entry.
const struct stored_route *stored_route_of(const struct api_route *route);
const struct gql_variable *stored_route_variable(const struct stored_route *route, struct str name);
// Is {name} a part of the path?
bool stored_route_has_part(const struct stored_route *route, struct str name);
// ERROR_INVALID: "<what>: invalid name", with the names of variables that it could be; those of the
// path are among them where they may be given there.
enum error_code stored_route_refuse_name(const struct stored_route *route, const char *what, struct str name,
                                         bool with_parts, struct error *err);
// The part number i of the path, as it is named; empty behind the last one.
struct str stored_route_part(const struct stored_route *route, size_t i);

void rest_handle(struct api_request *request);
void rest_openapi(struct api_request *request);
void rest_page(struct api_request *request);
void rest_script(struct api_request *request);

#endif
