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

struct sample_config {
    char *listen, *level, *title, *password;
    bool enabled;
    int64_t loops, bytes, wait_ms;
};

#define AT(field) offsetof(struct sample_config, field)

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
static const struct config_section section = {.title = "Sample", CONFIG_ENTRIES(entries)};
static const struct config_section *const sections[] = {&section};
static const struct config_table table = {sections, 1, "sample", "CULVERT_FUZZ_"};

static enum error_code load(const void *at, size_t len, struct sample_config *config, struct strbuf *problems)
{
    char path[64];
    char name[] = "fuzz";
    char *argv[] = {name};
    int fd = memfd_create("fuzz_config", MFD_CLOEXEC);
    if (fd < 0 || write(fd, at, len) != (ssize_t)len) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum error_code code = config_load(&table, path, 1, argv, config, problems, NULL, NULL);
    close(fd);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t len)
{
    struct sample_config config = {0}, again = {0};
    struct strbuf problems, text;
    strbuf_init(&problems, 1 << 20);
    strbuf_init(&text, 1 << 20);
    if (load(at, len, &config, &problems) == ERROR_NONE) {
        assert(config.loops >= -4 && config.loops <= 16 && config.bytes >= 0 && config.bytes <= 1 << 30);
        assert(config.listen && config.level && config.title && config.password && config.wait_ms >= 0);
        config_print(&table, &config, &text);
        assert(load(text.at, text.len, &again, &problems) == ERROR_NONE);
        assert(again.loops == config.loops && again.bytes == config.bytes && again.wait_ms == config.wait_ms);
        assert(again.enabled == config.enabled && strcmp(again.title, config.title) == 0);
    } else {
        assert(problems.len > 0 && !config.listen);
    }
    config_release(&table, &config);
    config_release(&table, &again);
    strbuf_finish(&problems);
    strbuf_finish(&text);
    return 0;
}
