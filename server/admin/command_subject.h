// command_subject: the account that a command is about, by the name that the operator typed.
#ifndef CULVERT_SERVER_ADMIN_COMMAND_SUBJECT_H
#define CULVERT_SERVER_ADMIN_COMMAND_SUBJECT_H

#include "base/token.h"
#include "server/admin/command_query.h"

struct command_subject { // the first member of what a command asks with
    char account_id[64];
    struct str account; // its name
};

// For command_query_run(), with a struct command_subject: {id, name} of the account.
void command_subject_ask(struct command_query *query, void *arg);
// Fills account_id. Returns the exit status; says why it is not EXIT_DONE.
int command_subject_resolve(const struct config *config, struct command_subject *subject);
// Resolves the account, asks, and prints the answer. Returns the exit status.
int command_subject_print(const struct config *config, struct command_subject *subject, command_query_fn ask);
// Resolves the account and asks how many were revoked; none: prints this text, and EXIT_STATE.
int command_subject_revoke(const struct config *config, struct command_subject *subject, command_query_fn ask,
                           const char *none);
// Asks to store a token and prints its text, the only time that it is seen; overwrites the text.
// Returns the exit status.
int command_subject_print_secret(const struct config *config, command_query_fn ask, struct command_subject *subject,
                                 const struct token *token, char text[TOKEN_TEXT_BYTES]);

#endif
