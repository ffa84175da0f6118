# Joins the parts of the schema: awk -f modules/join_schema.awk api/common.graphql modules/*/*.graphql
# The first part begins with the comment of the whole. `extend type Query`, Mutation and Subscription of
# all parts become one type each; everything else is taken as it stands. A type that is defined twice, or
# another type that is extended, is an error.
function fail(message) {
    print FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}
FNR == 1 { root = ""; is_head = NR == 1 }
/^extend / {
    if ($2 != "type" || $3 !~ /^(Query|Mutation|Subscription)$/ || $4 != "{") fail("only types Query, Mutation and Subscription are extended: " $0)
    root = $3
    next
}
root != "" {
    if ($0 == "}") root = ""
    else fields[root] = fields[root] $0 "\n"
    next
}
/^(scalar|enum|type|interface|union|input) / {
    if ($2 ~ /^(Query|Mutation|Subscription)$/) fail($2 " is extended by parts and defined by none")
    if ($2 in home) fail("type " $2 " is defined in " home[$2] ", too")
    home[$2] = FILENAME
}
is_head {
    if ($0 ~ /^#/) { head = head $0 "\n"; next }
    is_head = 0
}
# One empty line between blocks, however a part ends.
$0 == "" { blank = 1; next }
{
    body = body (blank || FNR == 1 ? "\n" : "") $0 "\n"
    blank = 0
}
END {
    if (failed) exit 1
    printf "%s", head
    if (fields["Query"] != "") printf "\ntype Query {\n%s}\n", fields["Query"]
    if (fields["Mutation"] != "") printf "\ntype Mutation {\n%s}\n", fields["Mutation"]
    if (fields["Subscription"] != "") printf "\ntype Subscription {\n%s}\n", fields["Subscription"]
    printf "%s", body
}
