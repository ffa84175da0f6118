// token_exchange: POST /api/auth/token: a CI job's token becomes an API key of a service user for 15
// minutes (RFC 8693). Private to the module.
#ifndef CULVERT_MODULES_IDENTITY_TOKEN_EXCHANGE_H
#define CULVERT_MODULES_IDENTITY_TOKEN_EXCHANGE_H

#include "api/http/request.h"

void token_exchange(struct api_request *request);

#endif
