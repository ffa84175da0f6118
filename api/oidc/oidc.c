#include "api/oidc/oidc.h"

#include "base/mem.h"

enum { PROBLEMS_BYTES_MAX = 64 * 1024 };

struct oidc {
    struct provider_list list;
    struct identity_provider *providers[PROVIDERS_MAX];
    struct web_client *client;
    struct purpose_key key;
    const struct sign_in_settings *settings;
    char *platform_url;
};

static enum error_code load(const char *file, struct provider_list *out, struct error *err)
{
    struct strbuf problems;
    strbuf_init(&problems, PROBLEMS_BYTES_MAX);
    enum error_code code = *file ? provider_list_load(file, out, &problems) : ERROR_NONE;
    if (code != ERROR_NONE) error_set(err, code, "%.*s", STR_ARG(strbuf_str(&problems)));
    strbuf_finish(&problems);
    return code;
}

enum error_code oidc_create(const struct sign_in_settings *settings, const char *platform_url,
                            const struct purpose_key *key, struct oidc **out, struct error *err)
{
    struct oidc *oidc = mem_zalloc(sizeof *oidc);
    oidc->key = *key;
    oidc->settings = settings;
    oidc->platform_url = mem_printf("%s%s", platform_url, str_ends(str_c(platform_url), STR("/")) ? "" : "/");
    enum error_code code = load(settings->providers_file, &oidc->list, err);
    // Without a provider there is nothing to ask, and no thread.
    if (code == ERROR_NONE && oidc->list.count)
        code = web_client_create(&(struct web_client_options){.timeout_ms = (uint64_t)settings->timeout_ms,
                                                              .answer_bytes_max = (size_t)settings->answer_bytes_max,
                                                              .requests_max = (unsigned)settings->requests_max,
                                                              .ca_file = settings->ca_file},
                                 &oidc->client, err);
    if (code != ERROR_NONE) {
        oidc_destroy(oidc);
        return code;
    }
    for (size_t i = 0; i < oidc->list.count; i++)
        oidc->providers[i] = identity_provider_create(
            &(struct identity_provider_options){.settings = &oidc->list.items[i],
                                                .client = oidc->client,
                                                .keys_life_ms = (uint64_t)settings->keys_life_ms,
                                                .keys_interval_ms = (uint64_t)settings->keys_interval_ms,
                                                .requests_max = (unsigned)(settings->requests_max + 1) / 2,
                                                .clock_skew_s = settings->clock_skew_ms / 1000});
    *out = oidc;
    return ERROR_NONE;
}

void oidc_destroy(struct oidc *oidc)
{
    if (!oidc) return;
    web_client_destroy(oidc->client);
    for (size_t i = 0; i < oidc->list.count; i++)
        identity_provider_destroy(oidc->providers[i]);
    provider_list_finish(&oidc->list);
    purpose_key_finish(&oidc->key);
    mem_free(oidc->platform_url);
    mem_free(oidc);
}

const char *oidc_platform_url(const struct oidc *oidc)
{
    return oidc->platform_url;
}

const struct sign_in_settings *oidc_settings(const struct oidc *oidc)
{
    return oidc->settings;
}

size_t oidc_count(const struct oidc *oidc)
{
    return oidc ? oidc->list.count : 0;
}

struct identity_provider *oidc_at(const struct oidc *oidc, size_t i)
{
    return oidc->providers[i];
}

struct identity_provider *oidc_find(const struct oidc *oidc, struct str id)
{
    for (size_t i = 0; i < oidc_count(oidc); i++)
        if (str_eq(str_c(oidc->list.items[i].id), id)) return oidc->providers[i];
    return NULL;
}

const struct purpose_key *oidc_key(const struct oidc *oidc)
{
    return &oidc->key;
}
