# Makes the tables of cli/noun.h from modules/*/*.cli. A line is "key: value"; # begins a comment.
#
#   noun: NAME OTHER...     begins a noun: its singular, then what else it is called
#   list: FIELD             root field of Query, a slice with edges; takes pagination
#   plain: FIELD            root field of Query that is an array
#   filters: TYPE           the input type of its argument "filters"
#   by-name: FILTER TYPE    the filter that finds objects by their exact or partial name
#   by-id: FIELD            root field of Query with the argument id: ID!
#   by-page:                neither: pages are read until the name is found
#   labels: FILTER          the filter of type [String] for -l
#   window: PATH            plain: older rows by the arguments first and before, an integer at this path
#   runtime:, namespace:, name: PATH     where they are in a row; without the first two it has none
#   filter: OPTION FILTER TYPE           --OPTION and --field-selector OPTION=VALUE
#   argument: OPTION NAME TYPE [VALUE]   the same, as an argument of the root field; VALUE is sent where the
#                                        option is not given ("" is empty); OPTION "-" cannot be given
#   column: TITLE [age|time|short|line] PATH     a column of the table; wide: only with -o wide
#   fields: SELECTION       of -o json and -o yaml, continued by further lines
#   verb: NAME ACTION NOUN[,NOUN]        a verb that runs an operation
BEGIN { nouns = 0 }
function quote(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); return "\"" text "\"" }
function fail(text) { printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"; failed = 1; exit 1 }
function finish() {
    if (!noun) return
    if (!list) fail("noun " noun " has neither list nor plain")
    if (!at["name"]) fail("noun " noun " has no name")
    if (!columns) fail("noun " noun " has no column")
    tables = tables "static const char *const others_" nouns "[] = {" others "NULL};\n"
    tables = tables "static const struct noun_filter filters_" nouns "[] = {" filter_rows "{0}};\n"
    tables = tables "static const struct noun_column columns_" nouns "[] = {" columns "{0}};\n"
    rows = rows "    {.name = " quote(noun) ", .others = others_" nouns ", .list = " quote(list) ", .is_paged = " (paged ? "true" : "false")
    if (input) rows = rows ", .filter_type = " quote(input)
    rows = rows ", .find = " find
    if (find_name) rows = rows ", .find_name = " quote(find_name)
    if (find_type) rows = rows ", .find_type = " quote(find_type)
    if (labels) rows = rows ", .label_filter = " quote(labels)
    if (window) rows = rows ", .window = " quote(window)
    if (at["runtime"]) rows = rows ", .runtime_path = " quote(at["runtime"])
    if (at["namespace"]) rows = rows ", .namespace_path = " quote(at["namespace"])
    rows = rows ", .name_path = " quote(at["name"]) ", .filters = filters_" nouns ", .columns = columns_" nouns ", .fields = " quote(fields) "},\n"
    nouns++
    noun = ""
}
function begin(i) {
    finish()
    noun = $2; others = ""; list = ""; paged = 0; input = ""; find = "NOUN_BY_PAGE"; find_name = ""; find_type = ""; labels = ""; window = ""
    filter_rows = ""; columns = ""; fields = ""
    split("", at)
    for (i = 2; i <= NF; i++) if (i > 2) others = others quote($i) ", "
}
function column(wide, kind) {
    if (NF != 3 && NF != 4) fail("a column has a title, maybe a kind, and a path")
    kind = NF == 4 ? $3 : "text"
    if (kind !~ /^(text|age|time|short|line)$/) fail("unknown kind of column " kind)
    columns = columns "{.title = " quote($2) ", .path = " quote($NF) ", .kind = COLUMN_" toupper(kind) ", .is_wide = " wide "}, "
}
/^#/ || /^[ \t]*$/ { next }
FNR == 1 { finish() }
$1 == "noun:" { begin(); next }
$1 == "verb:" {
    if (NF != 4) fail("a verb has a name, an action and nouns")
    verbs = verbs "    {.name = " quote($2) ", .action = " quote($3) ", .nouns = " quote($4) "},\n"
    next
}
!noun { fail("\"" $1 "\" is before any noun") }
$1 == "list:" { list = $2; paged = 1; next }
$1 == "plain:" { list = $2; next }
$1 == "filters:" { input = $2; next }
$1 == "by-name:" { find = "NOUN_BY_NAME"; find_name = $2; find_type = $3; next }
$1 == "by-id:" { find = "NOUN_BY_ID"; find_name = $2; next }
$1 == "by-page:" { next }
$1 == "labels:" { labels = $2; next }
$1 == "window:" { window = $2; next }
$1 == "runtime:" || $1 == "namespace:" || $1 == "name:" { at[substr($1, 1, length($1) - 1)] = $2; next }
$1 == "filter:" || $1 == "argument:" {
    if (NF != 4 && !(NF == 5 && $1 == "argument:")) fail("a filter has an option, a name and a type")
    if ($2 == "-" && NF == 4) fail("an argument that cannot be given needs a value")
    filter_rows = filter_rows "{.option = " quote($2) (NF == 5 ? ", .value = " ($5 == "\"\"" ? "\"\"" : quote($5)) : "") ", .name = " quote($3) ", .type = " quote($4) ", .is_argument = " ($1 == "argument:" ? "true" : "false") "}, "
    next
}
$1 == "column:" { column("false"); next }
$1 == "wide:" { column("true"); next }
$1 == "fields:" { sub(/^fields: */, ""); fields = fields (fields ? " " : "") $0; next }
{ fail("unknown key \"" $1 "\"") }
END {
    if (failed) exit 1
    finish()
    print "// Made by cli/nouns.awk from modules/*/*.cli."
    print "#include \"cli/noun.h\"\n"
    printf "%s", tables
    print "\nconst struct noun nouns[] = {"
    printf "%s", rows
    print "    {0}};\n"
    print "const struct operation_verb operation_verbs[] = {"
    printf "%s", verbs
    print "    {0}};"
}
