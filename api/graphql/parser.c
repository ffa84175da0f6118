#include "api/graphql/document.h"

#include <stdio.h>

struct parser {
    struct gql_lexer lexer;
    struct arena *arena;
    const struct gql_limits *limits;
    struct error *err;
    unsigned aliases, directives;
    struct spread *spreads; // of the document, to be bound to their fragments at the end
};

struct spread {
    struct spread *next;
    struct gql_selection *selection;
};

// Every function gives the code of the first thing that is wrong.
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum error_code try_code = (call);                                                                             \
        if (try_code != ERROR_NONE) return try_code;                                                                   \
    } while (0)

static enum error_code unexpected(const struct gql_lexer *lexer, const char *wanted, struct error *err)
{
    const struct gql_token *token = &lexer->token;
    return error_set(err, ERROR_INVALID, "Syntax Error: Expected %s, found \"%.*s\". (line %u, column %u)", wanted,
                     STR_ARG(str_first(token->text, 60)), token->at.line, token->at.column);
}

static bool at_punctuator(const struct gql_lexer *lexer, const char *text)
{
    return lexer->token.kind == GQL_TOKEN_PUNCTUATOR && str_eq(lexer->token.text, str_c(text));
}

static bool at_keyword(const struct gql_lexer *lexer, const char *text)
{
    return lexer->token.kind == GQL_TOKEN_NAME && str_eq(lexer->token.text, str_c(text));
}

static enum error_code next(struct parser *p)
{
    return gql_lexer_next(&p->lexer, p->err);
}

static enum error_code expect(struct gql_lexer *lexer, const char *text, struct error *err)
{
    if (!at_punctuator(lexer, text)) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "\"%s\"", text);
        return unexpected(lexer, wanted, err);
    }
    return gql_lexer_next(lexer, err);
}

static enum error_code read_name(struct parser *p, struct str *out)
{
    if (p->lexer.token.kind != GQL_TOKEN_NAME) return unexpected(&p->lexer, "Name", p->err);
    *out = p->lexer.token.text;
    return next(p);
}

static enum error_code too_deep(struct parser *p)
{
    return error_set(p->err, ERROR_TOO_LARGE, "The document is nested deeper than %u. (line %u, column %u)",
                     p->limits->depth_max, p->lexer.token.at.line, p->lexer.token.at.column);
}

// ---- values --------------------------------------------------------------------------------------------------------

static enum error_code read_value(struct parser *p, bool constant, unsigned depth, struct gql_value *out);

static enum error_code read_list(struct parser *p, bool constant, unsigned depth, struct gql_value *out)
{
    out->kind = GQL_VALUE_LIST;
    TRY(next(p));
    struct gql_value **end = &out->items;
    while (!at_punctuator(&p->lexer, "]")) {
        struct gql_value *item = arena_alloc(p->arena, sizeof *item);
        TRY(read_value(p, constant, depth + 1, item));
        *end = item;
        end = &item->next;
    }
    return next(p);
}

static enum error_code read_argument(struct parser *p, bool constant, unsigned depth, struct gql_argument *out)
{
    out->at = p->lexer.token.at;
    TRY(read_name(p, &out->name));
    TRY(expect(&p->lexer, ":", p->err));
    return read_value(p, constant, depth + 1, &out->value);
}

static enum error_code read_object(struct parser *p, bool constant, unsigned depth, struct gql_value *out)
{
    out->kind = GQL_VALUE_OBJECT;
    TRY(next(p));
    struct gql_argument **end = &out->fields;
    while (!at_punctuator(&p->lexer, "}")) {
        struct gql_argument *field = arena_alloc(p->arena, sizeof *field);
        TRY(read_argument(p, constant, depth, field));
        *end = field;
        end = &field->next;
    }
    return next(p);
}

static enum error_code read_name_value(struct parser *p, struct gql_value *out)
{
    struct str text = p->lexer.token.text;
    out->text = text;
    if (str_eq(text, STR("true")) || str_eq(text, STR("false"))) {
        out->kind = GQL_VALUE_BOOLEAN;
        out->boolean = text.len == 4;
    } else {
        out->kind = str_eq(text, STR("null")) ? GQL_VALUE_NULL : GQL_VALUE_ENUM;
    }
    return next(p);
}

static enum error_code read_value(struct parser *p, bool constant, unsigned depth, struct gql_value *out)
{
    if (depth > p->limits->depth_max) return too_deep(p);
    const struct gql_token *token = &p->lexer.token;
    out->at = token->at;
    out->text = token->text;
    switch (token->kind) {
    case GQL_TOKEN_INT: out->kind = GQL_VALUE_INT; return next(p);
    case GQL_TOKEN_FLOAT: out->kind = GQL_VALUE_FLOAT; return next(p);
    case GQL_TOKEN_STRING:
    case GQL_TOKEN_BLOCK_STRING:
        out->kind = GQL_VALUE_STRING;
        TRY(gql_token_string(token, p->arena, &out->text, p->err));
        return next(p);
    case GQL_TOKEN_NAME: return read_name_value(p, out);
    case GQL_TOKEN_PUNCTUATOR:
        if (at_punctuator(&p->lexer, "[")) return read_list(p, constant, depth, out);
        if (at_punctuator(&p->lexer, "{")) return read_object(p, constant, depth, out);
        if (at_punctuator(&p->lexer, "$") && !constant) {
            TRY(next(p));
            out->kind = GQL_VALUE_VARIABLE;
            return read_name(p, &out->text);
        }
        break;
    case GQL_TOKEN_END: break;
    }
    return unexpected(&p->lexer, "a value", p->err);
}

static enum error_code read_arguments(struct parser *p, bool constant, struct gql_argument **out)
{
    if (!at_punctuator(&p->lexer, "(")) return ERROR_NONE;
    TRY(next(p));
    do {
        struct gql_argument *argument = arena_alloc(p->arena, sizeof *argument);
        TRY(read_argument(p, constant, 0, argument));
        *out = argument;
        out = &argument->next;
    } while (!at_punctuator(&p->lexer, ")"));
    return next(p);
}

static enum error_code read_directives(struct parser *p, bool constant, struct gql_directive **out)
{
    while (at_punctuator(&p->lexer, "@")) {
        if (++p->directives > p->limits->directives_max)
            return error_set(p->err, ERROR_TOO_LARGE, "The document has more than %u directives.",
                             p->limits->directives_max);
        struct gql_directive *directive = arena_alloc(p->arena, sizeof *directive);
        directive->at = p->lexer.token.at;
        TRY(next(p));
        TRY(read_name(p, &directive->name));
        TRY(read_arguments(p, constant, &directive->arguments));
        *out = directive;
        out = &directive->next;
    }
    return ERROR_NONE;
}

enum error_code gql_parse_type(struct gql_lexer *lexer, struct arena *arena, unsigned depth, struct gql_type_ref *out,
                               struct error *err)
{
    enum { LISTS_MAX = 8 };
    if (depth > LISTS_MAX) return unexpected(lexer, "a type of fewer lists", err);
    *out = (struct gql_type_ref){0};
    if (at_punctuator(lexer, "[")) {
        TRY(gql_lexer_next(lexer, err));
        out->item = arena_alloc(arena, sizeof *out->item);
        TRY(gql_parse_type(lexer, arena, depth + 1, out->item, err));
        TRY(expect(lexer, "]", err));
    } else {
        if (lexer->token.kind != GQL_TOKEN_NAME) return unexpected(lexer, "Name", err);
        out->name = lexer->token.text;
        TRY(gql_lexer_next(lexer, err));
    }
    if (!at_punctuator(lexer, "!")) return ERROR_NONE;
    out->non_null = true;
    return gql_lexer_next(lexer, err);
}

// ---- selections ----------------------------------------------------------------------------------------------------

static enum error_code read_selections(struct parser *p, unsigned depth, struct gql_selection **out);

static enum error_code read_field(struct parser *p, unsigned depth, struct gql_selection *out)
{
    out->kind = GQL_FIELD;
    TRY(read_name(p, &out->name));
    out->alias = out->name;
    if (at_punctuator(&p->lexer, ":")) {
        if (++p->aliases > p->limits->aliases_max)
            return error_set(p->err, ERROR_TOO_LARGE, "The document has more than %u aliases.", p->limits->aliases_max);
        TRY(next(p));
        TRY(read_name(p, &out->name));
    }
    TRY(read_arguments(p, false, &out->arguments));
    TRY(read_directives(p, false, &out->directives));
    if (!at_punctuator(&p->lexer, "{")) return ERROR_NONE;
    return read_selections(p, depth + 1, &out->selections);
}

static enum error_code read_fragment_use(struct parser *p, unsigned depth, struct gql_selection *out)
{
    TRY(next(p));
    if (p->lexer.token.kind == GQL_TOKEN_NAME && !at_keyword(&p->lexer, "on")) {
        out->kind = GQL_FRAGMENT_SPREAD;
        struct spread *spread = arena_alloc(p->arena, sizeof *spread);
        *spread = (struct spread){.next = p->spreads, .selection = out};
        p->spreads = spread;
        TRY(read_name(p, &out->name));
        return read_directives(p, false, &out->directives);
    }
    out->kind = GQL_INLINE_FRAGMENT;
    if (at_keyword(&p->lexer, "on")) {
        TRY(next(p));
        TRY(read_name(p, &out->type));
    }
    TRY(read_directives(p, false, &out->directives));
    return read_selections(p, depth + 1, &out->selections);
}

static enum error_code read_selections(struct parser *p, unsigned depth, struct gql_selection **out)
{
    if (depth > p->limits->depth_max) return too_deep(p);
    TRY(expect(&p->lexer, "{", p->err));
    do {
        struct gql_selection *selection = arena_alloc(p->arena, sizeof *selection);
        selection->at = p->lexer.token.at;
        if (at_punctuator(&p->lexer, "..."))
            TRY(read_fragment_use(p, depth, selection));
        else
            TRY(read_field(p, depth, selection));
        *out = selection;
        out = &selection->next;
    } while (!at_punctuator(&p->lexer, "}"));
    return next(p);
}

// ---- definitions ---------------------------------------------------------------------------------------------------

static enum error_code read_variables(struct parser *p, struct gql_variable **out)
{
    if (!at_punctuator(&p->lexer, "(")) return ERROR_NONE;
    TRY(next(p));
    do {
        struct gql_variable *variable = arena_alloc(p->arena, sizeof *variable);
        variable->at = p->lexer.token.at;
        TRY(expect(&p->lexer, "$", p->err));
        TRY(read_name(p, &variable->name));
        TRY(expect(&p->lexer, ":", p->err));
        TRY(gql_parse_type(&p->lexer, p->arena, 0, &variable->type, p->err));
        if (at_punctuator(&p->lexer, "=")) {
            TRY(next(p));
            variable->has_default = true;
            TRY(read_value(p, true, 0, &variable->def));
        }
        TRY(read_directives(p, true, &variable->directives));
        *out = variable;
        out = &variable->next;
    } while (!at_punctuator(&p->lexer, ")"));
    return next(p);
}

static enum error_code read_operation(struct parser *p, struct gql_operation *out)
{
    out->at = p->lexer.token.at;
    if (!at_punctuator(&p->lexer, "{")) {
        out->kind = at_keyword(&p->lexer, "mutation")       ? GQL_MUTATION
                    : at_keyword(&p->lexer, "subscription") ? GQL_SUBSCRIPTION
                                                            : GQL_QUERY;
        TRY(next(p));
        if (p->lexer.token.kind == GQL_TOKEN_NAME) TRY(read_name(p, &out->name));
        TRY(read_variables(p, &out->variables));
        TRY(read_directives(p, false, &out->directives));
    }
    return read_selections(p, 1, &out->selections);
}

static enum error_code read_fragment(struct parser *p, struct gql_fragment *out)
{
    out->at = p->lexer.token.at;
    TRY(next(p));
    if (at_keyword(&p->lexer, "on")) return unexpected(&p->lexer, "a fragment name", p->err);
    TRY(read_name(p, &out->name));
    if (!at_keyword(&p->lexer, "on")) return unexpected(&p->lexer, "\"on\"", p->err);
    TRY(next(p));
    TRY(read_name(p, &out->type));
    TRY(read_directives(p, false, &out->directives));
    return read_selections(p, 1, &out->selections);
}

enum error_code gql_parse(struct str source, const struct gql_limits *limits, struct arena *arena,
                          struct gql_document *out, struct error *err)
{
    struct parser p = {.arena = arena, .limits = limits, .err = err};
    struct gql_document document = {0};
    struct gql_operation **operations = &document.operations;
    struct gql_fragment **fragments = &document.fragments;
    TRY(gql_lexer_init(&p.lexer, source, limits->tokens_max, err));
    do {
        bool is_operation = at_punctuator(&p.lexer, "{") || at_keyword(&p.lexer, "query") ||
                            at_keyword(&p.lexer, "mutation") || at_keyword(&p.lexer, "subscription");
        if (is_operation) {
            *operations = arena_alloc(arena, sizeof **operations);
            TRY(read_operation(&p, *operations));
            operations = &(*operations)->next;
        } else if (at_keyword(&p.lexer, "fragment")) {
            *fragments = arena_alloc(arena, sizeof **fragments);
            (*fragments)->index = document.fragment_count++;
            TRY(read_fragment(&p, *fragments));
            fragments = &(*fragments)->next;
        } else {
            return unexpected(&p.lexer, "an operation or a fragment", err);
        }
    } while (p.lexer.token.kind != GQL_TOKEN_END);
    for (const struct spread *spread = p.spreads; spread; spread = spread->next)
        spread->selection->fragment = gql_document_fragment(&document, spread->selection->name);
    *out = document;
    return ERROR_NONE;
}

const struct gql_fragment *gql_document_fragment(const struct gql_document *document, struct str name)
{
    for (const struct gql_fragment *fragment = document->fragments; fragment; fragment = fragment->next)
        if (str_eq(fragment->name, name)) return fragment;
    return NULL;
}
