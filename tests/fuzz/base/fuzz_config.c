// Configuration files: any bytes give values within their bounds or a list of complaints; what is
// printed loads again.
#undef NDEBUG // the checks are the point
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len);

struct sample_settings {
    char *listen, *level, *title, *password;
    bool enabled;
    int64_t loops, bytes, wait_ms;
};

CONFIG_SECTION(sample_settings);

#define AT(field) offsetof(struct sample_settings, field)

static const struct config_entry entries[] = {
    {.name = "api.listen", .type = CONFIG_ADDRESS, .offset = AT(listen), .def = ":1", .help = "Where."},
    {.name = "log.level",
     .type = CONFIG_CHOICE,
     .offset = AT(level),
     .def = "info",
     .choices = "debug|info",
     .help = "What."},
    {.name = "title", .type = CONFIG_STRING, .offset = AT(title), .def = "x", .help = "Text."},
    {.name = "secret", .type = CONFIG_STRING, .offset = AT(password), .def = "", .secret = true, .help = "Text."},
    {.name = "enabled", .type = CONFIG_BOOL, .offset = AT(enabled), .def = "no", .help = "Switch."},
    {.name = "loops", .type = CONFIG_INT, .offset = AT(loops), .def = "1", .min = -4, .max = 16, .help = "Number."},
    {.name = "body_max", .type = CONFIG_BYTES, .offset = AT(bytes), .def = "1MiB", .max = 1 << 30, .help = "Bytes."},
    {.name = "wait", .type = CONFIG_DURATION, .offset = AT(wait_ms), .def = "1s", .help = "Time."},
};
const struct config_section sample_settings_section = {
    .title = "Sample", .size = sizeof(struct sample_settings), CONFIG_ENTRIES(entries)};
static const struct config_section *const sections[] = {&sample_settings_section};
static const struct config_table table = {sections, 1, "sample", "CULVERT_FUZZ_"};

static enum error_code load(const void *at, size_t len, struct config **out, struct strbuf *problems)
{
    char path[64];
    char name[] = "fuzz";
    char *argv[] = {name};
    int fd = memfd_create("fuzz_config", MFD_CLOEXEC);
    if (fd < 0 || write(fd, at, len) != (ssize_t)len) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum error_code code = config_load(&table, path, 1, argv, out, problems, NULL, NULL);
    close(fd);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct config *config = NULL, *again = NULL;
    struct strbuf problems, text;
    strbuf_init(&problems, 1 << 20);
    strbuf_init(&text, 1 << 20);
    if (load(at, len, &config, &problems) == ERROR_NONE) {
        const struct sample_settings *first = sample_settings_of(config);
        assert(first->loops >= -4 && first->loops <= 16 && first->bytes >= 0 && first->bytes <= 1 << 30);
        assert(first->listen && first->level && first->title && first->password && first->wait_ms >= 0);
        config_print(config, &text);
        assert(load(text.at, text.len, &again, &problems) == ERROR_NONE);
        const struct sample_settings *second = sample_settings_of(again);
        assert(second->loops == first->loops && second->bytes == first->bytes && second->wait_ms == first->wait_ms);
        assert(second->enabled == first->enabled && strcmp(second->title, first->title) == 0);
    } else {
        assert(problems.len > 0 && !config);
    }
    config_destroy(config);
    config_destroy(again);
    strbuf_finish(&problems);
    strbuf_finish(&text);
    return 0;
}
