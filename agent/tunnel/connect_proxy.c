#include "agent/tunnel/connect_proxy.h"

#include <string.h>

#include "base/http1/http1.h"
#include "base/parse.h"

enum error_code connect_proxy_request(struct str authority, struct str credential, struct strbuf *out,
                                      struct error *err)
{
    char text[CONNECT_PROXY_CREDENTIAL_BYTES_MAX / 3 * 4 + 8];
    if (!http1_is_field_value(authority) || !authority.len)
        return error_set(err, ERROR_INVALID, "proxy: invalid host name in platform.url");
    if (credential.len > CONNECT_PROXY_CREDENTIAL_BYTES_MAX)
        return error_set(err, ERROR_TOO_LARGE, "proxy: the credential is over %d bytes",
                         CONNECT_PROXY_CREDENTIAL_BYTES_MAX);
    strbuf_addf(out, "CONNECT %.*s HTTP/1.1\r\nHost: %.*s\r\n", STR_ARG(authority), STR_ARG(authority));
    if (credential.len) {
        format_base64((const uint8_t *)credential.at, credential.len, text);
        strbuf_addf(out, "Proxy-Authorization: Basic %s\r\n", text); // RFC 7617
        explicit_bzero(text, sizeof(text));
    }
    strbuf_add_c(out, "\r\n");
    return out->overflow ? error_set(err, ERROR_TOO_LARGE, "proxy: the platform's name is too long") : ERROR_NONE;
}

enum error_code connect_proxy_answer(const char *at, size_t len, struct error *err)
{
    struct http1_head head;
    size_t head_bytes;
    enum error_code code =
        http1_parse_response(at, len, CONNECT_PROXY_HEAD_BYTES_MAX, STR("CONNECT"), &head, &head_bytes, err);
    if (code == ERROR_AGAIN) return code;
    if (code) return error_prefix(err, "proxy");
    if (head.status == 407)
        return error_set(err, ERROR_UNAUTHENTICATED, "proxy: answered 407: invalid credentials in proxy.url");
    if (head.status / 100 != 2) return error_set(err, ERROR_IO, "proxy: answered %d to CONNECT", head.status);
    if (head_bytes != len) return error_set(err, ERROR_PROTOCOL, "proxy: sent bytes before the TLS handshake");
    return ERROR_NONE;
}
