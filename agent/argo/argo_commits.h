// argo_commits: author, date and message of the commits that Applications are synced to and have in
// their history, as Argo CD's API gives them (metadata of a revision). Each commit of a repository
// is read once; the oldest are forgotten beyond a limit. Owned by the reporter; one loop.
#ifndef CULVERT_AGENT_ARGO_COMMITS_H
#define CULVERT_AGENT_ARGO_COMMITS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/argo/argo_api.h"
#include "base/str.h"

struct argo_commits;

struct argo_commits_options {
    struct argo_api *api;
    size_t commits_max;
    uint64_t retry_ms; // what could not be read is not asked for sooner
    // A commit of this Application has become known. Must not call back in.
    void (*on_known)(void *arg, struct str ns, struct str name);
    void *arg;
};

struct argo_commits *argo_commits_create(const struct argo_commits_options *options);
void argo_commits_destroy(struct argo_commits *commits);               // NULL is fine; no callbacks
void argo_commits_tick(struct argo_commits *commits, uint64_t now_ms); // a few times a second

// What is known of the commits that an Application names, in the form of the annotation
// app.meta.revisions-metadata: {"syncRevisions": [{"revision", "metadata": {"author", "date",
// "message"}}], one a source, "historyRevisions": [the same, with "repoURL"]}. NULL: nothing is.
// The caller's (json_decref). What is not known is asked for.
json_t *argo_commits_of(struct argo_commits *commits, const json_t *application);

#endif
