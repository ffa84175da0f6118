#include "agent/kube/kube_exec.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log/log.h"
#include "base/loop/timer.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/strbuf.h"

enum { TIMEOUT_MS = 30000, RETRY_BASE_MS = 1000, RETRY_CAP_MS = 60000, RENEW_BEFORE_MS = 60000, ENV_MAX = 4000 };

extern char **environ;

// One run of the plugin. Lives until its handles are closed, also when the owner has gone.
struct run {
    struct kube_exec *owner; // NULL: its result is not wanted any more
    uv_process_t process;
    uv_pipe_t out;
    struct timer timer;
    struct strbuf text;
    char chunk[4096];
    int handles;
    pid_t group;        // of the program and what it started
    bool exited, ended; // the program; its output
    int64_t status;
    int signal;
    const char *stopped; // why it was killed; NULL: it was not
};

struct kube_exec {
    struct kube_exec_options options;
    struct kube_exec_credential credential;
    uint64_t generation, runs, retry_at_ms;
    bool is_refused, is_new; // new: nothing was run yet
    struct run *run;         // NULL: none
    struct backoff backoff;
    struct error failure; // of the last run
    bool is_reported;     // a request that waited for it was answered with the failure
};

// ---- what the kubeconfig says ----------------------------------------------------------------------------------

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i]) mem_free_secret(texts[i], strlen(texts[i]));
    mem_free(texts);
}

void kube_exec_spec_finish(struct kube_exec_spec *spec)
{
    mem_free(spec->api_version);
    mem_free(spec->command);
    free_texts(spec->args, spec->arg_count);
    free_texts(spec->env, spec->env_count);
    *spec = (struct kube_exec_spec){0};
}

static bool is_text(struct str text)
{
    return text.at && !str_has_byte(text, 0);
}

static enum error_code read_args(const json_t *exec, struct kube_exec_spec *out, struct error *err)
{
    const json_t *args = json_get_array(exec, "args");
    size_t count = json_array_size(args);
    if (count > KUBE_EXEC_ARGS_MAX)
        return error_set(err, ERROR_TOO_LARGE, "exec.args: more than %d", KUBE_EXEC_ARGS_MAX);
    out->args = mem_array(count + 1, sizeof *out->args);
    for (size_t i = 0; i < count; i++) {
        struct str arg = json_str(json_array_get(args, i));
        if (!is_text(arg)) return error_set(err, ERROR_INVALID, "exec.args: must be strings");
        out->args[out->arg_count++] = mem_strndup(arg.at, arg.len);
    }
    return ERROR_NONE;
}

static enum error_code read_env(const json_t *exec, struct kube_exec_spec *out, struct error *err)
{
    const json_t *env = json_get_array(exec, "env");
    size_t count = json_array_size(env);
    if (count > KUBE_EXEC_ENV_MAX) return error_set(err, ERROR_TOO_LARGE, "exec.env: more than %d", KUBE_EXEC_ENV_MAX);
    out->env = mem_array(count + 1, sizeof *out->env);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(env, i);
        struct str name = json_get_str(entry, "name"), value = json_get_str(entry, "value");
        if (!name.len || !is_text(name) || str_has_byte(name, '=') || (value.len && !is_text(value)))
            return error_set(err, ERROR_INVALID, "exec.env: must be entries with name and value");
        out->env[out->env_count++] = mem_printf("%.*s=%.*s", STR_ARG(name), STR_ARG(value));
    }
    return ERROR_NONE;
}

static enum error_code read_spec(const json_t *exec, const char *folder, struct kube_exec_spec *out, struct error *err)
{
    struct str version = json_get_str(exec, "apiVersion"), command = json_get_str(exec, "command");
    struct str mode = json_get_str(exec, "interactiveMode");
    if (!str_eq(version, STR("client.authentication.k8s.io/v1")) &&
        !str_eq(version, STR("client.authentication.k8s.io/v1beta1")))
        return error_set(err, ERROR_INVALID,
                         "exec.apiVersion: must be client.authentication.k8s.io/v1 or v1beta1; update the plugin's "
                         "entry in the kubeconfig");
    if (!command.len || !is_text(command)) return error_set(err, ERROR_INVALID, "exec.command is not set");
    if (str_eq(mode, STR("Always")))
        return error_set(err, ERROR_INVALID, "exec.interactiveMode: Always: not supported, an agent has no terminal");
    out->api_version = mem_strndup(version.at, version.len);
    // With a slash in it, it is a path, and starts at the kubeconfig's folder; else PATH is searched.
    bool is_relative = str_has_byte(command, '/') && command.at[0] != '/' && folder && *folder;
    out->command = is_relative ? mem_printf("%s/%.*s", folder, STR_ARG(command)) : mem_strndup(command.at, command.len);
    out->wants_cluster = str_eq_nocase(json_get_str(exec, "provideClusterInfo"), STR("true"));
    enum error_code code = read_args(exec, out, err);
    return code == ERROR_NONE ? read_env(exec, out, err) : code;
}

enum error_code kube_exec_spec_read(const json_t *exec, const char *folder, struct kube_exec_spec *out,
                                    struct error *err)
{
    struct kube_exec_spec spec = {0};
    enum error_code code = read_spec(exec, folder, &spec, err);
    if (code == ERROR_NONE)
        *out = spec;
    else
        kube_exec_spec_finish(&spec);
    return code;
}

// ---- what a plugin printed -------------------------------------------------------------------------------------

static void free_secret(char *text)
{
    if (text) mem_free_secret(text, strlen(text));
}

void kube_exec_credential_finish(struct kube_exec_credential *credential)
{
    free_secret(credential->token);
    free_secret(credential->certificate_pem);
    free_secret(credential->key_pem);
    *credential = (struct kube_exec_credential){0};
}

// A token becomes part of a header.
static bool is_token(struct str token)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] > '~') return false;
    return true;
}

static char *copy_pem(struct str text)
{
    return text.len && is_text(text) ? mem_strndup(text.at, text.len) : NULL;
}

static enum error_code read_status(const json_t *value, const char *api_version, struct kube_exec_credential *out,
                                   struct error *err)
{
    const json_t *status = json_get_object(value, "status");
    if (!str_eq(json_get_str(value, "kind"), STR("ExecCredential")))
        return error_set(err, ERROR_INVALID, "did not print an ExecCredential");
    if (!str_eq(json_get_str(value, "apiVersion"), str_c(api_version)))
        return error_set(err, ERROR_INVALID, "printed an ExecCredential of another apiVersion than %s", api_version);
    struct str token = json_get_str(status, "token"), expires = json_get_str(status, "expirationTimestamp");
    if (!is_token(token)) return error_set(err, ERROR_INVALID, "status.token must be plain text");
    if (expires.len && clock_parse_rfc3339(expires, &out->expires_at_ms, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "status.expirationTimestamp must be an RFC 3339 time");
    if (token.len) out->token = mem_strndup(token.at, token.len);
    out->certificate_pem = copy_pem(json_get_str(status, "clientCertificateData"));
    out->key_pem = copy_pem(json_get_str(status, "clientKeyData"));
    if (!out->certificate_pem != !out->key_pem)
        return error_set(err, ERROR_INVALID, "status.clientCertificateData and clientKeyData must be set together");
    if (!out->token && !out->key_pem) return error_set(err, ERROR_INVALID, "printed neither token nor certificate");
    if (expires.len && out->expires_at_ms <= clock_wall_ms())
        return error_set(err, ERROR_INVALID, "printed a credential that has expired");
    return ERROR_NONE;
}

enum error_code kube_exec_credential_read(struct str text, const char *api_version, struct kube_exec_credential *out,
                                          struct error *err)
{
    static const struct json_limits limits = {.bytes_max = KUBE_EXEC_BYTES_MAX, .depth_max = 16, .tokens_max = 1000};
    json_t *value;
    if (json_decode(text, &limits, &value, NULL) != ERROR_NONE)
        return error_set(err, ERROR_INVALID, "did not print JSON");
    struct kube_exec_credential credential = {0};
    enum error_code code = read_status(value, api_version, &credential, err);
    json_decref(value);
    if (code == ERROR_NONE)
        *out = credential;
    else
        kube_exec_credential_finish(&credential);
    return code;
}

// ---- one run ---------------------------------------------------------------------------------------------------

static void on_handle_closed(uv_handle_t *handle)
{
    struct run *run = handle->data;
    if (--run->handles) return;
    if (run->text.at) explicit_bzero(run->text.at, run->text.len);
    strbuf_finish(&run->text);
    explicit_bzero(run->chunk, sizeof run->chunk);
    mem_free(run);
}

static void run_close(struct run *run)
{
    uv_close((uv_handle_t *)&run->process, on_handle_closed);
    uv_close((uv_handle_t *)&run->out, on_handle_closed);
    timer_finish(&run->timer);
}

// With all that it started: it has a session of its own.
static void run_kill(struct run *run, const char *why)
{
    if (run->stopped) return;
    run->stopped = why;
    if (run->group > 0) kill(-run->group, SIGKILL);
}

static void fail(struct kube_exec *exec, enum error_code code, const char *why)
{
    error_set(&exec->failure, code, "exec plugin %s: %s", exec->options.spec->command, why);
    exec->is_reported = false;
    exec->retry_at_ms = clock_mono_ms() + exec->backoff.base_ms + backoff_next_ms(&exec->backoff);
    log_error("kube", "credential_missing", log_err(&exec->failure));
}

static void take_result(struct kube_exec *exec, struct run *run)
{
    struct kube_exec_credential credential;
    struct error err;
    enum error_code code = ERROR_NONE;
    if (run->stopped)
        code = error_set(&err, ERROR_TIMEOUT, "%s", run->stopped);
    else if (run->status || run->signal)
        code = error_set(&err, ERROR_IO, "ended with status %d, signal %d", (int)run->status, run->signal);
    else
        code = kube_exec_credential_read(strbuf_str(&run->text), exec->options.spec->api_version, &credential, &err);
    if (code != ERROR_NONE) {
        fail(exec, code, err.text);
        return;
    }
    kube_exec_credential_finish(&exec->credential);
    exec->credential = credential;
    exec->generation++;
    exec->is_refused = false;
    exec->failure = (struct error){0};
    log_info(
        "kube", "credential_renewed", log_c("plugin", exec->options.spec->command),
        log_int("expires_in_s", credential.expires_at_ms ? (credential.expires_at_ms - clock_wall_ms()) / 1000 : 0));
}

static void run_finish(struct run *run)
{
    struct kube_exec *exec = run->owner;
    if (exec) {
        exec->run = NULL;
        take_result(exec, run);
    }
    run->owner = NULL;
    run_close(run);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct run *run = process->data;
    run->exited = true;
    run->status = status;
    run->signal = signal;
    if (run->ended || run->stopped) run_finish(run);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct run *run = handle->data;
    (void)wanted;
    *out = uv_buf_init(run->chunk, sizeof run->chunk);
}

static void on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct run *run = stream->data;
    if (got > 0) {
        if (!strbuf_add(&run->text, buffer->base, (size_t)got)) run_kill(run, "printed more than 256 KiB");
        return;
    }
    if (got == 0) return;
    uv_read_stop(stream);
    run->ended = true;
    if (run->exited) run_finish(run);
}

static void on_timeout(void *arg)
{
    struct run *run = arg;
    run_kill(run, "did not end in time (kubeconfig.exec_timeout)");
    // What it started may keep the output open, elsewhere than in its session.
    if (run->exited) run_finish(run);
}

// ---- starting --------------------------------------------------------------------------------------------------

static char *make_info(const struct kube_exec *exec)
{
    const struct kube_exec_options *o = &exec->options;
    json_t *info = json_object(), *spec = json_object();
    json_object_set_new(info, "kind", json_string("ExecCredential"));
    json_object_set_new(info, "apiVersion", json_string(o->spec->api_version));
    json_object_set_new(spec, "interactive", json_false());
    if (o->spec->wants_cluster) {
        json_t *cluster = json_object();
        json_object_set_new(cluster, "server", json_string(o->server));
        if (o->ca_pem) {
            size_t len = strlen(o->ca_pem);
            AUTO_FREE char *text = mem_alloc((len + 2) / 3 * 4 + 1);
            format_base64((const uint8_t *)o->ca_pem, len, text);
            json_object_set_new(cluster, "certificate-authority-data", json_string(text));
        }
        json_object_set_new(spec, "cluster", cluster);
    }
    json_object_set_new(info, "spec", spec);
    char *text = json_dumps(info, JSON_COMPACT);
    char *line = mem_printf("KUBERNETES_EXEC_INFO=%s", text);
    free(text);
    json_decref(info);
    return line;
}

// The agent's environment without what is the agent's own, then the kubeconfig's. The last word is *out_info, owned by
// the caller as is the array.
static char **make_env(const struct kube_exec *exec, char **out_info)
{
    const struct kube_exec_spec *spec = exec->options.spec;
    size_t count = 0;
    char **env = mem_array(ENV_MAX + spec->env_count + 2, sizeof *env);
    for (char **word = environ; *word && count < ENV_MAX; word++)
        if (strncmp(*word, "CULVERT_", 8) != 0 && strncmp(*word, "KUBERNETES_EXEC_INFO=", 21) != 0)
            env[count++] = *word;
    for (size_t i = 0; i < spec->env_count; i++)
        env[count++] = spec->env[i];
    env[count++] = *out_info = make_info(exec);
    env[count] = NULL;
    return env;
}

static char **make_args(const struct kube_exec_spec *spec)
{
    char **args = mem_array(spec->arg_count + 2, sizeof *args);
    args[0] = spec->command;
    for (size_t i = 0; i < spec->arg_count; i++)
        args[i + 1] = spec->args[i];
    args[spec->arg_count + 1] = NULL;
    return args;
}

static int run_spawn(struct kube_exec *exec, struct run *run)
{
    char *info;
    char **env = make_env(exec, &info), **args = make_args(exec->options.spec);
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->out},
        {.flags = UV_IGNORE},
    };
    const uv_process_options_t options = {.exit_cb = on_exit_of,
                                          .file = args[0],
                                          .args = args,
                                          .env = env,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio_count = 3,
                                          .stdio = stdio};
    int rc = uv_spawn(loop_uv(exec->options.loop), &run->process, &options);
    mem_free(info);
    mem_free(env);
    mem_free(args);
    return rc;
}

static void run_start(struct kube_exec *exec)
{
    struct run *run = mem_zalloc(sizeof *run);
    exec->runs++;
    exec->is_new = false;
    exec->retry_at_ms = clock_mono_ms() + backoff_next_ms(&exec->backoff);
    run->owner = exec;
    run->handles = 2;
    strbuf_init(&run->text, KUBE_EXEC_BYTES_MAX);
    timer_init(&run->timer, loop_uv(exec->options.loop), on_timeout, run);
    uv_pipe_init(loop_uv(exec->options.loop), &run->out, 0);
    run->process.data = run->out.data = run;
    int rc = run_spawn(exec, run);
    if (rc != 0) {
        fail(exec, ERROR_IO, uv_strerror(rc));
        run->owner = NULL;
        run_close(run);
        return;
    }
    exec->run = run;
    run->group = run->process.pid;
    uv_read_start((uv_stream_t *)&run->out, on_alloc, on_output);
    timer_start(&run->timer, exec->options.timeout_ms, 0);
}

// ---- public ----------------------------------------------------------------------------------------------------

struct kube_exec *kube_exec_create(const struct kube_exec_options *options)
{
    struct kube_exec *exec = mem_zalloc(sizeof *exec);
    exec->options = *options;
    if (!exec->options.timeout_ms) exec->options.timeout_ms = TIMEOUT_MS;
    exec->is_new = true;
    backoff_init(&exec->backoff, options->retry_base_ms ? options->retry_base_ms : RETRY_BASE_MS,
                 options->retry_cap_ms ? options->retry_cap_ms : RETRY_CAP_MS);
    return exec;
}

void kube_exec_destroy(struct kube_exec *exec)
{
    if (!exec) return;
    if (exec->run) {
        exec->run->owner = NULL;
        run_kill(exec->run, "stopped");
        run_close(exec->run);
    }
    kube_exec_credential_finish(&exec->credential);
    mem_free(exec);
}

enum kube_exec_state kube_exec_want(struct kube_exec *exec, struct error *err)
{
    int64_t now_ms = clock_wall_ms(), expires_ms = exec->credential.expires_at_ms;
    bool is_valid = exec->generation && !exec->is_refused && (!expires_ms || now_ms < expires_ms);
    bool is_due = !is_valid || (expires_ms && now_ms >= expires_ms - RENEW_BEFORE_MS);
    if (!is_due) backoff_reset(&exec->backoff);
    bool has_failed = exec->failure.text[0] != 0;
    // Requests that waited for a run that failed end with its failure before there is another one.
    bool may_run = is_valid || !has_failed || exec->is_reported;
    if (is_due && may_run && !exec->run && (exec->is_new || clock_mono_ms() >= exec->retry_at_ms)) run_start(exec);
    if (is_valid) return KUBE_EXEC_READY;
    if (exec->run || !exec->failure.text[0]) return KUBE_EXEC_RUNNING;
    *err = exec->failure;
    exec->is_reported = true;
    return KUBE_EXEC_FAILED;
}

const struct kube_exec_credential *kube_exec_credential(const struct kube_exec *exec)
{
    return &exec->credential;
}

uint64_t kube_exec_generation(const struct kube_exec *exec)
{
    return exec->generation;
}

void kube_exec_refused(struct kube_exec *exec, uint64_t generation)
{
    if (generation == exec->generation) exec->is_refused = true;
}

uint64_t kube_exec_runs(const struct kube_exec *exec)
{
    return exec->runs;
}
