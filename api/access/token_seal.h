// token_seal: the hash of a runtime token as it lies in runtime_tokens.secret_sha256. That hash is
// a key: it signs callers' identities to the agent and proves the platform to it
// (tunnel/wire/identity.h, proof.h), so whoever reads a dump of the table could do both. It is
// encrypted by a key that is not in the database (pg_column_key()), for its own row: account,
// runtime and token id. 32 bytes are a hash in the clear, of an older version or where there is no
// key; 76 bytes are an encrypted one. Pure; any thread.
#ifndef CULVERT_API_ACCESS_TOKEN_SEAL_H
#define CULVERT_API_ACCESS_TOKEN_SEAL_H

#include "base/id.h"
#include "base/purpose_key.h"

enum { TOKEN_SEAL_BYTES = ID_SHA256_BYTES + PURPOSE_KEY_SEAL_BYTES };

struct token_place {
    struct str account_id, runtime, token_id;
};

// What the column gets; key NULL: the hash as it is. out is written to, the view is of it or of
// sha256.
struct str token_seal(const struct purpose_key *key, const struct token_place *place,
                      const uint8_t sha256[ID_SHA256_BYTES], uint8_t out[TOKEN_SEAL_BYTES]);
// hex: what the column has. False: of another row, by another key (or key is NULL), altered, or of
// another length. out_current: it is encrypted with the current key; may be NULL.
bool token_unseal(const struct purpose_key *key, const struct token_place *place, struct str hex,
                  uint8_t out[ID_SHA256_BYTES], bool *out_current);

#endif
