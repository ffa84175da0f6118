#include "tunnel/session/header_intake.h"

#include "base/mem.h"
#include "base/strbuf.h"

// By offset, because the text moves while it grows.
struct field {
    size_t name, name_len, value, value_len;
};

struct header_intake {
    struct strbuf text;
    int status;
    size_t count, count_max;
    struct field fields[];
};

struct header_intake *header_intake_create(size_t count_max, size_t bytes_max)
{
    struct header_intake *intake = mem_alloc(sizeof *intake + count_max * sizeof *intake->fields);
    *intake = (struct header_intake){.count_max = count_max};
    strbuf_init(&intake->text, bytes_max);
    return intake;
}

void header_intake_destroy(struct header_intake *intake)
{
    if (!intake) return;
    strbuf_finish(&intake->text);
    mem_free(intake);
}

bool header_intake_add(struct header_intake *intake, struct str name, struct str value)
{
    if (str_eq(name, STR(":status"))) {
        intake->status = 0;
        for (size_t i = 0; i < value.len; i++) // nghttp2 has checked that it is three digits
            intake->status = intake->status * 10 + (value.at[i] - '0');
        return true;
    }
    size_t at = intake->text.len;
    if (intake->count == intake->count_max || !strbuf_add(&intake->text, name.at, name.len) ||
        !strbuf_add(&intake->text, value.at, value.len))
        return false;
    intake->fields[intake->count++] =
        (struct field){.name = at, .name_len = name.len, .value = at + name.len, .value_len = value.len};
    return true;
}

int header_intake_status(const struct header_intake *intake)
{
    return intake->status;
}

struct header_block header_intake_fields(const struct header_intake *intake)
{
    struct header_block block = {.at = mem_array(intake->count + 1, sizeof *block.at), .count = intake->count};
    for (size_t i = 0; i < intake->count; i++) {
        const struct field *field = &intake->fields[i];
        block.at[i].name = str_of(intake->text.at + field->name, field->name_len);
        block.at[i].value = str_of(intake->text.at + field->value, field->value_len);
    }
    return block;
}
