// failed_sign_ins: who presented wrong credentials too often lately, by client address and by key
// id, at all listeners of this process together. Nothing outside of the process is asked, so that
// without Redis the limits are the same. Thread-safe.
#ifndef CULVERT_SERVER_CHORES_FAILED_SIGN_INS_H
#define CULVERT_SERVER_CHORES_FAILED_SIGN_INS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "base/token.h"

enum { FAILED_SIGN_INS_GOOD = 16384 };

struct failed_sign_ins;

struct failed_sign_ins_options {
    unsigned per_address, per_key; // failures a minute; 0: no limit
    // Does this address (numeric, without port) speak for many, so that per_address is not for it?
    // NULL: none does.
    bool (*is_proxy)(void *ctx, struct str address);
    void *ctx;
};

struct failed_sign_ins *failed_sign_ins_create(const struct failed_sign_ins_options *options);
void failed_sign_ins_destroy(struct failed_sign_ins *failed); // NULL is fine

// May a credential be looked at? One that was good here before may, whatever failed beside it.
// remote: the client's address, with or without its port, empty where it is unknown; token NULL: it
// has no key id. ERROR_LIMITED: no.
MUST_CHECK enum error_code failed_sign_ins_check(struct failed_sign_ins *failed, struct str remote,
                                                 const struct token *token, struct error *err);
// The database confirmed it. FAILED_SIGN_INS_GOOD are remembered: a newer one takes an older one's
// place, and only good ones get in.
void failed_sign_ins_note_good(struct failed_sign_ins *failed, const struct token *token);
// It was wrong.
void failed_sign_ins_note(struct failed_sign_ins *failed, struct str remote, struct str key_id);

#endif
