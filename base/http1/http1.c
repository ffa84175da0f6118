#include "base/http1/http1.h"

// tchar of RFC 9110 section 5.6.2.
static bool is_tchar(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    switch (c) {
    case '!':
    case '#':
    case '$':
    case '%':
    case '&':
    case '\'':
    case '*':
    case '+':
    case '-':
    case '.':
    case '^':
    case '_':
    case '`':
    case '|':
    case '~': return true;
    default: return false;
    }
}

bool http1_is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_tchar((unsigned char)s.at[i])) return false;
    return s.len > 0;
}

bool http1_is_field_value(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

struct str http1_find(const struct http1_head *head, struct str name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (str_eq_nocase(head->headers[i].name, name)) return head->headers[i].value;
    return STR_EMPTY;
}

bool http1_has_token(const struct http1_head *head, struct str name, struct str token)
{
    for (size_t i = 0; i < head->header_count; i++) {
        if (!str_eq_nocase(head->headers[i].name, name)) continue;
        struct str rest = head->headers[i].value;
        struct str element;
        bool more = true;
        while (more) {
            more = str_cut(&rest, ',', &element);
            if (str_eq_nocase(str_trim(element), token)) return true;
        }
    }
    return false;
}

bool http1_is_known_method(struct str method)
{
    // The IANA registry, without PRI, which no request has.
    // clang-format off
    static const char *const known[] = {
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
        "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "SEARCH", "REPORT", "ACL",
        "BIND", "UNBIND", "REBIND", "LINK", "UNLINK", "CHECKIN", "CHECKOUT", "UNCHECKOUT",
        "BASELINE-CONTROL", "LABEL", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKREDIRECTREF",
        "MKWORKSPACE", "ORDERPATCH", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
    };
    // clang-format on
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eq(method, str_c(known[i]))) return true;
    return false;
}
