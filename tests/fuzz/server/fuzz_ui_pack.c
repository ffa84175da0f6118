// An Accept-Encoding, a line feed, a pack of the web UI: what is taken lies within the pack, every
// file is found by its name, and the form that is chosen exists.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stdint.h>

#include "server/ui/ui_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

static void check_file(const struct ui_files *files, struct str pack, struct str accept, struct str name)
{
    const struct ui_file *file = ui_files_find(files, name);
    if (!file) return;
    assert(str_eq(file->name, name) && name.len <= UI_FILE_NAME_BYTES_MAX);
    for (size_t i = 0; i < UI_ENCODINGS; i++)
        assert(file->forms[i].len == 0 ||
               (file->forms[i].at >= pack.at && file->forms[i].at + file->forms[i].len <= pack.at + pack.len));
    assert(file->forms[UI_PLAIN].len > 0);
    assert(file->forms[ui_file_choose(file, accept)].len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct str pack = str_of((const char *)at, len), accept;
    struct error err = {0};
    str_cut(&pack, '\n', &accept);
    struct ui_files *files = ui_files_create(pack, STR("/base/"), &err);
    if (!files) {
        assert(err.code == ERROR_INVALID || err.code == ERROR_TOO_LARGE);
        return 0;
    }
    struct str lines = pack, line;
    str_cut(&lines, '\n', &line);
    while (str_cut(&lines, '\n', &line) && line.len) {
        struct str name;
        str_cut(&line, ' ', &name);
        check_file(files, pack, accept, name);
        assert(ui_files_find(files, name));
    }
    ui_files_destroy(files);
    return 0;
}
