#include "cli/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"

static char *default_path(void)
{
    const char *named = getenv("CULVERT_CLI_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (named && *named) return mem_strdup(named);
    if (xdg && *xdg) return mem_printf("%s/culvert/config.json", xdg);
    return mem_printf("%s/.config/culvert/config.json", home && *home ? home : ".");
}

// The whole of a small file; *out has a NUL behind it and is the caller's.
static enum error_code read_file(const char *path, size_t bytes_max, char **out, size_t *out_len, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        enum error_code code = errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID;
        return error_set(err, code, "%s: %s", path, strerror(errno));
    }
    char *text = mem_alloc(bytes_max + 2);
    size_t len = 0;
    ssize_t got;
    while (len <= bytes_max && (got = read(fd, text + len, bytes_max + 1 - len)) > 0)
        len += (size_t)got;
    close(fd);
    if (len > bytes_max) {
        mem_free_secret(text, bytes_max + 2);
        return error_set(err, ERROR_INVALID, "%s: longer than %zu bytes", path, bytes_max);
    }
    text[len] = '\0';
    *out = text;
    *out_len = len;
    return ERROR_NONE;
}

static void warn_of_readers(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && (status.st_mode & 077))
        fprintf(stderr, "warning: %s can be read by other users and may contain an API key; run: chmod 600 %s\n", path,
                path);
}

enum error_code context_file_read(struct context_file *out, struct error *err)
{
    *out = (struct context_file){.path = default_path()};
    char *text;
    size_t len;
    struct error problem;
    enum error_code code = read_file(out->path, CONTEXT_FILE_BYTES_MAX, &text, &len, &problem);
    if (code == ERROR_NOT_FOUND) {
        out->tree = json_pack("{s:{}}", "contexts");
        return ERROR_NONE;
    }
    if (code != ERROR_NONE) return error_set(err, code, "%s", problem.text);
    warn_of_readers(out->path);
    code = json_decode(str_of(text, len), NULL, &out->tree, &problem);
    mem_free_secret(text, len);
    if (code == ERROR_NONE && !json_is_object(json_object_get(out->tree, "contexts")))
        code = error_set(&problem, ERROR_INVALID, "no object \"contexts\"");
    return code == ERROR_NONE ? code : error_set(err, ERROR_INVALID, "%s: %s", out->path, problem.text);
}

void context_file_finish(struct context_file *file)
{
    mem_free(file->path);
    json_decref(file->tree);
    if (file->token) mem_free_secret(file->token, strlen(file->token));
}

// The folders above the file, those that are missing.
static void make_folders(const char *path)
{
    char *folder = mem_strdup(path);
    for (char *at = strchr(folder + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(folder, 0700); // one that is there stays; what fails is seen when the file is opened
        *at = '/';
    }
    mem_free(folder);
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t wrote = write(fd, text, len);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        text += wrote;
        len -= (size_t)wrote;
    }
    return fsync(fd) == 0;
}

enum error_code context_file_write(const struct context_file *file, struct error *err)
{
    make_folders(file->path);
    char *beside = mem_printf("%s.%ld", file->path, (long)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char *text = json_dumps(file->tree, JSON_INDENT(2) | JSON_SORT_KEYS);
    bool is_written = fd >= 0 && text && write_all(fd, text, strlen(text));
    int cause = errno;
    if (fd >= 0) close(fd);
    if (is_written && rename(beside, file->path) != 0) {
        cause = errno;
        is_written = false;
    }
    if (!is_written && fd >= 0) unlink(beside);
    if (text) mem_free_secret(text, strlen(text));
    mem_free(beside);
    if (is_written) return ERROR_NONE;
    return error_set(err, ERROR_INVALID, "%s could not be written: %s", file->path, strerror(cause));
}

static const char *text_of(const json_t *tree, const char *key)
{
    const char *text = json_string_value(json_object_get(tree, key));
    return text && *text ? text : NULL;
}

static const char *environment(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && *text ? text : otherwise;
}

// text: of a platform or an ingress listener; both are sent the key.
static enum error_code check_url(const char *text, struct error *err)
{
    struct str url = str_c(text);
    if (str_starts(url, STR("https://"))) return ERROR_NONE;
    if (!str_starts(url, STR("http://")))
        return error_set(err, ERROR_INVALID, "invalid URL \"%.200s\": must begin with \"https:\"", text);
    struct str rest = str_from(url, 7), authority;
    str_cut(&rest, '/', &authority);
    struct str host = authority;
    uint16_t port;
    if (parse_address(authority, &host, &port, NULL) != ERROR_NONE) host = authority;
    if (parse_is_loopback(host)) return ERROR_NONE;
    return error_set(err, ERROR_INVALID,
                     "invalid URL \"%.200s\": an API key is sent over HTTPS only, except on loopback", text);
}

static enum error_code read_token(struct context_file *file, struct context *context, struct error *err)
{
    if (context->token || !context->token_file) return ERROR_NONE;
    size_t len;
    char *text;
    enum error_code code = read_file(context->token_file, CONTEXT_TOKEN_BYTES_MAX, &text, &len, err);
    if (code != ERROR_NONE) return ERROR_INVALID;
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    file->token = text;
    context->token = text;
    return ERROR_NONE;
}

enum error_code context_file_choose(struct context_file *file, const char *name, struct context *out, struct error *err)
{
    const char *url = environment("CULVERT_URL", NULL);
    if (!name && !url) name = text_of(file->tree, "current");
    const json_t *tree = name ? json_object_get(json_object_get(file->tree, "contexts"), name) : NULL;
    if (name && !tree)
        return error_set(err, ERROR_INVALID, "there is no context \"%.100s\" in %s; see: culvert context list", name,
                         file->path);
    *out = (struct context){
        .name = name,
        .url = tree ? text_of(tree, "url") : url,
        .token = tree ? text_of(tree, "token") : NULL,
        .token_file = tree ? text_of(tree, "tokenFile") : NULL,
        .ca_file = tree ? text_of(tree, "caFile") : NULL,
        .runtime = text_of(tree, "runtime"),
        .namespace = text_of(tree, "namespace"),
        .ingress_url = text_of(tree, "ingressUrl"),
    };
    if (!tree) {
        out->token = environment("CULVERT_API_KEY", NULL);
        out->ca_file = environment("CULVERT_CA", NULL);
        out->ingress_url = environment("CULVERT_INGRESS_URL", NULL);
    }
    if (!out->url) return error_set(err, ERROR_INVALID, "no platform is configured; run: culvert login https://HOST");
    enum error_code code = check_url(out->url, err);
    if (code == ERROR_NONE && out->ingress_url) code = check_url(out->ingress_url, err);
    return code == ERROR_NONE ? read_token(file, out, err) : code;
}
