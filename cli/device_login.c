#include "cli/device_login.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/row.h"

#define CLIENT_ID  "culvert-cli"
#define GRANT_TYPE "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"

enum { REQUEST_MS = 30000, INTERVAL_S_MAX = 300, LIFE_S_MAX = 24 * 3600 };

// Of the answer to the first request.
struct device {
    char *form; // of every further request: has the device code
    int64_t interval_s;
    uint64_t ends_at_ms;
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void print_instructions(const json_t *answer)
{
    const char *complete = json_string_value(json_object_get(answer, "verification_uri_complete")),
               *code = json_string_value(json_object_get(answer, "user_code"));
    struct strbuf out;
    if (!complete) complete = json_string_value(json_object_get(answer, "verification_uri"));
    strbuf_init(&out, 16384);
    strbuf_addf(&out, "Open this page in a browser, check that it shows the code ");
    row_write_safe(str_c(code), false, &out);
    strbuf_addf(&out, ", and allow it:\n\n    ");
    row_write_safe(str_c(complete), false, &out);
    fprintf(stderr, "%.*s\n\n", (int)out.len, out.at ? out.at : "");
    strbuf_finish(&out);
}

static enum error_code begin(struct client *client, struct device *device, struct error *err)
{
    static const char begin_of_form[] = "grant_type=" GRANT_TYPE "&client_id=" CLIENT_ID "&device_code=";
    json_t *answer = NULL;
    long status = 0;
    enum error_code code = client_form(client, "/api/auth/device", "client_id=" CLIENT_ID, &status, &answer, err);
    if (code != ERROR_NONE) return code;
    struct str device_code = json_get_str(answer, "device_code");
    if (status == 404) {
        code = error_set(err, ERROR_NOT_FOUND, "the platform offers no sign-in in a browser; use --api-key-file FILE");
    } else if (status == 429) {
        code = error_set(err, ERROR_LIMITED, "%.*s", STR_ARG(json_get_str(answer, "error_description")));
    } else if (status != 200 || !device_code.len || !json_get_str(answer, "user_code").len ||
               !json_get_str(answer, "verification_uri").len) {
        code = error_set(err, ERROR_PROTOCOL, "the platform answers %ld to the beginning of a sign-in", status);
    } else {
        struct strbuf form;
        strbuf_init(&form, 4096);
        strbuf_add(&form, begin_of_form, sizeof begin_of_form - 1);
        client_escape(device_code, &form);
        device->form = mem_strndup(form.at, form.len);
        explicit_bzero(form.at, form.len);
        strbuf_finish(&form);
        device->interval_s = clamp(json_get_int(answer, "interval", 5), 1, INTERVAL_S_MAX);
        device->ends_at_ms =
            clock_mono_ms() + 1000 * (uint64_t)clamp(json_get_int(answer, "expires_in", 600), 1, LIFE_S_MAX);
        print_instructions(answer);
    }
    json_decref(answer);
    return code;
}

// ERROR_AGAIN: it is not decided yet.
static enum error_code poll_once(struct client *client, struct device *device, char **out_key, struct error *err)
{
    json_t *answer = NULL;
    long status = 0;
    enum error_code code = client_form(client, "/api/auth/token", device->form, &status, &answer, err);
    // The person may still be deciding: RFC 8628, section 3.5.
    if (code == ERROR_UNAVAILABLE || status == 503) {
        json_decref(answer);
        return error_set(err, ERROR_AGAIN, "the platform is not reached");
    }
    if (code != ERROR_NONE) return code;
    struct str key = json_get_str(answer, "access_token"), word = json_get_str(answer, "error");
    if (status == 200 && key.len && key.len <= CONTEXT_TOKEN_BYTES_MAX) {
        *out_key = mem_strndup(key.at, key.len);
    } else if (str_eq(word, STR("authorization_pending"))) {
        code = error_set(err, ERROR_AGAIN, "not decided yet");
    } else if (str_eq(word, STR("slow_down"))) {
        if (device->interval_s < INTERVAL_S_MAX) device->interval_s += 5;
        code = error_set(err, ERROR_AGAIN, "not decided yet");
    } else if (str_eq(word, STR("access_denied"))) {
        code = error_set(err, ERROR_UNAUTHENTICATED, "the sign-in was denied");
    } else if (str_eq(word, STR("expired_token"))) {
        code = error_set(err, ERROR_UNAUTHENTICATED, "the sign-in was not allowed in time; run the command again");
    } else {
        code = error_set(err, ERROR_UNAUTHENTICATED, "the platform refused the sign-in: %.*s",
                         STR_ARG(str_first(json_get_str(answer, "error_description"), 200)));
    }
    json_decref(answer);
    return code;
}

static void pause_for(int64_t seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    while (nanosleep(&left, &left) != 0)
        continue;
}

enum error_code device_login(const struct context *context, char **out_key, struct error *err)
{
    struct client *client;
    struct device device = {0};
    enum error_code code = client_create(context, REQUEST_MS, &client, err);
    if (code != ERROR_NONE) return code;
    code = begin(client, &device, err);
    if (code == ERROR_NONE) {
        do {
            pause_for(device.interval_s);
            code = poll_once(client, &device, out_key, err);
        } while (code == ERROR_AGAIN && clock_mono_ms() < device.ends_at_ms);
        if (code == ERROR_AGAIN)
            code = error_set(err, ERROR_UNAUTHENTICATED, "the sign-in was not allowed in time; run the command again");
    }
    if (device.form) mem_free_secret(device.form, strlen(device.form));
    client_destroy(client);
    return code;
}
