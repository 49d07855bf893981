// utf8 - reading and writing one character. See utf8.h.
//
// Strict, as the standard wants it: no overlong forms, no surrogates, nothing above
// U+10FFFF. Validation looks at eight bytes at a time as long as they are ASCII.

#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

// Length by the first byte; 0: none begins so.
static int expected(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int tt_utf8_read(const char *text, int64_t n, uint32_t *code_out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    const int k = n > 0 ? expected(p[0]) : 0;
    if (k == 0 || k > n)
        return 0;
    uint32_t code = k == 1 ? p[0] : p[0] & (0xffu >> (k + 1));
    for (int i = 1; i < k; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code < least[k] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    if (code_out != NULL)
        *code_out = code;
    return k;
}

int tt_utf8_write(uint32_t code, char out[4])
{
    const int k = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = k - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(first[k == 1 ? 0 : k] | code);
    return k;
}

int64_t tt_utf8_valid(const char *text, int64_t n)
{
    int64_t i = 0;
    while (i < n) {
        uint64_t eight = 0;
        if (n - i >= 8) {
            memcpy(&eight, text + i, 8);
            if ((eight & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        const int k = tt_utf8_read(text + i, n - i, NULL);
        if (k == 0)
            return i;
        i += k;
    }
    return n;
}
