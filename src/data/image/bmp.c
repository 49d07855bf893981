// bmp - bitmaps of Windows and OS/2: palettes of 1, 2, 4 and 8 bits, and colours of
// 16, 24 and 32. Those that are packed (RLE, JPEG, PNG) are refused.
//
//   0 "BM"  10 u32 where pixels begin  14 u32 bytes of the header that follows:
//   12: u16 width, height, planes, bits            (OS/2; palette of 3 bytes)
//   40 and more: i32 width, height; u16 planes, bits; u32 packing ... u32 colours at
//   46, masks of colours at 54                      (palette of 4 bytes)
//
// Rows are a multiple of four bytes and go up, or down where the height is negative.

#include "data/image/decode.h"
#include "data/number.h"

enum { MAX_SIDE = 1000000, OLD = 12, FILE_HEADER = 14 };
enum { PLAIN = 0, MASKS = 3, MASKS_ALPHA = 6 };

typedef struct reading {
    const uint8_t *bytes;
    int64_t n;
    int64_t header; // bytes of it
    int64_t width, height, pixels;
    bool goes_down, is_gray;
    int bits;
    int64_t n_colours, entry; // of the palette; bytes of one
    const uint8_t *palette;
    uint32_t mask[3];
} reading;

static int64_t u16_at(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

static tt_status damaged(const char *what)
{
    return tt_fail(TT_ERR_ARG, "the BMP file %s", what);
}

static tt_status read_sizes(reading *r, int64_t *packing)
{
    const uint8_t *h = r->bytes + FILE_HEADER;
    if (r->header == OLD) {
        r->width = u16_at(h + 4);
        r->height = u16_at(h + 6);
        r->bits = (int)u16_at(h + 10);
        r->entry = 3;
    } else {
        r->width = (int32_t)tt_u32_at(h + 4);
        r->height = (int32_t)tt_u32_at(h + 8);
        r->bits = (int)u16_at(h + 14);
        *packing = tt_u32_at(h + 16);
        r->n_colours = tt_u32_at(h + 32);
        r->entry = 4;
    }
    r->goes_down = r->height < 0;
    if (r->goes_down)
        r->height = -r->height;
    if (r->width < 1 || r->height < 1 || r->width > MAX_SIDE ||
        r->height > MAX_SIDE)
        return damaged("has sizes that make no sense");
    return TT_OK;
}

static tt_status read_masks(reading *r, int64_t packing)
{
    const bool is_16 = r->bits == 16;
    for (int c = 0; c < 3; c++)
        r->mask[c] = is_16 ? 0x7c00U >> (5 * c) : 0xff0000U >> (8 * c);
    if (packing == PLAIN)
        return TT_OK;
    if (r->n < FILE_HEADER + 40 + 12)
        return damaged("is truncated");
    for (int c = 0; c < 3; c++) {
        const uint32_t mask = tt_u32_at(r->bytes + FILE_HEADER + 40 + 4L * c);
        const uint32_t low = mask >> (mask != 0 ? __builtin_ctz(mask) : 0);
        if (mask == 0 || (low & (low + 1)) != 0)
            return damaged("has masks of colours that make no sense");
        r->mask[c] = mask;
    }
    return TT_OK;
}

static tt_status read_palette(reading *r, int64_t packing)
{
    const int64_t most = (int64_t)1 << r->bits;
    const int64_t extra = r->header == 40 && packing == MASKS ? 12 : 0;
    const int64_t at = FILE_HEADER + r->header + extra;
    if (r->n_colours < 1 || r->n_colours > most)
        r->n_colours = most;
    const int64_t room = r->pixels > at ? (r->pixels - at) / r->entry : 0;
    if (r->n_colours > room) // some files have fewer than they say
        r->n_colours = room;
    if (r->n_colours < 1 || at + r->n_colours * r->entry > r->n)
        return damaged("has no palette");
    r->palette = r->bytes + at;
    r->is_gray = true;
    for (int64_t i = 0; i < r->n_colours; i++) {
        const uint8_t *c = r->palette + i * r->entry;
        r->is_gray = r->is_gray && c[0] == c[1] && c[1] == c[2];
    }
    return TT_OK;
}

static int64_t row_bytes(const reading *r)
{
    return (r->width * r->bits + 31) / 32 * 4;
}

static tt_status read_header(const uint8_t *bytes, int64_t n, reading *r)
{
    int64_t packing = PLAIN;
    *r = (reading){.bytes = bytes, .n = n};
    r->header = n >= FILE_HEADER + 4 ? tt_u32_at(bytes + FILE_HEADER) : 0;
    if ((r->header != OLD && r->header < 40) || r->header > n - FILE_HEADER)
        return damaged("has a header of an unknown kind, or is truncated");
    r->pixels = tt_u32_at(bytes + 10);
    TT_TRY(read_sizes(r, &packing));
    const bool has_masks = (packing == MASKS || packing == MASKS_ALPHA) &&
                           (r->bits == 16 || r->bits == 32);
    if (packing != PLAIN && !has_masks)
        return damaged("is packed (RLE), which is not read; save it without, "
                       "or as PNG");
    if (r->bits == 1 || r->bits == 2 || r->bits == 4 || r->bits == 8)
        TT_TRY(read_palette(r, packing));
    else if (r->bits == 16 || r->bits == 24 || r->bits == 32)
        TT_TRY(read_masks(r, packing));
    else
        return damaged("has an unknown number of bits for a pixel");
    if (r->width * r->height * 3 > TT_DECODE_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "the BMP is too large to be decoded: %lld x %lld "
                       "pixels; make it smaller",
                       (long long)r->width, (long long)r->height);
    return TT_OK;
}

static tt_status read_indices(const reading *r, const uint8_t *from,
                              uint8_t *to)
{
    const int channels = r->is_gray ? 1 : 3;
    for (int64_t x = 0; x < r->width; x++) {
        const int64_t bit = x * r->bits;
        const int index =
            (from[bit / 8] >> (8 - r->bits - bit % 8)) & ((1 << r->bits) - 1);
        if (index >= r->n_colours)
            return damaged("has a pixel of a colour that is not in its "
                           "palette");
        const uint8_t *c = r->palette + index * r->entry;
        for (int k = 0; k < channels; k++)
            to[x * channels + k] = c[channels - 1 - k];
    }
    return TT_OK;
}

// The bits of a mask, scaled to 0 to 255.
static uint8_t pick(uint32_t pixel, uint32_t mask)
{
    const uint32_t most = mask >> __builtin_ctz(mask);
    const uint64_t value = (pixel & mask) >> __builtin_ctz(mask);
    return (uint8_t)(value * 255 / most);
}

static void read_colours(const reading *r, const uint8_t *from, uint8_t *to)
{
    for (int64_t x = 0; x < r->width; x++) {
        const uint8_t *p = from + x * r->bits / 8;
        if (r->bits == 24) {
            to[3 * x] = p[2];
            to[3 * x + 1] = p[1];
            to[3 * x + 2] = p[0];
            continue;
        }
        const uint32_t pixel =
            r->bits == 16 ? (uint32_t)u16_at(p) : tt_u32_at(p);
        for (int c = 0; c < 3; c++)
            to[3 * x + c] = pick(pixel, r->mask[c]);
    }
}

static tt_status size(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r;
    TT_TRY(read_header(bytes, n, &r));
    out->channels = r.is_gray ? 1 : 3;
    out->height = r.height;
    out->width = r.width;
    return TT_OK;
}

static tt_status decode(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r;
    TT_TRY(read_header(bytes, n, &r));
    if (r.pixels > n || row_bytes(&r) * r.height > n - r.pixels)
        return damaged("is truncated");
    TT_TRY(tt_image_reserve(out, r.is_gray ? 1 : 3, r.height, r.width, false));
    for (int64_t y = 0; y < r.height; y++) {
        const int64_t at = r.goes_down ? y : r.height - 1 - y;
        const uint8_t *from = bytes + r.pixels + at * row_bytes(&r);
        uint8_t *to = out->u8 + y * r.width * out->channels;
        if (r.palette != NULL)
            TT_TRY(read_indices(&r, from, to));
        else
            read_colours(&r, from, to);
    }
    return TT_OK;
}

static bool is_mine(const uint8_t *bytes, int64_t n)
{
    return n >= 2 && bytes[0] == 'B' && bytes[1] == 'M';
}

const tt_image_decoder tt__decoder_bmp = {"BMP", is_mine, size, decode};
