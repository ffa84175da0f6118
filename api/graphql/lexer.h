// lexer: lexical tokens of GraphQL (specification October 2021, section 2.1), for documents and for
// the schema's SDL. Pure; views into the source. The number of tokens is limited while reading.
#ifndef CULVERT_API_GRAPHQL_LEXER_H
#define CULVERT_API_GRAPHQL_LEXER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum gql_token_kind {
    GQL_TOKEN_END,
    GQL_TOKEN_PUNCTUATOR, // one of ! $ & ( ) : = @ [ ] { | } or ...
    GQL_TOKEN_NAME,
    GQL_TOKEN_INT,
    GQL_TOKEN_FLOAT,
    GQL_TOKEN_STRING,       // text between the quotes, escapes not yet resolved
    GQL_TOKEN_BLOCK_STRING, // text between the triple quotes
};

struct gql_location {
    unsigned line, column; // from 1
};

struct gql_token {
    enum gql_token_kind kind;
    struct str text;
    struct gql_location at;
};

struct gql_lexer {
    struct str source;
    size_t offset;
    unsigned line;
    size_t line_start;
    size_t tokens, tokens_max;
    struct gql_token token; // the current one
};

// The source must be UTF-8. Reads the first token.
MUST_CHECK enum error_code gql_lexer_init(struct gql_lexer *lexer, struct str source, size_t tokens_max,
                                          struct error *err);
// Goes on to the next. ERROR_INVALID says where ("Syntax Error: ... (line 1, column 2)");
// ERROR_TOO_LARGE: too many tokens.
MUST_CHECK enum error_code gql_lexer_next(struct gql_lexer *lexer, struct error *err);
// The value of a string token: escapes resolved, block strings without their common indentation.
MUST_CHECK enum error_code gql_token_string(const struct gql_token *token, struct arena *arena, struct str *out,
                                            struct error *err);

#endif
