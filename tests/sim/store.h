// store: a model of the database, in memory: rows and positions with the order rules of
// storage/reports/report_store.sql and digest_store.sql. Each replica has a connection to it, in
// place of a struct pg. Transactions take their time, fail while the database is away, and may be
// committed though their answer is lost. What each does to a row is checked against the ledger. One
// thread.
#ifndef CULVERT_TESTS_SIM_STORE_H
#define CULVERT_TESTS_SIM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/intake/intake.h"
#include "tests/sim/cluster.h"

struct store;
struct store_connection;

// Rules that may be broken on purpose, to see the checks fail.
struct store_mutations {
    bool no_order;        // a row takes whatever comes
    bool incomplete_ends; // the end of a snapshot deletes also when the count does not match
    bool early_answer;    // a transaction is answered before it is committed, and may be lost then
};

struct store *store_create(const struct cluster *truth, const struct store_mutations *mutations);
void store_destroy(struct store *store); // after its connections
uint64_t store_next_epoch(struct store *store);
void store_set_away(struct store *store, bool away); // every transaction fails
void store_set_faults(struct store *store, bool faults);

struct store_connection *store_connect(struct store *store);
// What is in flight is answered with an error, and may be committed all the same.
void store_disconnect(struct store_connection *connection);
// Once the intake that used it is gone.
void store_connection_free(struct store_connection *connection);
struct pg *store_connection_pg(struct store_connection *connection); // what intake_options.pg is
extern const struct intake_store store_functions;

// False: what is held is not what is there. why has the first difference.
bool store_equals_truth(const struct store *store, char *why, size_t why_bytes);

#endif
