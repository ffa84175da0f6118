#include "api/compile/row_writer.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "api/compile/read_cursor.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/parse.h"
#include "storage/manifests/manifest_blob.h"

enum { FRAMES_MAX = 64, TIME_BYTES = 19 };

// What may become null as a whole.
struct row_frame {
    size_t begin, mark; // its operation; the buffer's length in front of it
};

struct row_writer {
    const struct row_page *page;
    struct gql_projection *projection;
    struct strbuf *out;
    size_t row; // of the page
    struct row_frame frames[FRAMES_MAX];
    size_t frame_count;
};

static int row_of(const struct row_page *page, size_t row)
{
    return (int)(page->is_turned ? page->count - 1 - row : row);
}

// ---- places -------------------------------------------------------------------------------------

// The place of a node, from the root; made when an error or JSON needs it.
static const struct gql_place *place_of(const struct row_writer *w, size_t index)
{
    struct arena *arena = w->projection->arena;
    const struct shape_node *node = &w->page->shape->nodes[index];
    struct gql_place *place = arena_alloc(arena, sizeof *place);
    *place = (struct gql_place){.outer = index ? place_of(w, node->parent) : NULL, .key = node->collected->key};
    if (node->role != SHAPE_EDGES) return place;
    struct gql_place *item = arena_alloc(arena, sizeof *item);
    *item = (struct gql_place){.outer = place, .index = w->row};
    return item;
}

static bool refuse(const struct row_writer *w, const struct row_op *op, const char *why)
{
    const struct shape_node *node = &w->page->shape->nodes[op->node];
    if (gql_problems_full(w->projection->problems)) return false;
    return gql_refuse_value(w->projection, &node->def->type, place_of(w, op->node), node->collected->field->at, why);
}

// ---- values -------------------------------------------------------------------------------------

// "2026-01-01 04:00:00.123456+00" as "2026-01-01T04:00:00.123Z". False: a time beyond the calendar
// of RFC 3339.
static bool write_time(struct strbuf *out, struct str text)
{
    if (text.len < TIME_BYTES + 3 || text.at[10] != ' ') return false;
    char *room = strbuf_reserve(out, 26);
    if (!room) return true; // too large already
    memcpy(room, "\"0000-00-00T00:00:00.000Z\"", 26);
    memcpy(room + 1, text.at, TIME_BYTES);
    room[11] = 'T';
    for (size_t i = 0; i < 3 && text.at[TIME_BYTES] == '.' && text.at[TIME_BYTES + 1 + i] != '+'; i++)
        room[21 + i] = text.at[TIME_BYTES + 1 + i];
    strbuf_commit(out, 26);
    return true;
}

static bool write_number(struct strbuf *out, struct str text, bool is_int)
{
    if (is_int) {
        bool is_negative = text.len && text.at[0] == '-';
        uint64_t size;
        if (parse_u64(str_from(text, is_negative), 0, (uint64_t)INT32_MAX + is_negative, &size, NULL) != ERROR_NONE)
            return false;
    } else if (!text.len || text.at[text.len - 1] < '0' || text.at[text.len - 1] > '9') {
        return false; // NaN and the infinities
    }
    strbuf_add_str(out, text);
    return true;
}

static bool write_json(const struct row_writer *w, const struct row_op *op, struct str text)
{
    const struct shape_node *node = &w->page->shape->nodes[op->node];
    json_t *value = json_loadb(text.at, text.len, JSON_DECODE_ANY, NULL);
    if (!value) return refuse(w, op, "The value is not JSON of type");
    bool written =
        gql_project_value(w->projection, &node->def->type, node->collected, value, place_of(w, op->node), w->out);
    json_decref(value);
    return written;
}

// ---- pairs --------------------------------------------------------------------------------------

struct pair {
    struct str key, value;
};

static int by_key(const void *a, const void *b)
{
    return str_compare(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static bool write_pair(const struct row_writer *w, const struct gql_collection *fields, const struct pair *pair)
{
    strbuf_add_byte(w->out, '{');
    for (size_t i = 0; i < fields->count; i++) {
        if (i) strbuf_add_byte(w->out, ',');
        struct str name = fields->fields[i].field->name;
        strbuf_add_json(w->out, fields->fields[i].key);
        strbuf_add_byte(w->out, ':');
        if (str_eq(name, STR("__typename")))
            strbuf_add_json(w->out, fields->type->name);
        else
            strbuf_add_json(w->out, str_eq(name, STR("key")) ? pair->key : pair->value);
    }
    return strbuf_add_byte(w->out, '}');
}

static bool write_object_as_pairs(const struct row_writer *w, const struct row_op *op, json_t *object)
{
    const struct shape_node *node = &w->page->shape->nodes[op->node];
    struct gql_collection *fields = gql_collect_inner(w->projection, node->collected, op->type);
    if (!fields) return false;
    struct pair *pairs = mem_array(json_object_size(object), sizeof *pairs);
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        pairs[count++] = (struct pair){str_c(key), json_str(value)};
    }
    qsort(pairs, count, sizeof *pairs, by_key);
    strbuf_add_byte(w->out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i) strbuf_add_byte(w->out, ',');
        write_pair(w, fields, &pairs[i]);
    }
    strbuf_add_byte(w->out, ']');
    mem_free(pairs);
    return true;
}

static bool write_pairs(const struct row_writer *w, const struct row_op *op, struct str text)
{
    if (str_eq(text, STR("{}"))) return strbuf_add_c(w->out, "[]"), true;
    json_t *object = json_loadb(text.at, text.len, 0, NULL);
    bool written = json_is_object(object) ? write_object_as_pairs(w, op, object)
                                          : refuse(w, op, "The value is not an object of texts for type");
    json_decref(object);
    return written;
}

// ---- manifests --------------------------------------------------------------------------------------------------

static bool read_manifest(struct str text, struct strbuf *plain)
{
    uint64_t encoding, bytes;
    struct str number, size;
    if (!str_cut(&text, ' ', &number) || !str_cut(&text, ' ', &size)) return false;
    if (parse_u64(number, 0, 1, &encoding, NULL) != ERROR_NONE ||
        parse_u64(size, 0, MANIFEST_BYTES_MAX, &bytes, NULL) != ERROR_NONE)
        return false;
    uint8_t *content = mem_alloc(text.len / 2);
    bool is_read = parse_hex(text, content, text.len / 2, NULL) == ERROR_NONE &&
                   manifest_blob_open((enum manifest_encoding)encoding, (size_t)bytes,
                                      str_of((const char *)content, text.len / 2), plain, NULL) == ERROR_NONE;
    mem_free(content);
    return is_read;
}

static bool write_manifest(const struct row_writer *w, const struct row_op *op, struct str text)
{
    struct strbuf plain;
    strbuf_init(&plain, MANIFEST_BYTES_MAX);
    bool is_read = read_manifest(text, &plain);
    if (is_read) strbuf_add_json(w->out, strbuf_str(&plain));
    strbuf_finish(&plain);
    return is_read || refuse(w, op, "A stored manifest cannot be read for type");
}

// ---- columns ------------------------------------------------------------------------------------

static bool write_value(const struct row_writer *w, const struct row_op *op, struct str text)
{
    static const char unfit[] = "The value does not fit type";
    switch (op->value) {
    case BOUND_TEXT: strbuf_add_json(w->out, text); return true;
    case BOUND_ENUM:
        if (!gql_type_has_name(op->type, text)) return refuse(w, op, unfit);
        strbuf_add_json(w->out, text);
        return true;
    case BOUND_INT: return write_number(w->out, text, true) || refuse(w, op, unfit);
    case BOUND_FLOAT: return write_number(w->out, text, false) || refuse(w, op, unfit);
    case BOUND_BOOLEAN: strbuf_add_c(w->out, str_eq(text, STR("t")) ? "true" : "false"); return true;
    case BOUND_TIME: return write_time(w->out, text) || refuse(w, op, unfit);
    case BOUND_PAIRS: return write_pairs(w, op, text);
    case BOUND_JSON: return write_json(w, op, text);
    case BOUND_MANIFEST: return write_manifest(w, op, text);
    case BOUND_CONSTANT: break;
    }
    assert(false);
    return false;
}

// False: the null goes up.
static bool write_column(const struct row_writer *w, const struct row_op *op)
{
    int row = row_of(w->page, w->row);
    size_t before = w->out->len;
    if (pg_rows_is_null(w->page->rows, row, op->column)) {
        if (!op->is_nullable) return refuse(w, op, "Cannot return null for non-nullable type");
        strbuf_add_c(w->out, "null");
        return true;
    }
    if (write_value(w, op, pg_rows_get(w->page->rows, row, op->column))) return true;
    if (!op->is_nullable) return false;
    w->out->len = before;
    strbuf_add_c(w->out, "null");
    return true;
}

static void write_cursor(const struct row_writer *w, size_t row)
{
    const struct row_page *page = w->page;
    if (page->count == 0) {
        strbuf_add_c(w->out, "null");
        return;
    }
    strbuf_add_byte(w->out, '"');
    read_cursor_write(w->out, page->plan->order_name, page->rows, row_of(page, row), page->plan->first_key,
                      page->plan->key_count);
    strbuf_add_byte(w->out, '"');
}

// ---- the program --------------------------------------------------------------------------------

// A null that may not be: it becomes its innermost nullable object's. Returns where the program
// goes on; SIZE_MAX: at no place.
static size_t go_up(struct row_writer *w)
{
    while (w->frame_count > 0) {
        const struct row_frame *frame = &w->frames[--w->frame_count];
        const struct row_op *begin = &w->page->plan->ops[frame->begin];
        if (!begin->is_nullable) continue;
        w->out->len = frame->mark;
        strbuf_add_c(w->out, "null");
        return begin->jump + 1;
    }
    return SIZE_MAX;
}

static size_t begin_object(struct row_writer *w, size_t at)
{
    const struct row_op *op = &w->page->plan->ops[at];
    bool is_absent = op->needs_row && w->page->count == 0;
    if (!is_absent && op->column >= 0) {
        int row = row_of(w->page, w->row);
        is_absent = !str_eq(pg_rows_get(w->page->rows, row, op->column), STR("t"));
    }
    if (is_absent && op->is_nullable) {
        strbuf_add_c(w->out, "null");
        return op->jump + 1;
    }
    if (is_absent) {
        refuse(w, op, "Cannot return null for non-nullable type");
        return go_up(w);
    }
    if (w->frame_count == FRAMES_MAX) return SIZE_MAX; // deeper than queries may be
    w->frames[w->frame_count++] = (struct row_frame){at, w->out->len};
    return at + 1;
}

static size_t end_row(struct row_writer *w, size_t at)
{
    if (++w->row < w->page->count) {
        strbuf_add_byte(w->out, ',');
        return w->page->plan->ops[at].jump + 1;
    }
    w->row = 0;
    return at + 1;
}

static size_t step(struct row_writer *w, size_t at)
{
    const struct row_op *op = &w->page->plan->ops[at];
    const struct row_page *page = w->page;
    switch (op->kind) {
    case ROW_TEXT: strbuf_add_str(w->out, op->text); break;
    case ROW_COLUMN: return write_column(w, op) ? at + 1 : go_up(w);
    case ROW_CURSOR: write_cursor(w, w->row); break;
    case ROW_START_CURSOR: write_cursor(w, 0); break;
    case ROW_END_CURSOR: write_cursor(w, page->count - 1); break;
    case ROW_HAS_NEXT: strbuf_add_c(w->out, page->has_next ? "true" : "false"); break;
    case ROW_HAS_PREV: strbuf_add_c(w->out, page->has_prev ? "true" : "false"); break;
    case ROW_OBJECT: return begin_object(w, at);
    case ROW_OBJECT_END: w->frame_count--; break;
    case ROW_LOOP: w->row = 0; return page->count ? at + 1 : op->jump + 1;
    case ROW_LOOP_END: return end_row(w, at);
    }
    return at + 1;
}

bool row_writer_write(const struct row_page *page, struct strbuf *out)
{
    struct row_writer w = {.page = page, .projection = page->shape->projection, .out = out, .row = page->first_row};
    size_t before = out->len;
    assert(page->plan && page->shape);
    for (size_t at = 0; at < page->plan->op_count && !out->overflow;) {
        at = step(&w, at);
        if (at != SIZE_MAX) continue;
        out->len = before;
        return false;
    }
    return true;
}
