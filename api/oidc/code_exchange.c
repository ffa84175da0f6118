#include "api/oidc/code_exchange.h"

#include "base/json/json.h"
#include "base/log/log.h"
#include "base/mem.h"

enum { FORM_BYTES_MAX = 16 * 1024, ERROR_WORD_BYTES_MAX = 60 };

struct exchange {
    struct identity_provider *provider;
    struct loop *loop;
    struct strbuf form;
    char *nonce;
    id_token_done on_done;
    void *arg;
};

void code_exchange_escape(struct strbuf *out, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                        (byte && strchr("-._~", byte));
        if (is_plain) {
            strbuf_add_byte(out, (char)byte);
        } else {
            const char escape[] = {'%', digits[byte >> 4], digits[byte & 15]};
            strbuf_add(out, escape, sizeof escape);
        }
    }
}

static void finish(struct exchange *exchange, const struct error *err, const json_t *claims)
{
    exchange->on_done(exchange->arg, err, claims);
    if (exchange->form.at) explicit_bzero(exchange->form.at, exchange->form.len);
    strbuf_finish(&exchange->form);
    mem_free(exchange->nonce);
    mem_free(exchange);
}

static void on_verified(void *arg, const struct error *err, const json_t *claims)
{
    finish(arg, err, claims);
}

// Its `error` is a word of RFC 6749 section 5.2; what else it sends is not repeated.
static enum error_code refused(const struct exchange *exchange, int status, struct str body, struct error *err)
{
    const struct json_limits limits = {.depth_max = 8};
    json_t *answer = NULL;
    bool is_about_code = status >= 400 && status < 500;
    if (!is_about_code)
        return error_set(err, status >= 500 ? ERROR_UNAVAILABLE : ERROR_PROTOCOL,
                         "the provider answered the code with status %d", status);
    struct str word = STR_EMPTY;
    if (json_decode(body, &limits, &answer, NULL) == ERROR_NONE) word = json_get_str(answer, "error");
    word = str_first(word, ERROR_WORD_BYTES_MAX);
    const char *id = identity_provider_options(exchange->provider)->settings->id;
    log_limited(LOG_WARN, "sign_in", "code_refused", str_c(id), word, log_c("provider", id), log_int("status", status),
                log_str("reason", word));
    enum error_code code =
        error_set(err, ERROR_UNAUTHENTICATED, "the provider refuses the code: status %d, %.*s", status, STR_ARG(word));
    json_decref(answer);
    return code;
}

static void on_answer(void *arg, const struct error *err, int status, struct str body)
{
    struct exchange *exchange = arg;
    const struct json_limits limits = {.depth_max = 8};
    struct error bad;
    json_t *answer = NULL;
    if (!err && status != 200) {
        refused(exchange, status, body, &bad);
        err = &bad;
    } else if (!err &&
               (json_decode(body, &limits, &answer, NULL) != ERROR_NONE || !json_get_str(answer, "id_token").len)) {
        error_set(&bad, ERROR_PROTOCOL, "the provider's answer to the code has no id_token");
        err = &bad;
    }
    if (err)
        finish(exchange, err, NULL);
    else
        id_token_verify(exchange->provider, exchange->loop, json_get_str(answer, "id_token"),
                        str_c(identity_provider_options(exchange->provider)->settings->client_id),
                        str_c(exchange->nonce), on_verified, exchange);
    json_decref(answer);
}

static void add_field(struct strbuf *form, const char *name, struct str value)
{
    strbuf_addf(form, "%s%s=", form->len ? "&" : "", name);
    code_exchange_escape(form, value);
}

static void send_code(struct exchange *exchange, const char *url)
{
    const struct provider_settings *settings = identity_provider_options(exchange->provider)->settings;
    struct strbuf user, password;
    struct error err;
    struct web_request request = {.url = url};
    strbuf_init(&user, FORM_BYTES_MAX);
    strbuf_init(&password, FORM_BYTES_MAX);
    bool is_basic = settings->client_secret && !settings->secret_in_body;
    if (is_basic) { // both are encoded before (RFC 6749 section 2.3.1)
        code_exchange_escape(&user, str_c(settings->client_id));
        code_exchange_escape(&password, str_c(settings->client_secret));
        request.user = user.at;
        request.password = password.at;
    } else {
        add_field(&exchange->form, "client_id", str_c(settings->client_id));
        if (settings->client_secret) add_field(&exchange->form, "client_secret", str_c(settings->client_secret));
    }
    request.form = strbuf_str(&exchange->form);
    enum error_code code = ERROR_NONE;
    if (exchange->form.overflow)
        code = error_set(&err, ERROR_TOO_LARGE, "the code is too long");
    else
        code = identity_provider_send(exchange->provider, exchange->loop, "token", &request, on_answer, exchange, &err);
    if (password.at) explicit_bzero(password.at, password.len);
    strbuf_finish(&user);
    strbuf_finish(&password);
    if (code != ERROR_NONE) finish(exchange, &err, NULL);
}

static void on_addresses(void *arg, const struct error *err)
{
    struct exchange *exchange = arg;
    struct provider_addresses *addresses = err ? NULL : identity_provider_addresses(exchange->provider);
    if (!addresses) {
        finish(exchange, err, NULL);
        return;
    }
    send_code(exchange, addresses->token);
    provider_addresses_unref(addresses);
}

void code_exchange(struct identity_provider *provider, struct loop *loop, const struct code_exchange_request *request,
                   id_token_done on_done, void *arg)
{
    struct exchange *exchange = mem_zalloc(sizeof *exchange);
    exchange->provider = provider;
    exchange->loop = loop;
    exchange->nonce = mem_strndup(request->nonce.at, request->nonce.len);
    exchange->on_done = on_done;
    exchange->arg = arg;
    strbuf_init(&exchange->form, FORM_BYTES_MAX);
    add_field(&exchange->form, "grant_type", STR("authorization_code"));
    add_field(&exchange->form, "code", request->code);
    add_field(&exchange->form, "redirect_uri", request->redirect_uri);
    add_field(&exchange->form, "code_verifier", request->verifier);
    identity_provider_read(provider, loop, PROVIDER_ADDRESSES, on_addresses, exchange);
}
