#include "agent/reports/redaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parse.h"

struct redaction {
    uint8_t key[REDACTION_KEY_BYTES];
};

// ---- the key -------------------------------------------------------------------------------------------------

static enum error_code read_key(int fd, const char *path, uint8_t key[REDACTION_KEY_BYTES], struct error *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode) || (about.st_mode & 07))
        return error_set(err, ERROR_INVALID, "%s: must be a file that others cannot read", path);
    ssize_t got;
    do
        got = read(fd, key, REDACTION_KEY_BYTES);
    while (got < 0 && errno == EINTR);
    if (got != REDACTION_KEY_BYTES || about.st_size != REDACTION_KEY_BYTES)
        return error_set(err, ERROR_INVALID, "%s: is no key of %d bytes", path, REDACTION_KEY_BYTES);
    return ERROR_NONE;
}

// Written whole under another name first, so that a crash leaves either no key or a good one.
static enum error_code make_key(const char *path, uint8_t key[REDACTION_KEY_BYTES], struct error *err)
{
    AUTO_FREE char *fresh = mem_printf("%s.%d", path, (int)getpid());
    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return error_set(err, ERROR_IO, "%s: %s", fresh, strerror(errno));
    id_random(key, REDACTION_KEY_BYTES);
    bool good = write(fd, key, REDACTION_KEY_BYTES) == REDACTION_KEY_BYTES && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    good = good && rename(fresh, path) == 0;
    if (good) return ERROR_NONE;
    int why = errno;
    unlink(fresh);
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(why));
}

struct redaction *redaction_create_with_key(const uint8_t key[REDACTION_KEY_BYTES])
{
    struct redaction *redaction = mem_zalloc(sizeof *redaction);
    memcpy(redaction->key, key, REDACTION_KEY_BYTES);
    return redaction;
}

struct redaction *redaction_create(const char *folder, struct error *err)
{
    uint8_t key[REDACTION_KEY_BYTES];
    enum error_code code = ERROR_NONE;
    if (!folder || !*folder) {
        id_random(key, sizeof key);
    } else {
        AUTO_FREE char *path = mem_printf("%s/redaction.key", folder);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            code = read_key(fd, path, key, err);
            close(fd);
        } else if (errno == ENOENT) {
            code = make_key(path, key, err);
        } else {
            code = error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        }
    }
    struct redaction *redaction = code == ERROR_NONE ? redaction_create_with_key(key) : NULL;
    explicit_bzero(key, sizeof key);
    return redaction;
}

void redaction_destroy(struct redaction *redaction)
{
    if (redaction) mem_free_secret(redaction, sizeof *redaction);
}

// ---- digests -------------------------------------------------------------------------------------------------

// Where in which object we are. The place is part of what is digested, so that equal values in two places do not show
// as equal.
struct place {
    const struct redaction *redaction;
    struct str kind, ns, name; // of the object
    struct str parent;         // key of the member that holds the current value
    const char *root_kind;
};

static json_t *digest(const struct place *place, struct str label, struct str value)
{
    char *text = mem_printf("%.*s%c%.*s%c%.*s%c%.*s%c", STR_ARG(place->kind), 0, STR_ARG(place->ns), 0,
                            STR_ARG(place->name), 0, STR_ARG(label), 0);
    size_t head = place->kind.len + place->ns.len + place->name.len + label.len + 4;
    text = mem_realloc(text, head + value.len + 1);
    if (value.len) memcpy(text + head, value.at, value.len);
    uint8_t mac[ID_SHA256_BYTES];
    id_hmac_sha256(str_of((const char *)place->redaction->key, REDACTION_KEY_BYTES), text, head + value.len, mac);
    mem_free_secret(text, head + value.len);
    char out[REDACTION_DIGEST_BYTES] = "hmac-sha256:";
    format_hex(mac, 16, out + 12);
    return json_string(out);
}

static json_t *digest_value(const struct place *place, struct str label, const json_t *value)
{
    if (json_is_string(value)) return digest(place, label, json_str(value));
    size_t len;
    char *text = json_canonical(value, &len);
    json_t *out = digest(place, label, str_of(text, len));
    mem_free_secret(text, len);
    return out;
}

static void digest_member(const struct place *place, json_t *object, const char *key, struct str label)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value)) json_object_set_new(object, key, digest_value(place, label, value));
}

// Every value of a map such as `data`.
static void digest_map(const struct place *place, json_t *map)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(map, next, key, value)
        json_object_set_new(map, key, digest_value(place, str_c(key), value));
}

// A text or a list of them, every word on its own; objects (arguments of an AnalysisRun) are walked instead.
static void digest_words(const struct place *place, json_t *object, const char *key)
{
    json_t *words = json_object_get(object, key);
    if (json_is_string(words)) digest_member(place, object, key, str_c(key));
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word) if (!json_is_object(word))
    {
        AUTO_FREE char *label = mem_printf("%s[%zu]", key, i);
        json_array_set_new(words, i, digest_value(place, str_c(label), word));
    }
}

// ---- Secrets -------------------------------------------------------------------------------------------------

static void copy_member(const json_t *from, json_t *to, const char *key)
{
    json_t *value = json_object_get(from, key);
    if (value) json_object_set(to, key, value);
}

static bool is_open_annotation(struct str key)
{
    return str_starts(key, STR("argocd.argoproj.io/")) || str_eq(key, STR("meta.helm.sh/release-name")) ||
           str_eq(key, STR("meta.helm.sh/release-namespace"));
}

static json_t *secret_metadata(const json_t *metadata)
{
    static const char *const open[] = {
        "name",   "namespace",      "uid", "creationTimestamp", "deletionTimestamp", "generation",
        "labels", "ownerReferences"};
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        copy_member(metadata, out, open[i]);
    json_t *annotations = json_object();
    const char *key;
    json_t *value;
    json_object_foreach(json_get_object(metadata, "annotations"), key,
                        value) if (is_open_annotation(str_c(key)) && json_is_string(value))
        json_object_set(annotations, key, value);
    if (json_object_size(annotations)) json_object_set(out, "annotations", annotations);
    json_decref(annotations);
    return out;
}

static void redact_secret(const struct place *place, json_t *object)
{
    static const char *const open[] = {"apiVersion", "kind", "type", "immutable"};
    static const char *const closed[] = {"data", "stringData"};
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        copy_member(object, out, open[i]);
    const json_t *metadata = json_get_object(object, "metadata");
    if (metadata) json_object_set_new(out, "metadata", secret_metadata(metadata));
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        json_t *map = json_get_object(object, closed[i]);
        if (!map) continue;
        digest_map(place, map);
        json_object_set(out, closed[i], map);
    }
    json_object_clear(object);
    json_object_update(object, out);
    json_decref(out);
}

// ---- everything else -----------------------------------------------------------------------------------------

static bool is_secret_member(struct str key)
{
    static const char *const words[] = {"secret",     "token",     "apikey",       "accesskey",       "accesskeyid",
                                        "secretkey",  "pwd",       "apitoken",     "bearertoken",     "credentials",
                                        "credential", "authtoken", "refreshtoken", "connectionstring"};
    static const char *const ends[] = {"password",  "passwd",      "passphrase", "privatekey",  "secretaccesskey",
                                       "secretkey", "accesstoken", "apikey",     "clientsecret"};
    char plain[64];
    size_t len = 0;
    for (size_t i = 0; i < key.len; i++) {
        char c = key.at[i];
        if (c == '-' || c == '_') continue;
        if (len == sizeof plain) return false;
        plain[len++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    struct str name = str_of(plain, len);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_eq(name, str_c(words[i]))) return true;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (str_ends(name, str_c(ends[i]))) return true;
    return false;
}

// Identities whose grammar the rules of a text would take for assignments ("my-token:1.2",
// "<application>:<group>/...").
static bool is_identity(struct str key, struct str parent)
{
    return str_eq(key, STR("image")) || str_eq(key, STR("imageID")) || str_eq(parent, STR("images")) ||
           str_eq(key, STR("argocd.argoproj.io/tracking-id"));
}

static json_t *scrub_string(const json_t *value, struct str key, struct str parent)
{
    struct str text = json_str(value);
    if (is_identity(key, parent)) return NULL;
    bool message = str_eq(key, STR("message")) || str_eq(parent, STR("annotations"));
    if (message && text.len > REDACTION_TEXT_BYTES_MAX) {
        size_t len = REDACTION_TEXT_BYTES_MAX;
        while (len && ((unsigned char)text.at[len] & 0xc0) == 0x80)
            len--;
        text.len = len;
    }
    struct strbuf out;
    strbuf_init(&out, text.len * 2 + 64);
    redaction_scrub(text, &out);
    bool same = str_eq(strbuf_str(&out), json_str(value));
    json_t *clean = same ? NULL : out.overflow ? json_string("***") : json_new_str(strbuf_str(&out));
    strbuf_finish(&out);
    return clean;
}

static bool looks_like(const json_t *object, const char *kind)
{
    return str_eq(json_get_str(object, "kind"), str_c(kind)) &&
           (json_get_object(object, "metadata") || json_get_object(object, "data") ||
            json_get_object(object, "stringData"));
}

// Texts that hold programs, patches, whole manifests or results; NULL: under any parent.
static const struct {
    const char *parent, *key;
} placed[] = {
    {NULL, "args"},  {NULL, "command"},       {NULL, "compressedNodes"}, {NULL, "manifests"},
    {NULL, "patch"}, {NULL, "templatePatch"}, {"script", "source"},      {"outputs", "result"},
    {"raw", "data"}, {"http", "body"},        {"web", "body"},           {"web", "jsonBody"},
};

// Copies of what an object was applied from, as several tools leave them.
static void drop_applied(json_t *annotations)
{
    static const struct str ends[] = {
        {"last-applied-configuration", 26}, {"last-applied", 12}, {"/applied", 8}, {"/original", 9}};
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(annotations, next, key, value)
    {
        bool drop = false;
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
            drop = drop || str_ends(str_c(key), ends[i]);
        if (drop) json_object_del(annotations, key);
    }
}

// Members that are secret because of where they are.
static void redact_members(const struct place *place, json_t *object)
{
    json_object_del(object, "managedFields");
    bool pair = json_is_string(json_object_get(object, "name")) || str_eq(place->parent, STR("headers"));
    if (pair && !str_eq(place->parent, STR("info"))) {
        struct str name = json_get_str(object, "name");
        digest_member(place, object, "value", name);
        digest_member(place, object, "default", name);
    }
    json_t *string_data = json_get_object(object, "stringData");
    if (string_data) digest_map(place, string_data);
    digest_member(place, object, "valuesObject", STR("valuesObject"));
    if (str_eq(place->parent, STR("helm")) ||
        (place->root_kind && strcmp(place->root_kind, "HelmRelease") == 0 && str_eq(place->parent, STR("spec"))))
        digest_member(place, object, "values", STR("values"));
    for (size_t i = 0; i < sizeof placed / sizeof placed[0]; i++)
        if (!placed[i].parent || str_eq(place->parent, str_c(placed[i].parent)))
            digest_words(place, object, placed[i].key);
    if (str_eq(json_get_str(object, "kind"), STR("Secret"))) digest_member(place, object, "message", STR("message"));
    if (str_eq(place->parent, STR("annotations"))) drop_applied(object);
    if (looks_like(object, "ConfigMap")) {
        static const char *const closed[] = {"data", "binaryData"};
        for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
            if (json_get_object(object, closed[i])) digest_map(place, json_get_object(object, closed[i]));
    }
}

// Depth is bounded by the decoder's limit.
static void walk(const struct place *place, json_t *value)
{
    struct place here = *place;
    size_t i;
    json_t *member;
    json_array_foreach(value, i, member)
    {
        json_t *clean = json_is_string(member) ? scrub_string(member, STR_EMPTY, place->parent) : NULL;
        if (clean)
            json_array_set_new(value, i, clean);
        else
            walk(place, member);
    }
    if (!json_is_object(value)) return;
    if (looks_like(value, "Secret")) {
        redact_secret(place, value);
        return;
    }
    redact_members(place, value);
    const char *key;
    void *next;
    json_object_foreach_safe(value, next, key, member)
    {
        here.parent = str_c(key);
        if (!json_is_string(member)) {
            walk(&here, member);
            continue;
        }
        json_t *clean = is_secret_member(here.parent) ? digest_value(place, here.parent, member)
                                                      : scrub_string(member, here.parent, place->parent);
        if (clean) json_object_set_new(value, key, clean);
    }
}

void redaction_apply(const struct redaction *redaction, json_t *object)
{
    // The identity outlives the walk as copies: redacting a Secret rebuilds the object.
    json_t *metadata = json_get_object(object, "metadata");
    struct str kind = json_get_str(object, "kind"), ns = json_get_str(metadata, "namespace"),
               name = json_get_str(metadata, "name");
    // What an object without a kind holds is unknown: it is treated as the worst.
    if (kind.len == 0) json_object_set_new(object, "kind", json_string("Secret"));
    if (!metadata) json_object_set_new(object, "metadata", json_object());
    kind = json_get_str(object, "kind");
    AUTO_FREE char *kind_copy = mem_strndup(kind.at, kind.len);
    AUTO_FREE char *ns_copy = mem_strndup(ns.at ? ns.at : "", ns.len);
    AUTO_FREE char *name_copy = mem_strndup(name.at ? name.at : "", name.len);
    struct place place = {.redaction = redaction,
                          .kind = str_c(kind_copy),
                          .ns = str_c(ns_copy),
                          .name = str_c(name_copy),
                          .root_kind = kind_copy};
    walk(&place, object);
    // A Secret's open annotations are texts, too.
    json_t *annotations = json_path(object, "metadata", "annotations", NULL);
    const char *key;
    json_t *value;
    json_object_foreach(annotations, key, value)
    {
        json_t *clean = json_is_string(value) ? scrub_string(value, str_c(key), STR("annotations")) : NULL;
        if (clean) json_object_set_new(annotations, key, clean);
    }
}
