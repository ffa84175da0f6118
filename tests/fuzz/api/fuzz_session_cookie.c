// A Cookie field: what is found is a part of it, and a value that parses is a token whose CSRF
// token admits it while another does not.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <string.h>

#include "api/access/session_cookie.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str field = str_of((const char *)at, len), value = session_cookie_find(field);
    struct session_cookie cookie;
    struct error err = {0};
    assert(value.len == 0 || (value.at >= field.at && value.at + value.len <= field.at + field.len));
    assert(value.len == 0 || !str_has_byte(value, ';'));
    if (session_cookie_parse(value, &cookie, &err) != ERROR_NONE) {
        assert(err.text[0] != '\0');
        return 0;
    }
    assert(strlen(cookie.csrf_token) == SESSION_CSRF_BYTES - 1);
    assert(session_cookie_admit(&cookie, true, str_c(cookie.csrf_token), STR_EMPTY, &err) == ERROR_NONE);
    cookie.csrf_token[0] = cookie.csrf_token[0] == '0' ? '1' : '0';
    assert(session_cookie_admit(&cookie, false, str_c(cookie.csrf_token), field, &err) == ERROR_NONE ||
           session_cookie_is_cross_site(field));
    return 0;
}
