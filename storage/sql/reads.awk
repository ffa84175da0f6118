# Turns declared reads into tables for api/compile:
#   awk -v part=h|c -f reads.awk SCHEMA.graphql... FILE.sql...
# A declaration binds a type of the schema to rows. Its lines stand in modules/<noun>/<noun>.sql,
# before statements:
#   -- type: Widget                                   begins it
#   -- from: culvert.widgets w                        the table, or :{fragment}, and its alias
#   -- key: w.name, w.runtime                         columns, not null, that identify a row
#   -- group: w.name                                  rows are groups of these, fields aggregates
#   -- scope: w.account_id = :account_id              what belongs to the caller's account
#   -- access: widget, runtime = w.runtime            the entity type whose rules apply, and columns of
#                                                     its attributes
#   -- ruled: w.owner IS NOT NULL                     users whom rules limit read no rows but these
#   -- callers: users                                 runtimes read none of them
#   -- versioned: yes                                 lists are of what answer_store.sql covers
#   -- join: r = :{runtime_states} ON r.runtime = w.runtime      made when a field needs it
#   -- field: name = w.name                           also: labels = pairs(w.labels), made = time(w.at)
#   -- field: text = manifest(w.sha256) ONLY widget   of this query alone; elsewhere another line, or null
#   -- object: part = w.size > 0                      an object inside: null where this does not hold
#   -- same: self = Gadget                            a field that is the same row as another
# type, with
#                                                     what that type binds; its table and alias
# are the same
#   -- query: widgets                                 a field of Query that gives slices
#   -- query: widget(name = w.name)                   one that gives one row, by its arguments
#   -- query: widget(name = w.name) BY w.size DESC    of several the first in this order, not the key's
#   -- page: 1000                                     rows where a client gives no `first`, else 100
#   -- filter: runtimes text[] = w.runtime = ANY (:value)        or text, boolean, bigint, timestamptz
#   -- filter: hidden boolean DEFAULT f = w.is_hidden = :value   the value where none is given
#   -- order: SIZE = w.size DESC, key                 the first is the default; without any: key
#                                                     orderBy: {field, direction}: asc as declared
#                                                     sort: {field, order}: asc of the first column
#   -- also: states BUSY = w.is_busy                  or this, when BUSY is among the values of the filter
#   -- found: states = f(:value, :limit)              the keys of the filter's rows, from an index
#   -- filter: owner refused = owners are not kept    an error where it is given; the reason
#   -- index: widgetsIndex                       a field of Query that counts a list, with fences
#   -- label: SIZE = w.name                      what fences in that order show; else its first key
#   -- facets: widgetFacets                      a field of Query that counts by dimensions
#   -- facet: RUNTIME runtimes = w.runtime       a dimension, filters that choose by it, its value
# A field's right side is SQL over the row; 'text', NULL, true, false and '[]' stand for themselves.
# Fragments of the .sql files are included as :{name}. The other lines of the format (one, many) are
# refused: nothing answers them yet.
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
# ---- the schema: field[type, name] is the type of a field, argument[type, name, argument] of an a
function tokenize(line) {
    while (match(line, /[_A-Za-z][_A-Za-z0-9]*|[][{}():!=|&@]|"[^"]*"|-?[0-9.]+/)) {
        token[++tokens] = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
    }
}
# The type that begins at token `at`; leaves `at` behind it. Lists are "[Name", what may not be null
# ends with "!".
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
# ---- declarations -------------------------------------------------------------------------------
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
        if (key == "access" && text !~ /^[a-z_]+(, [a-z_]+ = ([a-z_.]+|:[{][a-z_]+[}]))*$/)
            fail("access \"" text "\": expected the name of an entity type, and NAME = COLUMN or :{fragment} of attributes")
    } else if (key == "field") {
        split_binding(text)
        only = ""
        if (match(right, / ONLY [A-Za-z]+$/)) {
            only = substr(right, RSTART + 6)
            right = substr(right, 1, RSTART - 1)
            only_bound[type, left] = once(type, "field " left " ONLY", right)
            only_query[type, left] = only
        } else {
            general[type, left] = once(type, "field " left, right)
        }
        if (!((type, left) in bound)) paths[type] = paths[type] " " left
        bound[type, left] = right
        place_of[type, left] = FILENAME ":" FNR
        for (i = 1; (j = index(substr(left, i), ".")) > 0; i += j) above[type, substr(left, 1, i + j - 2)] = 1
    } else if (key == "object") {
        split_binding(text)
        present[type, left] = once(type, "object " left, right)
        objects[type] = objects[type] " " left
        place_of[type, "object " left] = FILENAME ":" FNR
    } else if (key == "same") {
        split_binding(text)
        same[type, left] = once(type, "same " left, right)
        sames[type] = sames[type] " " left
        place_of[type, "same " left] = FILENAME ":" FNR
    } else if (key == "join") {
        split_binding(text)
        if (!match(right, / ON [^)]*$/)) fail("join " left ": expected NAME = QUERY ON CONDITION")
        joins[type] = joins[type] " " once(type, "join " left, left)
        join_query[type, left] = substr(right, 1, RSTART - 1)
        join_on[type, left] = substr(right, RSTART + 4)
    } else if (key == "filter") {
        split_binding(text)
        n = split(left, words, " ")
        if ((n != 2 && !(n == 4 && words[3] == "DEFAULT")) || words[2] !~ /^(text|text\[\]|boolean|bigint|timestamptz|refused)$/)
            fail("filter \"" left "\": expected NAME TYPE [DEFAULT VALUE], with text, text[], boolean, bigint, timestamptz or refused")
        if (n == 4) fallback[type, words[1]] = words[4]
        if (words[2] != "refused" && right !~ /:value|:\{/) fail("filter " words[1] ": its condition has no :value")
        filters[type] = filters[type] " " once(type, "filter " words[1], words[1])
        filter_type[type, words[1]] = words[2]
        condition[type, words[1]] = right
        place_of[type, "filter " words[1]] = FILENAME ":" FNR
    } else if (key == "also") {
        split_binding(text)
        if (split(left, words, " ") != 2 || filter_type[type, words[1]] != "text[]")
            fail("also \"" left "\": expected FILTER VALUE of a filter text[] above")
        also_value[type, words[1]] = once(type, "also " words[1], words[2])
        also_sql[type, words[1]] = right
    } else if (key == "found") {
        split_binding(text)
        if (!((type, left) in filter_type)) fail("found " left ": no filter above has this name")
        if (right !~ /:limit/) fail("found " left ": expected a query with :value and :limit")
        found_for[type] = 1
        found_sql[type, left] = once(type, "found " left, right)
    } else if (key == "order") {
        split_binding(text)
        if (left !~ /^[A-Za-z][A-Za-z0-9_]*$/) fail("order \"" left "\": expected a name")
        orders[type] = orders[type] " " once(type, "order " left, left)
        order_keys[type, left] = right
        place_of[type, "order " left] = FILENAME ":" FNR
    } else if (key == "group") {
        group[type] = once(type, "-- group:", text)
    } else if (key == "ruled") {
        ruled[type] = once(type, "-- ruled:", text)
    } else if (key == "versioned") {
        if (text != "yes") fail("versioned \"" text "\": expected yes")
        versioned[type] = once(type, "-- versioned:", 1)
    } else if (key == "callers") {
        if (text != "users") fail("callers \"" text "\": expected users")
        for_users[type] = once(type, "-- callers:", 1)
    } else if (key == "page") {
        if (text !~ /^[1-9][0-9]*$/ || text + 0 > 10000) fail("page \"" text "\": expected 1 to 10000")
        page_rows[type] = once(type, "-- page:", text)
    } else if (key == "query") {
        query[++queries] = text
        query_type[queries] = type
        query_place[queries] = FILENAME ":" FNR
        query_module[queries] = module
    } else if (key ~ /^(index|facets)$/) {
        counts[++count_total] = text
        counted_for[type] = 1
        count_kind[count_total] = key
        count_type[count_total] = type
        count_place[count_total] = FILENAME ":" FNR
        count_module[count_total] = module
    } else if (key == "label") {
        split_binding(text)
        if (!((type, "order " left) in given)) fail("label " left ": no order above has this name")
        labels[type, left] = once(type, "label " left, right)
    } else if (key == "facet") {
        split_binding(text)
        n = split(left, words, " ")
        if (words[1] !~ /^[A-Z][A-Z0-9_]*$/) fail("facet \"" left "\": expected NAME FILTER..., the name in capitals")
        for (i = 2; i <= n; i++)
            if (!((type, words[i]) in filter_type)) fail("facet " words[1] ": no filter above is named " words[i])
        facets[type] = facets[type] " " once(type, "facet " words[1], words[1])
        sub(/^[^ ]+ */, "", left)
        facet_own[type, words[1]] = left
        facet_sql[type, words[1]] = right
        place_of[type, "facet " words[1]] = FILENAME ":" FNR
    } else if (key ~ /^(one|many)$/) {
        fail("\"-- " key ":\" is not answered by declared reads yet")
    } else if (key == "type") {
        end_type()
        if (text !~ /^[A-Za-z_0-9]+$/) fail("type \"" text "\": expected the name of a type")
        type = once("", "type " text, text)
        type_place[type] = FILENAME ":" FNR
    } else {
        fail("unknown key \"-- " key ":\"; type, from, key, group, scope, access, ruled, callers, versioned, join, field, object, same, query, filter, also, found, order, page, index, label, facets or facet")
    }
}
# ---- the same row under another type
# ------------------------------------------------------------
function copy_field(what, path, from, under, i, j) {
    paths[what] = paths[what] " " path
    bound[what, path] = bound[from, under]
    if ((from, under) in general) general[what, path] = general[from, under]
    place_of[what, path] = place_of[from, under]
    for (i = 1; (j = index(substr(path, i), ".")) > 0; i += j) above[what, substr(path, 1, i + j - 2)] = 1
}
function copy_joins(what, from, list, n, k) {
    n = split(trim(joins[from]), list, " ")
    for (k = 1; k <= n; k++) {
        if ((what, list[k]) in join_query) continue
        joins[what] = joins[what] " " list[k]
        join_query[what, list[k]] = join_query[from, list[k]]
        join_on[what, list[k]] = join_on[from, list[k]]
    }
}
function include_same(what, name, from, place, list, n, k) {
    from = same[what, name]
    place = place_of[what, "same " name]
    if (!(from in type_place)) fail_at(place, "same " name ": no type " from " is declared")
    if (attribute[from, "from"] != attribute[what, "from"])
        fail_at(place, "same " name ": " from " is of \"" attribute[from, "from"] "\", not of \"" attribute[what, "from"] "\"")
    n = split(trim(paths[from]), list, " ")
    for (k = 1; k <= n; k++) copy_field(what, name "." list[k], from, list[k])
    n = split(trim(objects[from]), list, " ")
    for (k = 1; k <= n; k++) {
        present[what, name "." list[k]] = present[from, list[k]]
        objects[what] = objects[what] " " name "." list[k]
        place_of[what, "object " name "." list[k]] = place_of[from, "object " list[k]]
    }
    copy_joins(what, from)
}
# ---- checks against the schema ------------------------------------------------------------------
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
        type_at[what, path] = field[at_type, parts[k]]
        at_type = bare(field[at_type, parts[k]])
    }
    if ((what, path) in above) fail_at(place_of[what, path], "field " path " is bound whole and in parts")
}
function check_type(what, list, n, k) {
    if ((what in group) && (joins[what] != "" || what in found_for || what in counted_for))
        fail_at(type_place[what], "type " what " is grouped: it takes no join, found, index or facets")
    if (kinds[what] != "type") fail_at(type_place[what], "the schema has no type " what " with fields")
    n = split(trim(paths[what]), list, " ")
    for (k = 1; k <= n; k++) check_path(what, list[k])
    n = split(trim(objects[what]), list, " ")
    for (k = 1; k <= n; k++)
        if (!((what, list[k]) in above)) fail_at(place_of[what, "object " list[k]], "object " list[k] ": no field inside it is bound")
    check_bound(what, what, "", type_place[what])
}
# Filters stand in the input type of the argument `filters`, or are arguments; orders in `orderBy`.
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
    order_type = bare(field[bare(argument["Query", name, (("Query", name, "sort") in argument) ? "sort" : "orderBy"]), "field"])
    n = split(trim(orders[what]), list, " ")
    for (k = 1; k <= n; k++)
        if (!((order_type, list[k]) in values) && !(n == 1 && order_type == ""))
            fail_at(place_of[what, "order " list[k]], "order " list[k] ": Query." name "(orderBy) of the schema has no such field")
    if (!(("Query", name, "pagination") in argument)) fail_at(query_place[i], "Query." name " has no argument pagination")
}
# ---- text ---------------------------------------------------------------------------------------
function expand(place, text, start, name, before, after, rounds) {
    while ((start = index(text, ":{")) > 0) {
        if (++rounds > 1000) fail_at(place, "fragments that contain each other")
        before = substr(text, 1, start - 1)
        after = substr(text, start + 2)
        name = substr(after, 1, index(after, "}") - 1)
        if (!(name in fragments)) fail_at(place, "unknown fragment " name)
        text = before fragments[name] substr(after, length(name) + 2)
    }
    return text
}
# A C literal of SQL text on one line.
function quoted(text) {
    gsub(/[ \n]+/, " ", text)
    sub(/ +$/, "", text)
    gsub(/\\/, "\\\\", text)
    gsub(/"/, "\\\"", text)
    gsub(/\?/, "\\?", text)
    return "\"" text "\""
}
# The joins whose columns stand in the text, as bits.
function joins_of(what, text, list, n, k, bits) {
    n = split(trim(joins[what]), list, " ")
    for (k = 1; k <= n; k++) if (match(" " text, "[^A-Za-z0-9_.]" list[k] "[.]")) bits += 2 ^ (k - 1)
    return bits + 0
}
# Sets kind and sql of a field, whose right side is text.
function field_sql(what, path, text, of) {
    of = type_at[what, path]
    kind = "BOUND_JSON"
    sql = text
    if (text ~ /^pairs\(.*\)$/) {
        kind = "BOUND_PAIRS"
        sql = substr(text, 7, length(text) - 7)
    } else if (text ~ /^manifest\(.*\)$/) {
        kind = "BOUND_MANIFEST"
        sql = "(SELECT m.encoding || ' ' || m.plain_bytes || ' ' || encode(m.content, 'hex') FROM culvert.manifests m" \
              " WHERE m.account_id = :account_id AND m.sha256 = " substr(text, 10, length(text) - 10) ")"
    } else if (text ~ /^time\(.*\)$/) {
        kind = "BOUND_TIME"
        sql = substr(text, 6, length(text) - 6)
    } else if (text ~ /^'[^'"\\]*'$/ && of !~ /^\[/ && kinds[bare(of)] !~ /^(type|interface)$/) {
        kind = "BOUND_CONSTANT"
        sql = "\"" substr(text, 2, length(text) - 2) "\""
    } else if (text ~ /^(NULL|true|false|'\[\]')$/) {
        kind = "BOUND_CONSTANT"
        sql = tolower(text)
        gsub(/'/, "", sql)
    } else if (of !~ /^\[/) {
        of = bare(of)
        if (of == "Int") kind = "BOUND_INT"
        else if (of == "Float") kind = "BOUND_FLOAT"
        else if (of == "Boolean") kind = "BOUND_BOOLEAN"
        else if (of == "String" || of == "ID") kind = "BOUND_TEXT"
        else if (kinds[of] == "enum") kind = "BOUND_ENUM"
    }
    sql = expand(place_of[what, path], sql)
}
# Sets column[] and is_down[]; returns how many. "key" at the end stands for the type's key.
function split_order(text, keys, list, n, k) {
    gsub(/[ \n]+/, " ", text)
    text = trim(text)
    if (text == "key") text = keys
    else if (sub(/, *key$/, ", ", text)) text = text keys
    n = split(text, list, /, */)
    for (k = 1; k <= n; k++) {
        is_down[k] = sub(/ +DESC$/, "", list[k])
        column[k] = trim(list[k])
    }
    return n
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
# ---- output -------------------------------------------------------------------------------------
function type_of(sql_type) {
    return "BOUND_" (sql_type == "text[]" ? "VALUE_TEXTS" : sql_type == "timestamptz" ? "VALUE_TIME" : sql_type == "bigint" ? "VALUE_NUMBER" : "VALUE_" toupper(sql_type))
}
function field_line(what, path, text, query_name) {
    field_sql(what, path, text)
    printf "    {\"%s\", %s, %s, %d, %s},\n", path, quoted(sql), kind, (kind == "BOUND_CONSTANT" ? 0 : joins_of(what, sql)), query_name
}
function binding_fields(what, list, n, k) {
    n = split(trim(paths[what]), list, " ")
    printf "\nstatic const struct bound_field fields_%s[] = {\n", what
    for (k = 1; k <= n; k++) {
        if ((what, list[k]) in only_bound) field_line(what, list[k], only_bound[what, list[k]], "\"" only_query[what, list[k]] "\"")
        field_line(what, list[k], ((what, list[k]) in general) ? general[what, list[k]] : "NULL", "NULL")
    }
    print "    {NULL, NULL, 0, 0, NULL},\n};"
    n = split(trim(objects[what]), list, " ")
    printf "static const struct bound_object objects_%s[] = {\n", what
    for (k = 1; k <= n; k++) {
        sql = expand(place_of[what, "object " list[k]], present[what, list[k]])
        printf "    {\"%s\", %s, %d},\n", list[k], quoted(sql), joins_of(what, sql)
    }
    print "    {NULL, NULL, 0},\n};"
    n = split(trim(joins[what]), list, " ")
    printf "static const struct bound_join joins_%s[] = {\n", what
    for (k = 1; k <= n; k++)
        printf "    {\"%s\", %s, %s},\n", list[k], quoted(expand(type_place[what], join_query[what, list[k]])), quoted(join_on[what, list[k]])
    print "    {NULL, NULL, NULL},\n};"
}
function binding_of(what, list, n, k, pair, words) {
    binding_fields(what)
    n = split(attribute[what, "access"], list, /, /)
    printf "static const struct access_attribute attributes_%s[] = {", what
    for (k = 2; k <= n; k++) {
        split(list[k], pair, " = ")
        printf "{\"%s\", %s}, ", pair[1], quoted(expand(type_place[what], pair[2]))
    }
    print "{NULL, NULL}};"
    split(attribute[what, "from"], words, " ")
    printf "static const struct binding binding_%s = {\n    .type = \"%s\",\n    .from = %s,\n    .alias = \"%s\",\n", what, what, quoted(expand(type_place[what], words[1])), words[2]
    printf "    .key = \"%s\",\n    .group = %s,\n", attribute[what, "key"], (what in group) ? quoted(group[what]) : "NULL"
    printf "    .scope = %s,\n    .access = {\"%s\", attributes_%s, %s},\n", quoted(expand(type_place[what], attribute[what, "scope"])), list[1], what, (what in ruled) ? quoted(expand(type_place[what], ruled[what])) : "NULL"
    printf "    .fields = fields_%s,\n    .objects = objects_%s,\n    .joins = joins_%s,\n};\n", what, what, what
}
function also_of(what, name) {
    if (!((what, name) in also_value)) return "NULL, NULL"
    return "\"" also_value[what, name] "\", " quoted(expand(type_place[what], also_sql[what, name]))
}
function list_table(i, name, what, list, n, k, j, m) {
    what = query_type[i]
    printf "\nstatic const struct bound_input inputs_%d[] = {\n", i
    n = split(trim(filters[what]), list, " ")
    for (k = 1; k <= n; k++)
        printf "    {\"%s\", %s, %s, %s, false, %s, %s},\n", list[k], type_of(filter_type[what, list[k]]),
            quoted(expand(place_of[what, "filter " list[k]], condition[what, list[k]])),
            (((what, list[k]) in fallback) ? "\"" fallback[what, list[k]] "\"" : "NULL") "", also_of(what, list[k]),
            (((what, list[k]) in found_sql) ? quoted(found_sql[what, list[k]]) : "NULL")
    print "    {NULL, 0, NULL, NULL, false, NULL, NULL, NULL},\n};"
    n = split(trim(orders[what] == "" ? "KEY" : orders[what]), list, " ")
    for (k = 1; k <= n; k++) {
        m = split_order(list[k] == "KEY" && !((what, "KEY") in order_keys) ? "key" : expand(type_place[what], order_keys[what, list[k]]), attribute[what, "key"])
        check_key(what, list[k], m)
        printf "static const struct bound_key keys_%d_%s[] = {", i, list[k]
        for (j = 1; j <= m; j++) printf "%s{%s, %s}", (j > 1 ? ", " : ""), quoted(column[j]), is_down[j] ? "true" : "false"
        print "};"
        keys_of[i, list[k]] = m
    }
    printf "static const struct bound_order orders_%d[] = {", i
    for (k = 1; k <= n; k++)
        printf "{\"%s\", keys_%d_%s, %d, %s}, ", list[k], i, list[k], keys_of[i, list[k]],
            (((what, list[k]) in labels) ? quoted(expand(place_of[what, "order " list[k]], labels[what, list[k]])) : "NULL")
    print "{NULL, NULL, 0, NULL}};"
}
function one_table(i, name, arguments, by, what, list, n, k, sdl) {
    what = query_type[i]
    n = split(arguments, list, /, */)
    printf "\nstatic const struct bound_input inputs_%d[] = {\n", i
    for (k = 1; k <= n; k++) {
        split_at = index(list[k], " = ")
        left = trim(substr(list[k], 1, split_at - 1))
        right = trim(substr(list[k], split_at + 3))
        if (split_at == 0) fail_at(query_place[i], "expected ARGUMENT = COLUMN, found \"" list[k] "\"")
        if (!(("Query", name, left) in argument)) fail_at(query_place[i], "Query." name " of the schema has no argument " left)
        sdl = argument["Query", name, left]
        printf "    {\"%s\", BOUND_VALUE_%s, %s, NULL, %s, NULL, NULL, NULL},\n", left, (bare(sdl) == "Int" ? "NUMBER" : bare(sdl) == "Boolean" ? "BOOLEAN" : "TEXT"),
            quoted(right " = :value"), (sdl ~ /!$/ ? "true" : "false")
    }
    print "    {NULL, 0, NULL, NULL, false, NULL, NULL, NULL},\n};"
    n = split_order(by == "" ? "key" : by, attribute[what, "key"])
    printf "static const struct bound_key keys_%d[] = {", i
    for (k = 1; k <= n; k++) printf "%s{%s, %s}", (k > 1 ? ", " : ""), quoted(column[k]), is_down[k] ? "true" : "false"
    print "};"
    print "static const struct bound_order orders_" i "[] = {{\"KEY\", keys_" i ", " n ", NULL}, {NULL, NULL, 0, NULL}};"
}
# Runtimes read rows of their own where these have a runtime, unless the type is for users.
function callers_of(what) {
    return attribute[what, "access"] ~ /, runtime = / && !(what in for_users) ? "API_RUNTIMES_TOO" : "API_USERS"
}
function finish_one(i, text, name, arguments, by, is_list) {
    text = query[i]
    if (match(text, /\) BY /)) {
        by = trim(substr(text, RSTART + 5))
        text = substr(text, 1, RSTART)
    }
    name = text
    is_list = text !~ /\(/
    if (!is_list) {
        name = trim(substr(text, 1, index(text, "(") - 1))
        arguments = substr(text, index(text, "(") + 1)
        if (!sub(/\)$/, "", arguments)) fail_at(query_place[i], "query " name ": expected \")\" at the end")
    }
    if (!(("Query", name) in field)) fail_at(query_place[i], "query " name ": type Query of the schema has no such field")
    if (is_list) check_list(i, name)
    if (part != "c") return
    if (!(query_type[i] in is_written)) binding_of(query_type[i])
    is_written[query_type[i]] = 1
    if (is_list) list_table(i, name)
    else one_table(i, name, arguments, by)
    printf "static const struct bound_query query_%d = {\"%s\", &binding_%s, inputs_%d, orders_%d, %s, %d};\n", i, name, query_type[i], i, i, is_list ? "true" : "false",
        (query_type[i] in page_rows) ? page_rows[query_type[i]] : 100
    table[query_module[i]] = table[query_module[i]] "    {GQL_QUERY, \"" name "\", .access = " \
        callers_of(query_type[i]) ", " (is_list && (query_type[i] in versioned) ? ".is_versioned = true, " : "") ".resolve_selected = compiled_read_resolve, .with = &query_" i "},\n"
}
# What counts takes the filters of its list, and every dimension of the schema is declared.
function check_count(i, name, list_name, kind, dimensions, list, n, k) {
    if (!(("Query", name) in field)) fail_at(count_place[i], kind " " name ": type Query of the schema has no such field")
    if (list_name == "") fail_at(count_place[i], kind " " name ": type " count_type[i] " has no list")
    if (argument["Query", name, "filters"] != argument["Query", list_name, "filters"])
        fail_at(count_place[i], "Query." name " of the schema does not take the filters of " list_name)
    if (kind != "facets") return
    dimensions = bare(argument["Query", name, "dimensions"])
    n = split(trim(facets[count_type[i]]), list, " ")
    for (k = 1; k <= n; k++)
        if (!((dimensions, list[k]) in values))
            fail_at(place_of[count_type[i], "facet " list[k]], "facet " list[k] ": Query." name "(dimensions) of the schema has no such value")
    for (k in values) {
        split(k, list, SUBSEP)
        if (list[1] == dimensions && !((count_type[i], "facet " list[2]) in given))
            fail_at(count_place[i], "value " list[2] " of " dimensions " is no facet")
    }
}
function facet_table(i, what, list, own, n, m, k, j) {
    n = split(trim(facets[what]), list, " ")
    for (k = 1; k <= n; k++) {
        m = split(facet_own[what, list[k]], own, " ")
        printf "\nstatic const char *const own_%d_%d[] = {", i, k
        for (j = 1; j <= m; j++) printf "\"%s\", ", own[j]
        printf "NULL};"
    }
    printf "\nstatic const struct bound_facet facets_%d[] = {\n", i
    for (k = 1; k <= n; k++)
        printf "    {\"%s\", %s, own_%d_%d},\n", list[k], quoted(expand(place_of[what, "facet " list[k]], facet_sql[what, list[k]])), i, k
    print "    {NULL, NULL, NULL},\n};"
}
function finish_count(i, name, what, list_at, k) {
    name = counts[i]
    what = count_type[i]
    for (k = 1; k <= queries; k++) if (query_type[k] == what && query[k] !~ /\(/) list_at = k
    check_count(i, name, list_at ? query[list_at] : "", count_kind[i])
    if (part != "c") return
    if (count_kind[i] == "facets") facet_table(i, what)
    printf "static const struct bound_count count_%d = {\"%s\", &query_%d, %s};\n", i, name, list_at, count_kind[i] == "facets" ? "facets_" i : "NULL"
    table[count_module[i]] = table[count_module[i]] "    {GQL_QUERY, \"" name "\", .access = " \
        callers_of(what) ", .resolve_selected = compiled_count_resolve, .with = &count_" i "},\n"
}
FNR == 1 {
    end_type()
    n = split(FILENAME, path_parts, "/")
    module = path_parts[n - 1]
    in_description = 0
    fragment = ""
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
    fragment = $2 == "fragment:" ? $3 : ""
    next
}
fragment != "" && !/^ *--/ && !/^ *$/ { fragments[fragment] = fragments[fragment] $0 "\n" }
/^-- [a-z]+: / && in_statements != FILENAME && (type != "" || $2 == "type:") {
    declare(substr($2, 1, length($2) - 1), trim(substr($0, length($2) + 5)))
}
END {
    if (failed) exit 1
    end_type()
    read_schema()
    for (what in type_place) {
        n = split(trim(sames[what]), list, " ")
        for (k = 1; k <= n; k++) include_same(what, list[k])
    }
    for (what in type_place) check_type(what)
    if (part == "h") print "#ifndef CULVERT_READS_H\n#define CULVERT_READS_H\n\n#include \"api/graphql/execution.h\""
    if (part == "c") print "#include \"culvert_reads.h\"\n\n#include \"api/compile/compiled_count.h\"\n#include \"api/compile/compiled_read.h\"\n#include \"api/resolvers.h\""
    for (i = 1; i <= queries; i++) {
        finish_one(i)
        module = query_module[i]
        if (!(module in counted)) modules = modules " " module
        counted[module]++
    }
    for (i = 1; i <= count_total; i++) {
        finish_count(i)
        counted[count_module[i]]++
    }
    n = split(trim(modules), list, " ")
    for (k = 1; k <= n; k++) {
        if (part == "h") printf "\nextern const struct gql_resolver declared_%s[];\nenum { declared_%s_count = %d };\n", list[k], list[k], counted[list[k]]
        if (part == "c") printf "\nconst struct gql_resolver declared_%s[] = {\n%s};\n", list[k], table[list[k]]
    }
    if (part == "h") print "\n#endif"
}
