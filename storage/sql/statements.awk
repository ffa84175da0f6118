# Turns the stores' .sql files into C: awk -v part=h|c -f statements.awk FILE... A file holds blocks:
#   -- name: application_list      a statement; ends where the next block begins
#   -- fragment: application_node  text that statements and later fragments take in as :{application_node}
# Comment lines are dropped, so that the text the server stores is the statement alone.
function fail(message) {
    print FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}
function expand(text, start, name, before, after, rounds) {
    while ((start = index(text, ":{")) > 0) {
        if (++rounds > 1000) fail("fragments that contain each other")
        before = substr(text, 1, start - 1)
        after = substr(text, start + 2)
        name = substr(after, 1, index(after, "}") - 1)
        if (!(name in fragments)) fail("unknown fragment " name)
        text = before fragments[name] substr(after, length(name) + 2)
    }
    return text
}
function finish() {
    if (block == "") return
    sub(/[ \n;]+$/, "", text)
    if (kind == "fragment") {
        fragments[block] = text
    } else {
        names[++count] = block
        texts[count] = text # expanded at the end, when every fragment is known
    }
}
function parameters_of(text, most, number) {
    most = 0
    while (match(text, /\$[0-9]+/)) {
        number = substr(text, RSTART + 1, RLENGTH - 1) + 0
        if (number > most) most = number
        text = substr(text, RSTART + RLENGTH)
    }
    return most
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
/^-- (name|fragment): [a-z0-9_]+$/ {
    finish()
    kind = $2 == "name:" ? "name" : "fragment"
    block = $3
    text = ""
    if (block in seen) fail("a second block " block)
    seen[block] = 1
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
    for (i = 1; i <= count; i++) texts[i] = expand(texts[i])
    print "// Made from storage/*.sql by statements.awk."
    if (part == "h") {
        print "#ifndef CULVERT_STATEMENTS_H\n#define CULVERT_STATEMENTS_H\n"
        print "#include \"storage/pg/pg.h\"\n"
        for (i = 1; i <= count; i++) print "extern const struct pg_statement statement_" names[i] ";"
        print "\nextern const struct pg_statement *const culvert_statements[];\nextern const size_t culvert_statements_count;"
        print "\n#endif"
    } else {
        print "#include \"culvert_statements.h\""
        for (i = 1; i <= count; i++) {
            printf "\nconst struct pg_statement statement_%s = {\n    .name = \"%s\",\n    .parameters = %d,\n    .sql =", names[i], names[i], parameters_of(texts[i])
            literal(texts[i])
            print ",\n};"
        }
        print "\nconst struct pg_statement *const culvert_statements[] = {"
        for (i = 1; i <= count; i++) print "    &statement_" names[i] ","
        print "};\nconst size_t culvert_statements_count = " count ";"
    }
}
