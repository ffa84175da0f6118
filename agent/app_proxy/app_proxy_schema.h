// app_proxy_schema: agent/app_proxy/app_proxy.graphql, compiled into the program.
#ifndef CULVERT_AGENT_APP_PROXY_SCHEMA_H
#define CULVERT_AGENT_APP_PROXY_SCHEMA_H

#include <stddef.h>

extern const char app_proxy_schema[]; // NUL-terminated
extern const size_t app_proxy_schema_bytes;

#endif
