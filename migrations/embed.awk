# Turns NNNN_verb_noun.sql files into the C table of migrations: awk -f embed.awk FILE... (in order of their numbers).
function finish() {
    if (name != "") print "\n    },"
}
FNR == 1 {
    finish()
    name = FILENAME
    sub(/^.*\//, "", name)
    sub(/\.sql$/, "", name)
    if (NR == 1) {
        print "#include \"migrations/migrations.h\"\n"
        print "const struct migration migrations_all[] = {"
    }
    printf "    {\n        .version = %d,\n        .name = \"%s\",\n        .sql =", substr(name, 1, 4) + 0, name
    first = 1
}
{
    line = $0
    gsub(/\\/, "\\\\", line)
    gsub(/"/, "\\\"", line)
    gsub(/\?/, "\\?", line)
    printf "\n            \"%s\\n\"", line
}
END {
    finish()
    print "};"
    print "const size_t migrations_count = sizeof migrations_all / sizeof migrations_all[0];"
}
