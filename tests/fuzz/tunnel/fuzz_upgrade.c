// The tunnel listener's request against any bytes: it never reads outside its input, says the same
// however the bytes arrive, lets in only what has a token and a key, and always has an answer that
// fits.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "tunnel/listener/upgrade.h"
#include "tunnel/wire/proof.h"

enum { HEAD_BYTES_MAX = 8192 };

static int judge(const char *at, size_t len)
{
    struct tunnel_upgrade upgrade;
    static const uint8_t binding[WIRE_BINDING_BYTES] = {1};
    struct tunnel_credential credential = {0};
    struct error err = {0};
    int status = 400;
    switch (tunnel_upgrade_parse(at, len, HEAD_BYTES_MAX, &upgrade, &err)) {
    case ERROR_NONE:
        upgrade.binding = binding;
        status = tunnel_upgrade_check(&upgrade, &credential, &err);
        break;
    case ERROR_AGAIN: return 0;
    case ERROR_TOO_LARGE: status = 431; break;
    default: break;
    }
    struct strbuf answer;
    strbuf_init(&answer, UPGRADE_ANSWER_BYTES_MAX);
    if (status == 101) {
        static const uint8_t key[ID_SHA256_BYTES] = {2};
        struct token token;
        bool is_token = token_parse(credential.token, &token, NULL) == ERROR_NONE;
        assert(is_token == (wire_proof_unseal(credential.token, key, binding, &token, NULL) == ERROR_NONE));
        assert(credential.token.len > 0 && upgrade.websocket_key.len == 24 && !upgrade.has_origin && !upgrade.has_body);
        tunnel_upgrade_accept(upgrade.websocket_key, STR_EMPTY, &answer);
    } else {
        assert(((status >= 400 && status < 500) || status == 501) && err.text[0]);
        tunnel_upgrade_answer(status, 0, &err, &answer);
    }
    assert(!answer.overflow && answer.len > 0);
    strbuf_finish(&answer);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    // A copy of its own length, so that the sanitizer sees the first byte behind it.
    char *copy = mem_alloc(len ? len : 1);
    if (len) memcpy(copy, at, len);
    bool let_in = judge(copy, len) == 101;
    if (let_in) assert(judge(copy, len / 2) == 0); // nobody is let in, or refused, before the last byte
    mem_free(copy);
    return 0;
}
