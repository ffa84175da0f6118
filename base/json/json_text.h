// json_text: how JSON's strings lie in a text, eight bytes at a time: what reads, checks and writes
// JSON spends most of its time there. Pure; any thread.
#ifndef CULVERT_BASE_JSON_JSON_TEXT_H
#define CULVERT_BASE_JSON_JSON_TEXT_H

#include <stdint.h>
#include <string.h>

#define JSON_TEXT_ONES  UINT64_C(0x0101010101010101)
#define JSON_TEXT_HIGHS UINT64_C(0x8080808080808080)

// Non-zero: a quote, a backslash or a control character is among the eight. The lowest bit that is
// set belongs to the first of them in the number's own order; bits above it say nothing.
static inline uint64_t json_text_ends(uint64_t eight)
{
    uint64_t quote = eight ^ JSON_TEXT_ONES * '"', backslash = eight ^ JSON_TEXT_ONES * '\\';
    return ((eight - JSON_TEXT_ONES * 0x20) | (quote - JSON_TEXT_ONES) | (backslash - JSON_TEXT_ONES)) & ~eight &
           JSON_TEXT_HIGHS;
}

// Where plain text ends: at a quote, a backslash, a control character or the end. *all gets its
// highest bit when there is more than ASCII.
static inline const char *json_text_plain_end(const char *at, const char *end, unsigned char *all)
{
    uint64_t bits = 0;
    while (end - at >= 8) {
        uint64_t eight;
        memcpy(&eight, at, sizeof eight);
        uint64_t ends = json_text_ends(eight);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (ends) {
            uint64_t before = (ends & -ends) - 1; // all bits below the mark of that byte
            if (eight & before & JSON_TEXT_HIGHS) *all |= 0x80;
            if (bits & JSON_TEXT_HIGHS) *all |= 0x80;
            return at + __builtin_ctzll(ends) / 8;
        }
#else
        if (ends) break;
#endif
        bits |= eight;
        at += 8;
    }
    for (; at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20; at++)
        bits |= (unsigned char)*at;
    if (bits & JSON_TEXT_HIGHS) *all |= 0x80;
    return at;
}

// The same, with what is passed copied to *to, which is moved; there must be room for as much as is
// left of the text and for eight bytes more.
static inline const char *json_text_plain_copy(const char *at, const char *end, char **to, unsigned char *all)
{
    char *copy = *to;
    uint64_t bits = 0;
    while (end - at >= 8) {
        uint64_t eight;
        memcpy(&eight, at, sizeof eight);
        uint64_t ends = json_text_ends(eight);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        memcpy(copy, &eight, sizeof eight); // what is copied too much is written over
        if (ends) {
            bits |= eight & ((ends & -ends) - 1);
            if (bits & JSON_TEXT_HIGHS) *all |= 0x80;
            *to = copy + __builtin_ctzll(ends) / 8;
            return at + __builtin_ctzll(ends) / 8;
        }
#else
        if (ends) break;
        memcpy(copy, &eight, sizeof eight);
#endif
        bits |= eight;
        copy += 8;
        at += 8;
    }
    for (; at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20; at++) {
        bits |= (unsigned char)*at;
        *copy++ = *at;
    }
    if (bits & JSON_TEXT_HIGHS) *all |= 0x80;
    *to = copy;
    return at;
}

#endif
