// app_proxy_graphql: answers the GraphQL of the app-proxy on the engine that the platform uses
// (api/graphql/). It reads Applications of the cluster, and runs changes as operations, which
// operations.allowed limits. Owned by the agent; one loop.
#ifndef CULVERT_AGENT_APP_PROXY_GRAPHQL_H
#define CULVERT_AGENT_APP_PROXY_GRAPHQL_H

#include "agent/kube/kube_client.h"
#include "agent/operations/operations.h"

struct app_proxy_graphql;

struct app_proxy_graphql_options { // everything outlives it
    struct kube_client *client;    // NULL: there is no cluster
    struct operations *operations;
    const char *version, *platform_host; // for versionInfo
};

struct app_proxy_graphql *app_proxy_graphql_create(struct loop *loop, const struct app_proxy_graphql_options *options);
// What has not been answered is answered first. NULL is fine.
void app_proxy_graphql_destroy(struct app_proxy_graphql *graphql);

// text: the body of a POST. on_answered exactly once, at once or later; body is valid during it.
void app_proxy_graphql_execute(struct app_proxy_graphql *graphql, struct str text, struct str user,
                               void (*on_answered)(void *arg, int status, struct str body), void *arg);

#endif
