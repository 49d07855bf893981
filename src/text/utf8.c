// utf8 - whole characters from bytes that arrive in pieces. Invalid bytes become
// U+FFFD, one for each maximal part of a character, as the Unicode standard
// recommends.

#include "text/generator.h"

// Bytes of the character that starts with this byte; 0: none does.
static int length_of(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

// Whether byte i may follow this first byte: no overlong forms, no surrogates,
// nothing above U+10FFFF.
static bool may_follow(unsigned char first, int i, unsigned char c)
{
    if (i == 1 && first == 0xe0)
        return c >= 0xa0 && c <= 0xbf;
    if (i == 1 && first == 0xed)
        return c >= 0x80 && c <= 0x9f;
    if (i == 1 && first == 0xf0)
        return c >= 0x90 && c <= 0xbf;
    if (i == 1 && first == 0xf4)
        return c >= 0x80 && c <= 0x8f;
    return (c & 0xc0) == 0x80;
}

// The length of the next character in bytes; 0: more bytes are needed to know; -k:
// the next k bytes are invalid.
static int next(const char *text, int64_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    const int length = length_of(p[0]);
    if (length == 0)
        return -1;
    for (int i = 1; i < length; i++) {
        if (i >= n)
            return 0;
        if (!may_follow(p[0], i, p[i]))
            return -i;
    }
    return length;
}

int64_t tt__utf8_whole(const char *text, int64_t n)
{
    int64_t i = 0;
    while (i < n) {
        const int k = next(text + i, n - i);
        if (k == 0)
            break;
        i += k > 0 ? k : -k;
    }
    return i;
}

void tt__utf8_clean(const char *text, int64_t n, tt_str *out)
{
    for (int64_t i = 0; i < n;) {
        const int k = next(text + i, n - i);
        if (k > 0)
            tt_str_add_bytes(out, text + i, k);
        else
            tt_str_add(out, "\xef\xbf\xbd");
        i += k > 0 ? k : k == 0 ? n - i : -k;
    }
}
