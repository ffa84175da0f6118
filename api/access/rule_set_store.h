// rule_set_store: reads the rules that apply to a user (api/access/access_rules.h).
#ifndef CULVERT_API_ACCESS_RULE_SET_STORE_H
#define CULVERT_API_ACCESS_RULE_SET_STORE_H

#include "api/access/access_rules.h"
#include "storage/pg/pg.h"

// rules: a reference for the callee, NULL with an error. name: of the set, as it is now; empty: the
// account never had rules. Views valid during the call.
typedef void (*rule_set_done)(void *arg, const struct error *err, struct access_rules *rules, struct str name);

void rule_set_store_load(struct pg *pg, struct str account_id, struct str user_id, rule_set_done on_done, void *arg);

#endif
