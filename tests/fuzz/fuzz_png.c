// fuzz_png - PNG images: as they are, and with the checksums of their chunks made
// right, so that more of them get past the first.

#include "data/image/decode.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 |
           (uint32_t)from[2] << 8 | from[3];
}

// A chunk is: length, name, contents, checksum of name and contents.
static void mend(uint8_t *data, size_t n)
{
    for (size_t at = 8; at + 12 <= n;) {
        const size_t length = get_u32(data + at);
        if (length > n - at - 12)
            return;
        put_u32(data + at + 8 + length,
                (uint32_t)crc32(0, data + at + 4, (uInt)(length + 4)));
        at += length + 12;
    }
}

static void decode(const uint8_t *data, size_t n)
{
    tt_image image = {0};
    if (tt_decode(data, (int64_t)n, &image) == TT_OK) {
        const volatile uint8_t *pixel = image.u8; // all of them are there
        const int64_t end = image.channels * image.height * image.width;
        (void)(pixel[0] + pixel[end - 1]);
    }
    tt_image_fini(&image);
}

FUZZ(png)
{
    decode(data, n);
    uint8_t *copy = malloc(n + 1);
    if (copy == NULL)
        return;
    memcpy(copy, data, n);
    mend(copy, n);
    decode(copy, n);
    free(copy);
}
