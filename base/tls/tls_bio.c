#include "base/tls/tls_bio.h"

#include <stdlib.h>

static int bio_write(BIO *bio, const char *at, int len)
{
    struct tls_bio *state = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (len > 0 && !strbuf_add(state->leaving, at, (size_t)len)) return -1;
    return len;
}

static int bio_read(BIO *bio, char *out, int cap)
{
    struct tls_bio *state = BIO_get_data(bio);
    struct str from = state->held.len ? strbuf_str(&state->held) : state->arriving;
    size_t take = from.len < (size_t)cap ? from.len : (size_t)cap;
    BIO_clear_retry_flags(bio);
    if (take == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, from.at, take);
    if (state->held.len)
        strbuf_drop_front(&state->held, take);
    else
        state->arriving = str_from(state->arriving, take);
    return (int)take;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_method_create(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tls_bio");
    if (!method || !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
        !BIO_meth_set_ctrl(method, bio_control) || !BIO_meth_set_create(method, bio_create))
        abort(); // out of memory
    return method;
}

BIO *tls_bio_new(const BIO_METHOD *method, struct tls_bio *state)
{
    BIO *bio = BIO_new(method);
    if (!bio) abort(); // out of memory
    BIO_set_data(bio, state);
    return bio;
}
