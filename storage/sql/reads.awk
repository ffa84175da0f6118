# Turns declared reads into statements and tables: awk -v part=sql|h|c -f reads.awk SCHEMA.graphql... FILE.sql...
# A declaration binds a type of the schema to rows. Its lines stand in modules/<noun>/<noun>.sql, before statements:
#   -- type: Widget                                   begins it
#   -- from: culvert.widgets w                        the table and its alias
#   -- key: w.name, w.runtime                         columns, not null, that identify a row
#   -- scope: w.account_id = :account_id              what belongs to the caller's account
#   -- access: widget                                 the entity type whose rules apply; users alone may read
#   -- join: r = :{runtime_states} ON r.runtime = w.runtime      beside the rows of a page (also: page)
#   -- field: name = w.name                           metadata.labels = pairs(w.labels); created = time(w.created_at)
#   -- query: widgets                                 a field of Query that gives slices
#   -- query: widget(name = w.name)                   one that gives one row, by its arguments
#   -- filter: runtimes text[] = w.runtime = ANY (:value)        text, text[], boolean, bigint, timestamptz
#   -- order: SIZE = w.size DESC, key                 the first is the default; without any: key
# The other lines of the format (one, many, facet) are refused: nothing answers them yet.
function fail_at(place, message) {
    print place ": " message > "/dev/stderr"
    failed = 1
    exit 1
}
function fail(message) {
    fail_at(FILENAME ":" FNR, message)
}
function trim(text) {
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}
# ---- the schema: field[type, name] is the type of a field, argument[type, name, argument] of an argument ------------
function tokenize(line) {
    while (match(line, /[_A-Za-z][_A-Za-z0-9]*|[][{}():!=|&@]|"[^"]*"|-?[0-9.]+/)) {
        token[++tokens] = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
    }
}
# The type that begins at token `at`; leaves `at` behind it. Lists are "[Name", what may not be null ends with "!".
function read_type(name, prefix) {
    while (token[at] == "[") {
        prefix = "["
        at++
    }
    name = token[at++]
    while (token[at] ~ /^[]!]$/) {
        if (token[at] == "!" && token[at + 1] != "]") name = name "!"
        at++
    }
    return prefix name
}
function skip_default() {
    if (token[at] == "=") at += 2
}
function read_arguments(type, name, key) {
    at++
    while (token[at] != ")" && at <= tokens) {
        key = token[at]
        at += 2
        argument[type, name, key] = read_type()
        skip_default()
    }
    at++
}
function read_fields(type, name) {
    at++
    while (token[at] != "}" && at <= tokens) {
        name = token[at++]
        if (token[at] == "(") read_arguments(type, name)
        if (token[at] == ":") at++
        field[type, name] = read_type()
        fields[type] = fields[type] " " name
        skip_default()
    }
    at++
}
function read_schema(kind, type) {
    at = 1
    while (at <= tokens) {
        kind = token[at++]
        if (kind !~ /^(type|input|interface|enum)$/) continue
        type = token[at++]
        kinds[type] = kind
        while (token[at] != "{" && at <= tokens) at++
        if (kind == "enum") {
            for (at++; token[at] != "}" && at <= tokens; at++) values[type, token[at]] = 1
            at++
        } else {
            read_fields(type)
        }
    }
}
function bare(type) {
    gsub(/[][!]/, "", type)
    return type
}
# ---- declarations --------------------------------------------------------------------------------------------------
# "NAME REST = EXPRESSION": sets left and right.
function split_binding(text, i) {
    i = index(text, " = ")
    if (i == 0) fail("expected NAME = EXPRESSION, found \"" text "\"")
    left = trim(substr(text, 1, i - 1))
    right = trim(substr(text, i + 3))
}
function once(what, key, value) {
    if ((what, key) in given) fail("a second \"" key "\", the first is at line " given[what, key])
    given[what, key] = FNR
    return value
}
function end_type() {
    if (type == "") return
    split("from key scope access", needed, " ")
    for (k = 1; k in needed; k++)
        if (!((type, "-- " needed[k] ":") in given)) fail_at(type_place[type], "type " type " has no line \"-- " needed[k] ":\"")
    type = ""
}
function declare(key, text, words) {
    if (key != "type" && type == "") fail("\"-- " key ":\" without a \"-- type:\" before it")
    if (key ~ /^(from|key|scope|access)$/) {
        attribute[type, key] = once(type, "-- " key ":", text)
        if (key == "from" && split(text, words, " ") != 2) fail("expected TABLE ALIAS, found \"" text "\"")
        if (key == "from") alias[type] = words[2]
        if (key == "access" && text !~ /^[a-z_]+$/) fail("access \"" text "\": expected the name of an entity type")
    } else if (key == "field") {
        split_binding(text)
        bound[type, left] = once(type, "field " left, right)
        paths[type] = paths[type] " " left
        place_of[type, left] = FILENAME ":" FNR
        for (i = 1; (j = index(substr(left, i), ".")) > 0; i += j) above[type, substr(left, 1, i + j - 2)] = 1
    } else if (key == "join") {
        split_binding(text)
        if (!match(right, / ON [^)]*$/)) fail("join " left ": expected NAME = QUERY ON CONDITION")
        joins[type] = joins[type] " " once(type, "join " left, left)
        join_query[type, left] = substr(right, 1, RSTART - 1)
        join_on[type, left] = substr(right, RSTART + 4)
    } else if (key == "filter") {
        split_binding(text)
        if (split(left, words, " ") != 2 || words[2] !~ /^(text|text\[\]|boolean|bigint|timestamptz)$/)
            fail("filter \"" left "\": expected NAME TYPE, with text, text[], boolean, bigint or timestamptz")
        if (right !~ /:value/) fail("filter " words[1] ": its condition has no :value")
        filters[type] = filters[type] " " once(type, "filter " words[1], words[1])
        filter_type[type, words[1]] = words[2]
        condition[type, words[1]] = right
        place_of[type, "filter " words[1]] = FILENAME ":" FNR
    } else if (key == "order") {
        split_binding(text)
        if (left !~ /^[A-Z][A-Z0-9_]*$/) fail("order \"" left "\": expected a name in capitals")
        orders[type] = orders[type] " " once(type, "order " left, left)
        order_keys[type, left] = right
        place_of[type, "order " left] = FILENAME ":" FNR
    } else if (key == "query") {
        query[++queries] = text
        query_type[queries] = type
        query_place[queries] = FILENAME ":" FNR
        query_module[queries] = module
    } else if (key ~ /^(one|many|facet)$/) {
        fail("\"-- " key ":\" is not answered by declared reads yet")
    } else if (key == "type") {
        end_type()
        if (text !~ /^[A-Za-z_0-9]+$/) fail("type \"" text "\": expected the name of a type")
        type = once("", "type " text, text)
        type_place[type] = FILENAME ":" FNR
    } else {
        fail("unknown key \"-- " key ":\"; type, from, key, scope, access, join, field, query, filter or order")
    }
}
# ---- checks against the schema -------------------------------------------------------------------------------------
# Each field of the schema's type is bound, by itself or by the fields inside it.
function check_bound(what, at_type, prefix, place, list, n, k, path) {
    n = split(trim(fields[at_type]), list, " ")
    for (k = 1; k <= n; k++) {
        path = prefix list[k]
        if ((what, path) in bound) continue
        if (!((what, path) in above)) fail_at(place, "field " path " of type " what " is not bound")
        if (field[at_type, list[k]] ~ /^\[/) fail_at(place, "field " path " of type " what " is a list: bind it whole")
        check_bound(what, bare(field[at_type, list[k]]), path ".", place)
    }
}
function check_path(what, path, parts, n, k, at_type) {
    at_type = what
    n = split(path, parts, ".")
    for (k = 1; k <= n; k++) {
        if (!((at_type, parts[k]) in field))
            fail_at(place_of[what, path], "field " path ": type " at_type " of the schema has no field " parts[k])
        at_type = bare(field[at_type, parts[k]])
    }
    if ((what, path) in above) fail_at(place_of[what, path], "field " path " is bound whole and in parts")
}
function check_type(what, list, n, k) {
    if (kinds[what] != "type") fail_at(type_place[what], "the schema has no type " what " with fields")
    n = split(trim(paths[what]), list, " ")
    for (k = 1; k <= n; k++) check_path(what, list[k])
    check_bound(what, what, "", type_place[what])
}
# Filters stand in the input type of the argument `filters`, or are arguments themselves; orders in `orderBy`.
function check_list(i, name, what, inputs, list, n, k, order_type) {
    what = query_type[i]
    inputs = bare(argument["Query", name, "filters"])
    n = split(trim(filters[what]), list, " ")
    for (k = 1; k <= n; k++)
        if (!((inputs, list[k]) in field) && !(("Query", name, list[k]) in argument))
            fail_at(place_of[what, "filter " list[k]], "filter " list[k] ": Query." name " of the schema does not take it")
    n = split(trim(fields[inputs]), list, " ")
    for (k = 1; inputs != "" && k <= n; k++)
        if (!((what, list[k]) in filter_type)) fail_at(query_place[i], "field " list[k] " of " inputs " is no filter")
    order_type = bare(field[bare(argument["Query", name, "orderBy"]), "field"])
    n = split(trim(orders[what]), list, " ")
    for (k = 1; k <= n; k++)
        if (!((order_type, list[k]) in values) && !(n == 1 && order_type == ""))
            fail_at(place_of[what, "order " list[k]], "order " list[k] ": Query." name "(orderBy) of the schema has no such field")
    if (!(("Query", name, "pagination") in argument)) fail_at(query_place[i], "Query." name " has no argument pagination")
}
# ---- text ----------------------------------------------------------------------------------------------------------
function expression(text) {
    if (text ~ /^pairs\(.*\)$/)
        return "(SELECT coalesce(json_agg(json_build_object('key', l.key, 'value', l.value) ORDER BY l.key), '[]'::json)" \
               " FROM jsonb_each_text" substr(text, 6) " l)"
    if (text ~ /^time\(.*\)$/) return "to_char(" substr(text, 6, length(text) - 6) ", :{rfc3339})"
    return text
}
# An object of at most 40 members a call: a function of PostgreSQL takes at most 100 arguments.
function object(what, at_type, prefix, list, n, k, path, text, members) {
    n = split(trim(fields[at_type]), list, " ")
    for (k = 1; k <= n; k++) {
        path = prefix list[k]
        if (members == 40) {
            text = text ") || jsonb_build_object("
            members = 0
        }
        text = text (members++ ? ", " : "") "'" list[k] "', "
        if ((what, path) in bound) text = text expression(bound[what, path])
        else text = text object(what, bare(field[at_type, list[k]]), path ".")
    }
    return "(jsonb_build_object(" text "))"
}
function common(what, list, n, k, text) {
    n = split(trim(joins[what]), list, " ")
    for (k = 1; k <= n; k++) text = text ",\n" list[k] " AS MATERIALIZED (" join_query[what, list[k]] ")"
    return text
}
function joined(what, list, n, k, text) {
    n = split(trim(joins[what]), list, " ")
    for (k = 1; k <= n; k++) text = text "\n  JOIN " list[k] " ON " join_on[what, list[k]]
    return text
}
# Rows behind the bound (sign ">") or before it, by keys of which some may go down.
function beyond(n, bound_name, sign, k, text, close_all, is_last, one) {
    for (k = 1; k <= n; k++) {
        one = is_down[k] ? (sign == ">" ? "<" : ">") : sign
        is_last = k == n
        text = text column[k] " " one " :" bound_name "_" k
        if (is_last) continue
        text = text " OR (" column[k] " = :" bound_name "_" k " AND ("
        close_all = close_all "))"
    }
    return "(" text close_all ")"
}
# Sets column[] and is_down[]; returns how many. "key" at the end stands for the type's key.
function split_order(text, keys, list, n, k) {
    if (text == "key") text = keys
    else if (sub(/, *key$/, ", ", text)) text = text keys
    n = split(text, list, /, */)
    for (k = 1; k <= n; k++) {
        is_down[k] = sub(/ +DESC$/, "", list[k])
        column[k] = trim(list[k])
    }
    return n
}
function page_bounds(n, k, low, high, columns, same) {
    same = 1
    for (k = 2; k <= n; k++) if (is_down[k] != is_down[1]) same = 0
    if (!same) return "(NOT :has_low::boolean OR " beyond(n, "low", ">") ")\n       AND (NOT :has_high::boolean OR " beyond(n, "high", "<") ")"
    for (k = 1; k <= n; k++) {
        columns = columns (k > 1 ? ", " : "") column[k]
        low = low (k > 1 ? ", " : "") ":low_" k
        high = high (k > 1 ? ", " : "") ":high_" k
    }
    return "(NOT :has_low::boolean OR (" columns ") " (is_down[1] ? "<" : ">") " (" low "))\n" \
           "       AND (NOT :has_high::boolean OR (" columns ") " (is_down[1] ? ">" : "<") " (" high "))"
}
function filter_text(what, list, n, k, name, text, value) {
    n = split(trim(filters[what]), list, " ")
    for (k = 1; k <= n; k++) {
        name = list[k]
        value = ":filter_" tolower(name) "::" filter_type[what, name]
        text = condition[what, name]
        gsub(/:value/, value, text)
        out = out "\n       AND (" value " IS NULL OR (" text "))"
    }
}
# An order has the whole key, or two rows could share a place. A cursor takes at most seven keys.
function check_key(what, order, n, list, m, k, j) {
    m = split(attribute[what, "key"], list, /, */)
    for (k = 1; k <= m; k++) {
        for (j = 1; j <= n && column[j] != list[k]; j++) ;
        if (j > n) fail_at(place_of[what, "order " order], "order " order " lacks " list[k] " of the key")
    }
    if (n > 7) fail_at(place_of[what, "order " order], "order " order " has " n " columns, the limit is 7")
}
function list_statement(i, name, what, order, k, n) {
    what = query_type[i]
    n = split_order(order == "KEY" ? "key" : order_keys[what, order], attribute[what, "key"])
    out = "\n-- list: read_" tolower(name) "_" tolower(order) "\n-- order: "
    for (k = 1; k <= n; k++) out = out (k > 1 ? ", " : "") column[k] (is_down[k] ? " DESC" : "")
    check_key(what, order, n)
    out = out "\nWITH page AS MATERIALIZED (\n    SELECT * FROM " attribute[what, "from"] "\n     WHERE " attribute[what, "scope"]
    filter_text(what)
    out = out "\n       AND " page_bounds(n) "\n     ORDER BY :{order}\n     LIMIT :limit::bigint)" common(what)
    out = out "\nSELECT " object(what, what, "") ", '" order "'"
    for (k = 1; k <= n; k++) out = out ", " column[k] "::text"
    out = out "\n  FROM page " alias[what] joined(what) "\n ORDER BY :{order}"
    if (part == "sql") print out
    keys_of[i, order] = n
}
function one_statement(i, name, arguments, what, list, n, k, sdl, sql, text) {
    what = query_type[i]
    n = split(arguments, list, /, */)
    for (k = 1; k <= n; k++) {
        split_at = index(list[k], " = ")
        left = trim(substr(list[k], 1, split_at - 1))
        right = trim(substr(list[k], split_at + 3))
        if (split_at == 0) fail_at(query_place[i], "expected ARGUMENT = COLUMN, found \"" list[k] "\"")
        if (!(("Query", name, left) in argument)) fail_at(query_place[i], "Query." name " of the schema has no argument " left)
        sdl = argument["Query", name, left]
        sql = ":argument_" tolower(left) "::" (bare(sdl) == "Int" ? "bigint" : bare(sdl) == "Boolean" ? "boolean" : "text")
        text = text "\n       AND " (sdl ~ /!$/ ? right " = " sql : "(" sql " IS NULL OR " right " = " sql ")")
        inputs_of[i] = inputs_of[i] " " left ":" (bare(sdl) == "Int" ? "bigint" : bare(sdl) == "Boolean" ? "boolean" : "text")
    }
    if (part != "sql") return
    print "\n-- name: read_" tolower(name)
    print "WITH page AS MATERIALIZED (\n    SELECT * FROM " attribute[what, "from"] "\n     WHERE " attribute[what, "scope"] text
    print "     ORDER BY " attribute[what, "key"] "\n     LIMIT 1)" common(what)
    print "SELECT " object(what, what, "") "\n  FROM page " alias[what] joined(what)
}
# ---- output --------------------------------------------------------------------------------------------------------
function kind_of(sql_type) {
    return "READ_" (sql_type == "text[]" ? "TEXTS" : sql_type == "timestamptz" ? "TIME" : sql_type == "bigint" ? "NUMBER" : toupper(sql_type))
}
function table_of(i, name, is_list, what, list, n, k, pair) {
    what = query_type[i]
    n = split(trim(is_list ? filters[what] : inputs_of[i]), list, " ")
    printf "\nstatic const struct read_input inputs_%d[] = {", i
    for (k = 1; k <= n; k++) {
        if (is_list) printf "{\"%s\", %s}, ", list[k], kind_of(filter_type[what, list[k]])
        else if (split(list[k], pair, ":")) printf "{\"%s\", %s}, ", pair[1], kind_of(pair[2])
    }
    print "{NULL, 0}};"
    if (is_list) {
        printf "static const struct read_order orders_%d[] = {", i
        n = split(trim(orders[what] == "" ? "KEY" : orders[what]), list, " ")
        for (k = 1; k <= n; k++)
            printf "{\"%s\", %d, &statement_read_%s_%s, &statement_read_%s_%s_back}, ", list[k], keys_of[i, list[k]],
                tolower(name), tolower(list[k]), tolower(name), tolower(list[k])
        print "{NULL, 0, NULL, NULL}};"
    }
    printf "static const struct read read_%d = {\"%s\", \"%s\", inputs_%d, ", i, what, attribute[what, "access"], i
    if (is_list) print "orders_" i ", NULL};"
    else print "NULL, &statement_read_" tolower(name) "};"
    table[query_module[i]] = table[query_module[i]] "    {GQL_QUERY, \"" name "\", .access = API_USERS, .resolve_with = api_resolve_read, .with = &read_" i "},\n"
}
function finish_one(i, text, name, arguments, is_list, list, n, k) {
    text = query[i]
    name = text
    is_list = text !~ /\(/
    if (!is_list) {
        name = trim(substr(text, 1, index(text, "(") - 1))
        arguments = substr(text, index(text, "(") + 1)
        if (!sub(/\)$/, "", arguments)) fail_at(query_place[i], "query " name ": expected \")\" at the end")
    }
    if (!(("Query", name) in field)) fail_at(query_place[i], "query " name ": type Query of the schema has no such field")
    if (is_list) {
        check_list(i, name)
        n = split(trim(orders[query_type[i]] == "" ? "KEY" : orders[query_type[i]]), list, " ")
        for (k = 1; k <= n; k++) list_statement(i, name, query_type[i], list[k])
    } else {
        one_statement(i, name, arguments)
    }
    query_name[i] = name
    query_is_list[i] = is_list
}
FNR == 1 {
    end_type()
    n = split(FILENAME, path_parts, "/")
    module = path_parts[n - 1]
    in_description = 0
}
FILENAME ~ /\.graphql$/ {
    if ($0 ~ /^ *"""/) in_description = !in_description
    else if (!in_description && $0 !~ /^ *"/) {
        sub(/#.*$/, "")
        tokenize($0)
    }
    next
}
/^-- (name|fragment|list): / {
    end_type()
    in_statements = FILENAME
}
/^-- [a-z]+: / && in_statements != FILENAME && (type != "" || $2 == "type:") {
    declare(substr($2, 1, length($2) - 1), trim(substr($0, length($2) + 5)))
}
END {
    if (failed) exit 1
    end_type()
    read_schema()
    for (what in type_place) check_type(what)
    if (part == "h") print "#ifndef CULVERT_READS_H\n#define CULVERT_READS_H\n\n#include \"api/reads/read_resolver.h\""
    else if (part == "c") print "#include \"culvert_reads.h\"\n\n#include \"api/resolvers.h\"\n#include \"culvert_statements.h\""
    else print "-- Made from the declared reads of modules/ by storage/sql/reads.awk."
    for (i = 1; i <= queries; i++) finish_one(i)
    if (part == "sql") exit
    for (i = 1; part == "c" && i <= queries; i++) table_of(i, query_name[i], query_is_list[i])
    for (i = 1; i <= queries; i++) {
        module = query_module[i]
        if (!(module in counted)) modules = modules " " module
        counted[module]++
    }
    n = split(trim(modules), list, " ")
    for (k = 1; k <= n; k++) {
        if (part == "h") printf "\nextern const struct gql_resolver declared_%s[];\nenum { declared_%s_count = %d };\n", list[k], list[k], counted[list[k]]
        else printf "\nconst struct gql_resolver declared_%s[] = {\n%s};\n", list[k], table[list[k]]
    }
    if (part == "h") print "\n#endif"
}
