#include "base/http2/http2_session.h"

#include <stdlib.h>

enum { FRAME_TYPES_KNOWN = 10 }; // RFC 9113 section 6: 0x00 to 0x09

static void set_limits(nghttp2_option *option, const struct http2_session_options *options)
{
    if (options->settings_max) nghttp2_option_set_max_settings(option, options->settings_max);
    if (options->acks_max) nghttp2_option_set_max_outbound_ack(option, options->acks_max);
    if (options->continuations_max) nghttp2_option_set_max_continuations(option, options->continuations_max);
    if (options->resets_burst)
        nghttp2_option_set_stream_reset_rate_limit(option, options->resets_burst, options->resets_per_second);
    if (options->header_block_bytes_max)
        nghttp2_option_set_max_send_header_block_length(option, options->header_block_bytes_max);
    if (options->stateless_hpack) nghttp2_option_set_max_deflate_dynamic_table_size(option, 0);
    if (options->no_pushes) nghttp2_option_set_max_reserved_remote_streams(option, 0);
    if (options->forgets_closed) nghttp2_option_set_no_closed_streams(option, 1);
}

// Left alone, libnghttp2 skips frames of unknown types without a callback, and there is no end to them.
static void set_extensions(nghttp2_option *option, int extension)
{
    if (extension > 0) nghttp2_option_set_user_recv_extension_type(option, (uint8_t)extension);
    for (unsigned type = FRAME_TYPES_KNOWN; extension == HTTP2_EXTENSIONS_ALL && type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
}

nghttp2_session *http2_session_create(const struct http2_session_options *options)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;
    // These fail when memory has run out, and that ends the process.
    if (nghttp2_session_callbacks_new(&callbacks) || nghttp2_option_new(&option)) abort();
    options->set_callbacks(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    set_limits(option, options);
    set_extensions(option, options->extension);
    int failed = options->is_server
                     ? nghttp2_session_server_new3(&session, callbacks, options->arg, option, options->memory)
                     : nghttp2_session_client_new3(&session, callbacks, options->arg, option, options->memory);
    if (failed) abort();
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, options->settings, options->setting_count) ||
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, options->window_bytes))
        abort();
    return session;
}

nghttp2_nv http2_field(struct str name, struct str value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.at,
                        .namelen = name.len,
                        .value = (uint8_t *)(uintptr_t)(value.at ? value.at : ""),
                        .valuelen = value.len};
}
