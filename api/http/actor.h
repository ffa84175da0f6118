// actor: who makes the changes of a request, for the audit log (storage/pg/pg.h: pg_set_actor).
#ifndef CULVERT_API_HTTP_ACTOR_H
#define CULVERT_API_HTTP_ACTOR_H

#include "api/http/request.h"

// What begins until actor_clear() is by this principal; both in one turn of the loop, around the
// call that begins the change.
void actor_set(struct api_request *request, const struct api_principal *who);
void actor_clear(struct pg *pg);

#endif
