// ui_files: the files of the web UI, read once at start from one pack (ui/pack.mjs writes it) and
// served by name alone: no name of a request ever reaches a file system. Immutable; any thread.
//
// A pack is text, then bytes: the line "culvert-ui 1", a line "<name> <plain> <gzip> <brotli>" for
// each file with the sizes of its three forms (0: that form is missing), an empty line, and the
// forms one after the other. index.html is required, and is plain only: the base path is put in.
#ifndef CULVERT_SERVER_UI_UI_FILES_H
#define CULVERT_SERVER_UI_UI_FILES_H

#include "base/error.h"
#include "base/str.h"

enum { UI_FILES_MAX = 256, UI_FILE_NAME_BYTES_MAX = 100, UI_PACK_BYTES_MAX = 32 * 1024 * 1024 };
enum { UI_BASE_PATH_BYTES_MAX = 200, UI_ETAG_BYTES = 2 + 32 + 1 };

// Forms in the order of preference, the last one always there.
enum ui_encoding { UI_BROTLI, UI_GZIP, UI_PLAIN, UI_ENCODINGS };

struct ui_file {
    struct str name;          // "app.4f2a91c0.js"
    const char *content_type; // by the end of its name
    struct str forms[UI_ENCODINGS];
};

struct ui_files;

// pack must outlive the table. base_path: "/" or "/a/b/". NULL on error.
struct ui_files *ui_files_create(struct str pack, struct str base_path, struct error *err);
// Reads the pack from this file. NULL on error.
struct ui_files *ui_files_open(const char *file, struct str base_path, struct error *err);
void ui_files_destroy(struct ui_files *files); // NULL is fine

// The page that every path of the UI starts with, and its ETag with quotes.
struct str ui_files_index(const struct ui_files *files);
struct str ui_files_index_etag(const struct ui_files *files);
struct str ui_files_base_path(const struct ui_files *files);
// NULL: no file has that name. index.html is not among them.
const struct ui_file *ui_files_find(const struct ui_files *files, struct str name);

// The best form that this Accept-Encoding (RFC 9110, section 12.5.3) permits and the file has.
enum ui_encoding ui_file_choose(const struct ui_file *file, struct str accept_encoding);

// "/" or a path that starts and ends with "/", of a-z, A-Z, 0-9, "-", ".", "_" and "~", without
// "." and ".." segments.
bool ui_base_path_is_valid(struct str base_path);

#endif
