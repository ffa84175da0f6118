#include "storage/reports/argo_status.h"

struct word {
    struct str argo, contract;
};

#define WORD(argo_word, contract_word)                                                                                 \
    {                                                                                                                  \
        {argo_word, sizeof(argo_word) - 1},                                                                            \
        {                                                                                                              \
            contract_word, sizeof(contract_word) - 1                                                                   \
        }                                                                                                              \
    }

static struct str translate(struct str word, const struct word *words, size_t count)
{
    if (!word.len) return STR_EMPTY;
    for (size_t i = 0; i < count; i++)
        if (str_eq(word, words[i].argo) || str_eq(word, words[i].contract)) return words[i].contract;
    return STR("UNKNOWN");
}

struct str argo_sync_status(struct str word)
{
    static const struct word words[] = {
        WORD("Synced", "SYNCED"),
        WORD("OutOfSync", "OUT_OF_SYNC"),
        WORD("Syncing", "SYNCING"),
    };
    return translate(word, words, sizeof words / sizeof *words);
}

struct str argo_health_status(struct str word)
{
    static const struct word words[] = {
        WORD("Healthy", "HEALTHY"),     WORD("Progressing", "PROGRESSING"), WORD("Degraded", "DEGRADED"),
        WORD("Suspended", "SUSPENDED"), WORD("Missing", "MISSING"),         WORD("Terminated", "TERMINATED"),
    };
    return translate(word, words, sizeof words / sizeof *words);
}
