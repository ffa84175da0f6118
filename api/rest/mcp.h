// mcp: the Model Context Protocol (versions 2025-06-18 and 2025-11-25), with which assistants ask
// the API. Its tools are the stored routes that name one; a call executes the route's document as
// the caller, with the same permissions. Transport: Streamable HTTP at POST /mcp without sessions;
// each answer is one JSON object, never a stream of events.
#ifndef CULVERT_API_REST_MCP_H
#define CULVERT_API_REST_MCP_H

#include "api/rest/stored_route.h"

struct api_request;

// Sets routes->tools.
void mcp_write_tools(struct stored_routes *routes, const struct gql_schema *schema);
void mcp_handle(struct api_request *request);

#endif
