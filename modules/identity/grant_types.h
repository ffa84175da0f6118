// grant_types: what POST /api/auth/token is asked for: a value of grant_type each.
#ifndef CULVERT_MODULES_IDENTITY_GRANT_TYPES_H
#define CULVERT_MODULES_IDENTITY_GRANT_TYPES_H

#define TOKEN_EXCHANGE_GRANT_TYPE "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
#define DEVICE_GRANT_TYPE         "urn:ietf:params:oauth:grant-type:device_code"    // RFC 8628

#endif
