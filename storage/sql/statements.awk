# Turns .sql files into C: awk -v part=h|c -f statements.awk FILE... A file holds blocks:
#   -- name: application_list      a statement; ends where the next block begins
#   -- fragment: application_node  text that statements and later fragments include as :{application_node}
#   -- list: application_list      two statements of one text, application_list and, with each key's direction turned
#   -- order: a.name, a.runtime    around, application_list_back. Its text has :{order} for the keys with their
#                                  directions and :{keys} for the keys alone; ascending keys also give :{page}, the rows
#                                  between the keys (:low_1, :low_2) and (:high_1, :high_2)
# Parameters are named, :account_id, and get their numbers in the order of first appearance. For each statement with
# parameters the header has a struct with one value a name (storage/pg/pg.h: pg_add). Comment lines are dropped, so that
# the text the server stores is the statement alone.
function fail(message) {
    print FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}
function fail_at(place, message) {
    print place ": " message > "/dev/stderr"
    failed = 1
    exit 1
}
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
function add(name, twin_of) {
    names[++count] = name
    texts[count] = text # expanded at the end, when every fragment is known
    places[count] = place
    orders[count] = order
    twins[count] = twin_of
}
function finish() {
    if (block == "") return
    sub(/[ \n;]+$/, "", text)
    if (kind == "list" && order == "") fail_at(place, "the list " block " has no line \"-- order:\"")
    if (kind == "fragment") fragments[block] = text
    if (kind == "name") add(block, "")
    if (kind == "list") {
        add(block, "")
        add(block "_back", block)
    }
}
# Splits at the commas that are outside of parentheses and quotes.
function split_keys(text, keys, n, i, c, depth, quoted) {
    n = 1
    keys[1] = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "'") quoted = !quoted
        if (!quoted && c == "(") depth++
        if (!quoted && c == ")") depth--
        if (c == "," && !quoted && depth == 0) keys[++n] = ""
        else keys[n] = keys[n] c
    }
    return n
}
# What the order of statement i gives to its text.
function set_order(i, keys, n, k, key, is_down, order, columns, low, high, mixed, is_back) {
    is_back = twins[i] != ""
    n = split_keys(orders[i], keys)
    for (k = 1; k <= n; k++) {
        key = keys[k]
        gsub(/^ +| +$/, "", key)
        is_down = sub(/ +DESC$/, "", key)
        if (is_down) mixed = 1
        order = order (k > 1 ? ", " : "") key (is_down != is_back ? " DESC" : "")
        columns = columns (k > 1 ? ", " : "") key
        low = low (k > 1 ? ", " : "") ":low_" k
        high = high (k > 1 ? ", " : "") ":high_" k
    }
    fragments["order"] = order
    fragments["keys"] = columns
    if (n == 1) fragments["page"] = columns " > " low " AND " columns " < " high
    else fragments["page"] = "(" columns ") > (" low ") AND (" columns ") < (" high ")"
    if (mixed) delete fragments["page"]
}
# Outside of quotes: :name becomes $1, $2, ...; the names of statement i are parameter[i, 1..parameters[i]].
function number_parameters(i, pieces, n, k, text, out, name, before) {
    n = split(texts[i], pieces, "'")
    if (n % 2 == 0) fail_at(places[i], "a quote without its end in " names[i])
    parameters[i] = 0
    out = ""
    for (k = 1; k <= n; k++) {
        if (k > 1) out = out "'"
        text = pieces[k]
        if (k % 2 == 0) {
            out = out text
            continue
        }
        if (match(text, /\$[0-9]/)) fail_at(places[i], "a numbered parameter in " names[i] "; write :name")
        while (match(text, /:[a-z_][a-z0-9_]*/)) {
            before = substr(text, 1, RSTART - 1)
            name = substr(text, RSTART + 1, RLENGTH - 1)
            text = substr(text, RSTART + RLENGTH)
            if (before ~ /:$/) { # a cast
                out = out before ":" name
                continue
            }
            if (!((i, name) in numbers)) {
                numbers[i, name] = ++parameters[i]
                parameter[i, parameters[i]] = name
            }
            out = out before "$" numbers[i, name]
        }
        out = out text
    }
    texts[i] = out
}
function literal(text, lines, n, i, line) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        gsub(/\\/, "\\\\", line)
        gsub(/"/, "\\\"", line)
        gsub(/\?/, "\\?", line)
        printf "\n           \"%s\\n\"", line
    }
}
function declare(i, k) {
    printf "\nextern const struct pg_statement statement_%s;\n", names[i]
    if (parameters[i] == 0 || twins[i] != "") return
    printf "struct sql_%s {\n    struct pg_param ", names[i]
    for (k = 1; k <= parameters[i]; k++) printf "%s%s", parameter[i, k], k < parameters[i] ? ", " : ";\n};\n"
    printf "static inline const struct pg_param *sql_%s(const struct sql_%s *values)\n{\n", names[i], names[i]
    printf "    return (const struct pg_param *)values;\n}\n"
}
function define(i, k) {
    printf "\nconst struct pg_statement statement_%s = {\n    .name = \"%s\",\n    .parameters = %d,\n", names[i], names[i],
        parameters[i]
    printf "    .names = (const char *const[]){"
    for (k = 1; k <= parameters[i]; k++) printf "\"%s\", ", parameter[i, k]
    printf "NULL},\n    .sql ="
    literal(texts[i])
    print ",\n};"
}
FNR == 1 { # lines of another file do not belong to the block before
    finish()
    block = kind = ""
}
/^-- (name|fragment|list): [a-z0-9_]+$/ {
    finish()
    kind = substr($2, 1, length($2) - 1)
    order = ""
    block = $3
    place = FILENAME ":" FNR
    text = ""
    if (block in seen) fail("a second block " block)
    seen[block] = 1
    next
}
/^-- order: / && kind == "list" {
    order = substr($0, 11)
    next
}
/^ *--/ || /^ *$/ { next }
{
    if (block == "") fail("text before the first block")
    text = text $0 "\n"
}
END {
    if (failed) exit 1
    finish()
    for (i = 1; i <= count; i++) {
        if (orders[i] != "") set_order(i)
        texts[i] = expand(places[i], texts[i])
        delete fragments["order"]
        delete fragments["keys"]
        delete fragments["page"]
        number_parameters(i)
    }
    print "// Made from .sql files by storage/sql/statements.awk."
    if (part == "h") {
        print "#ifndef CULVERT_STATEMENTS_H\n#define CULVERT_STATEMENTS_H\n"
        print "#include \"storage/pg/pg.h\""
        for (i = 1; i <= count; i++) declare(i)
        print "\nextern const struct pg_statement *const culvert_statements[];\nextern const size_t culvert_statements_count;"
        print "\n#endif"
    } else {
        print "#include \"culvert_statements.h\""
        for (i = 1; i <= count; i++) define(i)
        print "\nconst struct pg_statement *const culvert_statements[] = {"
        for (i = 1; i <= count; i++) print "    &statement_" names[i] ","
        print "};\nconst size_t culvert_statements_count = " count ";"
    }
}
