// questions: GraphQL requests to the product's modules and schema, over a test's database and account, without HTTP.
#ifndef CULVERT_TESTS_UNIT_STORAGE_QUESTIONS_H
#define CULVERT_TESTS_UNIT_STORAGE_QUESTIONS_H

#include "database.h"

// The whole answer, {"data", "errors"}; the caller's. variables: JSON text, or NULL. runtime: the caller is this
// runtime; NULL: a user of the account.
json_t *question_ask(struct database *database, const char *runtime, const char *query, const char *variables);
// The same; fails the test when there are errors, and gives what is at data.<field>.
json_t *question_field(struct database *database, const char *query, const char *variables, const char *field);

#endif
