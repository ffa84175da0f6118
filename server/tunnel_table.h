// tunnel_table: what `culvertd admin tunnels` prints for people: one line a tunnel, from the JSON that PostgreSQL made
// (storage/sessions/session_store.h). Main thread.
#ifndef CULVERT_SERVER_TUNNEL_TABLE_H
#define CULVERT_SERVER_TUNNEL_TABLE_H

#include "base/error.h"
#include "base/str.h"

enum { TUNNEL_TABLE_ROWS_MAX = 20000 };

MUST_CHECK enum error_code tunnel_table_print(struct str nodes, struct error *err);

#endif
