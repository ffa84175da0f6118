#include "agent/argo/argo_commits.h"

#include "agent/reports/key_table.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/metrics/metrics.h"
#include "base/strbuf.h"
#include "tunnel/wire/redaction_scrub.h"

enum {
    AUTHOR_BYTES_MAX = 256,
    DATE_BYTES_MAX = 64,
    MESSAGE_BYTES_MAX = 1024,
    REPO_BYTES_MAX = 1024,
    HISTORY_MAX = 100,
    SOURCES_MAX = 20,
    WAITERS_MAX = 20000,
};

enum commit_state {
    COMMIT_WANTED, // in line
    COMMIT_ASKED,
    COMMIT_KNOWN,
    COMMIT_REFUSED, // it does not exist, or could not be read: wanted again after retry_ms
};

struct commit {
    struct argo_commits *commits;
    enum commit_state state;
    char *key, *path;
    struct argo_request *request;
    json_t *metadata; // author, date, message
    json_t *waiters;  // "ns/name" of Applications
    uint64_t refused_at_ms;
    struct commit *next, *previous; // in the order in which they were named first
};

struct argo_commits {
    struct argo_commits_options options;
    struct key_table *table; // by repository and revision
    struct commit *oldest, *newest;
    size_t wanted;
    struct metric *count;
};

struct argo_commits *argo_commits_create(const struct argo_commits_options *options)
{
    struct argo_commits *commits = mem_zalloc(sizeof *commits);
    commits->options = *options;
    commits->table = key_table_create();
    commits->count = metric_with(
        metrics_gauge("culvert_agent_argocd_commits", "Commits read from Argo CD's API that are kept.", NULL));
    return commits;
}

static void commit_free(struct commit *commit)
{
    struct argo_commits *commits = commit->commits;
    argo_request_cancel(commit->request);
    commits->wanted -= commit->state == COMMIT_WANTED;
    *(commit->previous ? &commit->previous->next : &commits->oldest) = commit->next;
    *(commit->next ? &commit->next->previous : &commits->newest) = commit->previous;
    key_table_remove(commits->table, str_c(commit->key));
    json_decref(commit->metadata);
    json_decref(commit->waiters);
    mem_free(commit->key);
    mem_free(commit->path);
    mem_free(commit);
}

void argo_commits_destroy(struct argo_commits *commits)
{
    if (!commits) return;
    while (commits->oldest)
        commit_free(commits->oldest);
    key_table_destroy(commits->table);
    mem_free(commits);
}

// -------------------------------------------------------------------------------------------------

static void set_state(struct commit *commit, enum commit_state state)
{
    commit->commits->wanted += (size_t)(state == COMMIT_WANTED) - (size_t)(commit->state == COMMIT_WANTED);
    commit->state = state;
}

// Written by the authors of commits: scrubbed like every text that leaves the cluster.
static void take_text(json_t *to, const char *name, const json_t *from, size_t bytes_max)
{
    struct str text = json_get_str(from, name);
    size_t len = text.len < bytes_max ? text.len : bytes_max;
    while (len && len < text.len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    struct strbuf scrubbed;
    strbuf_init(&scrubbed, bytes_max * 4);
    redaction_scrub(str_first(text, len), &scrubbed);
    if (!scrubbed.overflow && scrubbed.len) json_object_set_new(to, name, json_new_str(strbuf_str(&scrubbed)));
    strbuf_finish(&scrubbed);
}

static void on_metadata(void *arg, int status, json_t *value)
{
    struct commit *commit = arg;
    const struct argo_commits_options *o = &commit->commits->options;
    (void)status;
    commit->request = NULL;
    json_t *metadata = json_object();
    take_text(metadata, "author", value, AUTHOR_BYTES_MAX);
    take_text(metadata, "date", value, DATE_BYTES_MAX);
    take_text(metadata, "message", value, MESSAGE_BYTES_MAX);
    if (!json_object_size(metadata)) {
        json_decref(metadata);
        commit->refused_at_ms = clock_mono_ms();
        set_state(commit, COMMIT_REFUSED);
        return;
    }
    json_decref(commit->metadata);
    commit->metadata = metadata;
    set_state(commit, COMMIT_KNOWN);
    size_t i;
    json_t *waiter, *waiters = commit->waiters;
    commit->waiters = json_array();
    json_array_foreach(waiters, i, waiter)
    {
        struct str name = json_str(waiter), ns;
        if (str_cut(&name, '/', &ns)) o->on_known(o->arg, ns, name);
    }
    json_decref(waiters);
}

void argo_commits_tick(struct argo_commits *commits, uint64_t now_ms)
{
    metric_set(commits->count, (int64_t)key_table_count(commits->table));
    // The newest first: they are what people look at.
    struct commit *commit = commits->newest;
    while (commits->wanted && argo_api_is_free(commits->options.api, now_ms)) {
        while (commit && commit->state != COMMIT_WANTED)
            commit = commit->previous;
        if (!commit) return;
        commit->request = argo_api_get(commits->options.api, commit->path, on_metadata, commit);
        if (!commit->request) return;
        set_state(commit, COMMIT_ASKED);
    }
}

// -------------------------------------------------------------------------------------------------

static bool is_commit(struct str revision)
{
    for (size_t i = 0; i < revision.len; i++)
        if (!((revision.at[i] >= '0' && revision.at[i] <= '9') || (revision.at[i] >= 'a' && revision.at[i] <= 'f')))
            return false;
    return revision.len == 40 || revision.len == 64;
}

struct named {
    struct str ns, name; // of the Application
    struct str repo, revision;
    size_t index; // of the source
    bool is_multi;
    const json_t *history; // its entry; NULL: the revision that is synced
};

static char *path_of(const struct named *named)
{
    AUTO_FREE char *name = argo_api_escape(named->name), *ns = argo_api_escape(named->ns);
    struct strbuf path;
    strbuf_init(&path, 4096);
    strbuf_addf(&path, "/api/v1/applications/%s/revisions/%.*s/metadata?appNamespace=%s", name,
                STR_ARG(named->revision), ns);
    if (named->is_multi) strbuf_addf(&path, "&sourceIndex=%zu", named->index);
    if (named->history) strbuf_addf(&path, "&versionId=%lld", (long long)json_get_int(named->history, "id", 0));
    return strbuf_detach(&path);
}

static struct commit *commit_of(struct argo_commits *commits, const struct named *named)
{
    AUTO_FREE char *key = mem_printf("%.*s %.*s", STR_ARG(named->repo), STR_ARG(named->revision));
    struct commit *commit = key_table_get(commits->table, str_c(key));
    if (commit) return commit;
    while (key_table_count(commits->table) >= commits->options.commits_max)
        commit_free(commits->oldest);
    commit = mem_zalloc(sizeof *commit);
    commit->commits = commits;
    commit->key = mem_strdup(key);
    commit->path = path_of(named);
    commit->waiters = json_array();
    commits->wanted++; // COMMIT_WANTED
    commit->previous = commits->newest;
    *(commits->newest ? &commits->newest->next : &commits->oldest) = commit;
    commits->newest = commit;
    key_table_put(commits->table, str_c(key), commit);
    return commit;
}

static void wait_for(struct commit *commit, const struct named *named)
{
    AUTO_FREE char *key = mem_printf("%.*s/%.*s", STR_ARG(named->ns), STR_ARG(named->name));
    for (size_t i = 0; i < json_array_size(commit->waiters); i++)
        if (str_eq(json_str(json_array_get(commit->waiters, i)), str_c(key))) return;
    if (json_array_size(commit->waiters) < WAITERS_MAX) json_array_append_new(commit->waiters, json_string(key));
}

// NULL: not known (yet). Borrowed.
static json_t *metadata_of(struct argo_commits *commits, const struct named *named)
{
    if (!is_commit(named->revision) || !named->repo.len || named->repo.len > REPO_BYTES_MAX) return NULL;
    struct commit *commit = commit_of(commits, named);
    if (commit->state == COMMIT_REFUSED && clock_mono_ms() >= commit->refused_at_ms + commits->options.retry_ms) {
        mem_free(commit->path);
        commit->path = path_of(named);
        set_state(commit, COMMIT_WANTED);
    }
    if (commit->state != COMMIT_KNOWN) wait_for(commit, named);
    return commit->metadata;
}

// The revisions of spec and status, or of an entry of the history, one a source. Returns how many
// of them are known.
static size_t add_revisions(struct argo_commits *commits, struct named named, const json_t *from,
                            const json_t *revisions, json_t *out)
{
    const json_t *many = json_get_array(from, "sources");
    named.is_multi = json_array_size(many) > 0;
    size_t known = 0, count = named.is_multi ? json_array_size(many) : 1;
    for (named.index = 0; named.index < count && named.index < SOURCES_MAX; named.index++) {
        const json_t *source = named.is_multi ? json_array_get(many, named.index) : json_get_object(from, "source");
        named.repo = json_get_str(source, "repoURL");
        named.revision = named.is_multi ? json_str(json_array_get(json_get_array(revisions, "revisions"), named.index))
                                        : json_get_str(revisions, "revision");
        json_t *metadata = metadata_of(commits, &named), *entry = json_object();
        known += metadata != NULL;
        json_object_set_new(entry, "revision", json_new_str(named.revision));
        json_object_set_new(entry, "repoURL", json_new_str(named.repo));
        if (metadata) json_object_set(entry, "metadata", metadata);
        json_array_append_new(out, entry);
    }
    return known;
}

json_t *argo_commits_of(struct argo_commits *commits, const json_t *application)
{
    const json_t *metadata = json_get_object(application, "metadata"), *status = json_get_object(application, "status");
    struct named named = {.ns = json_get_str(metadata, "namespace"), .name = json_get_str(metadata, "name")};
    json_t *synced = json_array(), *before = json_array();
    size_t known =
        add_revisions(commits, named, json_get_object(application, "spec"), json_get_object(status, "sync"), synced);
    const json_t *history = json_get_array(status, "history");
    for (size_t i = 0; i < json_array_size(history) && i < HISTORY_MAX; i++) {
        named.history = json_array_get(history, i);
        known += add_revisions(commits, named, named.history, named.history, before);
    }
    if (known) return json_pack("{s:o, s:o}", "syncRevisions", synced, "historyRevisions", before);
    json_decref(synced);
    json_decref(before);
    return NULL;
}
