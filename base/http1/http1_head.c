#include "base/http1/http1.h"

enum { METHOD_BYTES_MAX = 32, CONTENT_LENGTH_DIGITS_MAX = 18 };

// What the framing fields said while the lines were read; each may come once.
struct framing {
    bool has_host, has_length, has_transfer_encoding, has_expect, has_upgrade;
    bool connection_close, connection_keep_alive, connection_upgrade;
    struct str upgrade;
    uint64_t length;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Takes one line off *rest. A line ends with CR LF; a lone CR or LF and control bytes are errors as soon as they are
// seen, also in a line that is not complete yet.
static enum error_code take_line(struct str *rest, struct str *out_line, struct error *err)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    struct str line = str_first(*rest, end ? (size_t)(end - rest->at) : rest->len);
    bool cr = line.len > 0 && line.at[line.len - 1] == '\r';
    if (cr) line.len--;
    if (!http1_is_field_value(line)) return error_set(err, ERROR_INVALID, "control byte in a head line");
    if (!end) return ERROR_AGAIN;
    if (!cr) return error_set(err, ERROR_INVALID, "head line ends in a bare LF");
    *out_line = line;
    *rest = str_from(*rest, (size_t)(end - rest->at) + 1);
    return ERROR_NONE;
}

static bool parse_version(struct str s, int *out_minor)
{
    if (str_eq(s, STR("HTTP/1.1"))) {
        *out_minor = 1;
        return true;
    }
    if (str_eq(s, STR("HTTP/1.0"))) {
        *out_minor = 0;
        return true;
    }
    return false;
}

static bool is_port(struct str s)
{
    unsigned port = 0;
    if (s.len == 0 || s.len > 5) return false;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.at[i])) return false;
        port = port * 10 + (unsigned)(s.at[i] - '0');
    }
    return port > 0 && port <= 65535;
}

static bool is_host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '.' || c == '_';
}

static bool is_v6_byte(char c)
{
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || is_digit(c) || c == ':' || c == '.';
}

// uri-host [":" port] of RFC 9110 section 7.2, without user information, percent escapes and sub-delimiters: no name
// we serve has them, and parsers disagree about them.
static bool is_host(struct str s)
{
    size_t end = 0;
    if (s.len == 0 || s.len > 255 + 6) return false;
    if (s.at[0] == '[') {
        for (end = 1; end < s.len && is_v6_byte(s.at[end]); end++) {}
        if (end < 3 || end == s.len || s.at[end] != ']') return false;
        end++;
    } else {
        for (; end < s.len && is_host_byte(s.at[end]); end++) {}
        if (end == 0) return false;
    }
    struct str rest = str_from(s, end);
    return rest.len == 0 || (rest.at[0] == ':' && is_port(str_from(rest, 1)));
}

static enum error_code parse_length(struct str value, uint64_t *out, struct error *err)
{
    uint64_t length = 0;
    if (value.len == 0 || value.len > CONTENT_LENGTH_DIGITS_MAX || (value.len > 1 && value.at[0] == '0'))
        return error_set(err, ERROR_INVALID, "Content-Length is not a plain number");
    for (size_t i = 0; i < value.len; i++) {
        if (!is_digit(value.at[i])) return error_set(err, ERROR_INVALID, "Content-Length is not a plain number");
        length = length * 10 + (uint64_t)(value.at[i] - '0');
    }
    *out = length;
    return ERROR_NONE;
}

static enum error_code read_connection(struct str value, struct framing *framing, struct error *err)
{
    struct str element;
    bool more = true;
    while (more) {
        more = str_cut(&value, ',', &element);
        element = str_trim(element);
        if (element.len == 0) continue;
        if (!http1_is_token(element)) return error_set(err, ERROR_INVALID, "Connection must be a list of tokens");
        if (str_eq_nocase(element, STR("close"))) framing->connection_close = true;
        if (str_eq_nocase(element, STR("keep-alive"))) framing->connection_keep_alive = true;
        if (str_eq_nocase(element, STR("upgrade"))) framing->connection_upgrade = true;
    }
    return ERROR_NONE;
}

static enum error_code once(bool *seen, const char *name, struct error *err)
{
    if (*seen) return error_set(err, ERROR_INVALID, "repeated %s", name);
    *seen = true;
    return ERROR_NONE;
}

// Looks at the fields that decide where the message ends; all others only have to be well formed.
static enum error_code read_framing_field(const struct http_header *h, bool request, struct http1_head *head,
                                          struct framing *framing, struct error *err)
{
    enum error_code code = ERROR_NONE;
    if (str_eq_nocase(h->name, STR("content-length"))) {
        code = once(&framing->has_length, "Content-Length", err);
        if (code == ERROR_NONE) code = parse_length(h->value, &framing->length, err);
    } else if (str_eq_nocase(h->name, STR("transfer-encoding"))) {
        code = once(&framing->has_transfer_encoding, "Transfer-Encoding", err);
        if (code == ERROR_NONE && !str_eq_nocase(h->value, STR("chunked")))
            code = error_set(err, ERROR_INVALID, "Transfer-Encoding must be a single chunked");
    } else if (str_eq_nocase(h->name, STR("connection"))) {
        code = read_connection(h->value, framing, err);
    } else if (str_eq_nocase(h->name, STR("upgrade"))) {
        code = once(&framing->has_upgrade, "Upgrade", err);
        framing->upgrade = h->value;
    } else if (request && str_eq_nocase(h->name, STR("host"))) {
        code = once(&framing->has_host, "Host", err);
        if (code == ERROR_NONE && !is_host(h->value)) code = error_set(err, ERROR_INVALID, "Host is malformed");
        head->host = h->value;
    } else if (request && str_eq_nocase(h->name, STR("expect"))) {
        code = once(&framing->has_expect, "Expect", err);
        head->expect_continue = head->minor == 1 && str_eq_nocase(h->value, STR("100-continue"));
    }
    return code;
}

static enum error_code parse_header_line(struct str line, struct http_header *out, struct error *err)
{
    // obs-fold: RFC 9112 section 5.2 lets a server refuse it.
    if (line.at[0] == ' ' || line.at[0] == '\t') return error_set(err, ERROR_INVALID, "folded header line");
    if (!str_cut(&line, ':', &out->name)) return error_set(err, ERROR_INVALID, "header line without a colon");
    if (!http1_is_token(out->name)) return error_set(err, ERROR_INVALID, "malformed header name");
    out->value = str_trim(line);
    return ERROR_NONE;
}

// Reads header lines up to and with the empty one.
static enum error_code parse_headers(struct str *rest, bool request, struct http1_head *head, struct framing *framing,
                                     struct error *err)
{
    for (;;) {
        struct str line;
        enum error_code code = take_line(rest, &line, err);
        if (code != ERROR_NONE) return code;
        if (line.len == 0) break;
        if (head->header_count == HTTP1_HEADERS_MAX)
            return error_set(err, ERROR_TOO_LARGE, "more than %d header lines", HTTP1_HEADERS_MAX);
        struct http_header *h = &head->headers[head->header_count];
        code = parse_header_line(line, h, err);
        if (code == ERROR_NONE) code = read_framing_field(h, request, head, framing, err);
        if (code != ERROR_NONE) return code;
        head->header_count++;
    }
    if (framing->has_length && framing->has_transfer_encoding)
        return error_set(err, ERROR_INVALID, "Content-Length with Transfer-Encoding");
    if (framing->has_transfer_encoding && head->minor == 0)
        return error_set(err, ERROR_INVALID, "HTTP/1.0 with Transfer-Encoding");
    head->content_length = framing->length;
    head->keep_alive = !framing->connection_close && (head->minor == 1 || framing->connection_keep_alive);
    if (framing->connection_upgrade && head->minor == 1) head->upgrade = framing->upgrade;
    return ERROR_NONE;
}

static bool is_target(struct str method, struct str target)
{
    if (str_eq(target, STR("*"))) return str_eq(method, STR("OPTIONS"));
    if (target.len == 0 || target.at[0] != '/') return false;
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.at[i];
        if (c <= 0x20 || c >= 0x7f || c == '#') return false;
    }
    return true;
}

static enum error_code parse_request_line(struct str line, struct http1_head *head, struct error *err)
{
    struct str version;
    if (!str_cut(&line, ' ', &head->method) || !str_cut(&line, ' ', &head->target))
        return error_set(err, ERROR_INVALID, "malformed request line");
    version = line;
    if (!parse_version(version, &head->minor)) return error_set(err, ERROR_INVALID, "not HTTP/1.0 or HTTP/1.1");
    if (!http1_is_token(head->method) || head->method.len > METHOD_BYTES_MAX)
        return error_set(err, ERROR_INVALID, "malformed method");
    if (str_eq(head->method, STR("CONNECT"))) return error_set(err, ERROR_INVALID, "CONNECT is not supported");
    if (!is_target(head->method, head->target))
        return error_set(err, ERROR_INVALID, "request target must be in origin form");
    return ERROR_NONE;
}

// "HTTP/1.1 200 OK"; servers that leave out the reason often leave out the space before it as well.
static enum error_code parse_status_line(struct str line, struct http1_head *head, struct error *err)
{
    if (line.len < 12 || line.at[8] != ' ' || !parse_version(str_first(line, 8), &head->minor))
        return error_set(err, ERROR_INVALID, "malformed status line");
    for (size_t i = 9; i < 12; i++) {
        if (!is_digit(line.at[i])) return error_set(err, ERROR_INVALID, "malformed status code");
        head->status = head->status * 10 + (line.at[i] - '0');
    }
    if (head->status < 100 || head->status > 599) return error_set(err, ERROR_INVALID, "status code out of range");
    if (line.len > 12 && line.at[12] != ' ') return error_set(err, ERROR_INVALID, "malformed status line");
    head->reason = str_from(line, 13);
    return ERROR_NONE;
}

static void decide_request_body(struct http1_head *head, const struct framing *framing)
{
    head->body = HTTP1_BODY_NONE;
    if (framing->has_length) head->body = HTTP1_BODY_LENGTH;
    if (framing->has_transfer_encoding) head->body = HTTP1_BODY_CHUNKED;
}

// RFC 9112 section 6.3.
static void decide_response_body(struct str method, struct http1_head *head, const struct framing *framing)
{
    bool no_content = head->status < 200 || head->status == 204;
    bool bodyless = no_content || head->status == 304 || str_eq(method, STR("HEAD")) ||
                    (str_eq(method, STR("CONNECT")) && head->status < 300);
    if (bodyless) {
        head->body = HTTP1_BODY_NONE;
        // A sender that frames a body where none may be could send one: what follows is not to be trusted.
        if (no_content && (framing->has_transfer_encoding || framing->length > 0)) head->keep_alive = false;
    } else if (framing->has_transfer_encoding) {
        head->body = HTTP1_BODY_CHUNKED;
    } else if (framing->has_length) {
        head->body = HTTP1_BODY_LENGTH;
    } else {
        head->body = HTTP1_BODY_UNTIL_CLOSE;
        head->keep_alive = false;
    }
}

static enum error_code parse_head(const char *at, size_t len, size_t head_bytes_max, const struct str *request_method,
                                  struct http1_head *out, size_t *out_bytes, struct error *err)
{
    struct http1_head head = {0};
    struct framing framing = {0};
    struct str line;
    size_t max = head_bytes_max ? head_bytes_max : HTTP1_HEAD_BYTES_MAX;
    size_t seen = len < max ? len : max;
    struct str rest = str_of(at, seen);
    bool request = request_method == NULL;
    enum error_code code = take_line(&rest, &line, err);
    if (code == ERROR_NONE) code = request ? parse_request_line(line, &head, err) : parse_status_line(line, &head, err);
    if (code == ERROR_NONE) code = parse_headers(&rest, request, &head, &framing, err);
    if (code == ERROR_AGAIN && len >= max) return error_set(err, ERROR_TOO_LARGE, "head over %zu bytes", max);
    if (code != ERROR_NONE) return code;
    if (request) {
        if (!framing.has_host) return error_set(err, ERROR_INVALID, "Host is missing");
        decide_request_body(&head, &framing);
    } else {
        decide_response_body(*request_method, &head, &framing);
    }
    *out = head;
    *out_bytes = seen - rest.len;
    return ERROR_NONE;
}

static bool ends_empty_line(const char *at, size_t newline)
{
    if (newline > 0 && at[newline - 1] == '\r') newline--;
    return newline == 0 || at[newline - 1] == '\n';
}

bool http1_head_is_due(const char *at, size_t len, size_t looked_at, size_t head_bytes_max)
{
    if (len >= (head_bytes_max ? head_bytes_max : HTTP1_HEAD_BYTES_MAX) || looked_at == 0) return true;
    const char *from = at + looked_at, *newline;
    while ((newline = memchr(from, '\n', (size_t)(at + len - from)))) {
        if (ends_empty_line(at, (size_t)(newline - at)) || !memchr(at, '\n', (size_t)(newline - at))) return true;
        from = newline + 1;
    }
    return false;
}

enum error_code http1_parse_request(const char *at, size_t len, size_t head_bytes_max, struct http1_head *out,
                                    size_t *out_bytes, struct error *err)
{
    return parse_head(at, len, head_bytes_max, NULL, out, out_bytes, err);
}

enum error_code http1_parse_response(const char *at, size_t len, size_t head_bytes_max, struct str request_method,
                                     struct http1_head *out, size_t *out_bytes, struct error *err)
{
    return parse_head(at, len, head_bytes_max, &request_method, out, out_bytes, err);
}
