// What leaves the machine in a support bundle has no secret.
#include "cmocka_cli.h"

#include "cli/scrub.h"

static void expect(const char *text, const char *scrubbed)
{
    struct strbuf out;
    strbuf_init(&out, 64 * 1024);
    scrub_text(str_c(text), STR("the-key"), &out);
    assert_string_equal(out.len ? out.at : "", scrubbed);
    strbuf_finish(&out);
}

static void secrets_are_removed(void **state)
{
    (void)state;
    expect("clone https://bot:pw@git.example.com/x", "clone https://(removed)@git.example.com/x");
    expect("postgresql://u:p%40:x@h:5432/d?a=b", "postgresql://(removed)@h:5432/d?a=b");
    expect("https://ghp_abc@git.example.com", "https://(removed)@git.example.com");
    expect("password=pw1 next", "password=(removed) next");
    expect("{\"access_token\": \"a.b-c\", \"n\":1}", "{\"access_token\": \"(removed)\", \"n\":1}");
    expect("Authorization: Bearer abc.def, x", "Authorization: (removed), x");
    expect("apiKey = k", "apiKey = (removed)");
    expect("got eyJhbGciOi.eyJzdWIi.c2ln end", "got (removed) end");
    expect("a -----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY----- b", "a (removed) b");
    expect("-----BEGIN PRIVATE KEY-----\nAAAA", "(removed)");
    expect("key the-key here", "key (removed) here");
    expect("token=", "token=");
}

static void other_texts_stay(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "https://git.example.com/a@b",
        "the token is void",
        "a: b = c",
        "eyJ alone",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "mail@example.com",
        "://@",
        "x://",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect(texts[i], texts[i]);
}

static void members_are_judged_by_name(void **state)
{
    (void)state;
    json_t *tree =
        json_loads("{\"database.url\":\"x\",\"tls.key_file\":\"/k\",\"accessToken\":\"t\",\"deploymentKey\":\"d\","
                   "\"tokens\":3,\"list\":[{\"text\":\"token: t\"}],\"empty_secret\":\"\",\"none\":null}",
                   0, NULL);
    json_t *expected =
        json_loads("{\"database.url\":\"(removed)\",\"tls.key_file\":\"/"
                   "k\",\"accessToken\":\"(removed)\",\"deploymentKey\":\"(removed)\","
                   "\"tokens\":3,\"list\":[{\"text\":\"token: (removed)\"}],\"empty_secret\":\"\",\"none\":null}",
                   0, NULL);
    json_t *scrubbed = scrub_json(tree, STR("the-key"));
    assert_true(json_equal(scrubbed, expected));
    json_decref(scrubbed);
    json_decref(expected);
    json_decref(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(secrets_are_removed), cmocka_unit_test(other_texts_stay),
                                       cmocka_unit_test(members_are_judged_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
