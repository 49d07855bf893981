// pnm - the portable formats: PBM, PGM and PPM, binary (P4 to P6) and as text (P1 to
// P3). Values are scaled to 0 to 255; of a bitmap 1 is black.

#include "data/image/decode.h"

#include <string.h>

enum { MAX_SIDE = 1000000, MAX_VALUE = 65535 };

typedef struct reading {
    const uint8_t *p, *end;
    int kind; // 1 to 6
    int64_t width, height, most;
} reading;

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Blanks, and comments up to the end of their line.
static void skip_blanks(reading *r)
{
    while (r->p < r->end && (is_blank(*r->p) || *r->p == '#')) {
        if (*r->p == '#')
            while (r->p < r->end && *r->p != '\n' && *r->p != '\r')
                r->p++;
        else
            r->p++;
    }
}

static bool read_number(reading *r, int64_t most, int64_t *out)
{
    int64_t value = 0;
    skip_blanks(r);
    const uint8_t *from = r->p;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        value = value * 10 + (*r->p - '0');
        if (value > most)
            return false;
    }
    *out = value;
    return r->p > from;
}

static bool is_bitmap(const reading *r)
{
    return r->kind == 1 || r->kind == 4;
}

static int64_t channels_of(const reading *r)
{
    return r->kind == 3 || r->kind == 6 ? 3 : 1;
}

static tt_status read_header(const uint8_t *bytes, int64_t n, reading *r)
{
    *r = (reading){bytes + 2, bytes + n, bytes[1] - '0', 0, 0, 1};
    const bool has_sizes = read_number(r, MAX_SIDE, &r->width) &&
                           read_number(r, MAX_SIDE, &r->height);
    const bool has_most = is_bitmap(r) || read_number(r, MAX_VALUE, &r->most);
    if (!has_sizes || !has_most || r->width < 1 || r->height < 1 || r->most < 1)
        return tt_fail(TT_ERR_ARG, "the header of the P%d image makes no sense",
                       r->kind);
    if (r->kind >= 4 && (r->p == r->end || !is_blank(*r->p++)))
        return tt_fail(TT_ERR_ARG, "the P%d image is truncated", r->kind);
    if (r->width * r->height * channels_of(r) > TT_DECODE_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "the P%d image is too large to be decoded: %lld x %lld "
                       "pixels; make it smaller",
                       r->kind, (long long)r->width, (long long)r->height);
    return TT_OK;
}

// Rounded to the nearest, and halves to even, as Pillow does.
static uint8_t scaled(const reading *r, int64_t value)
{
    if (value >= r->most)
        return 255;
    const int64_t whole = value * 255 / r->most;
    const int64_t twice = 2 * (value * 255 % r->most);
    return (uint8_t)(whole +
                     (twice > r->most || (twice == r->most && whole % 2 == 1)));
}

static tt_status read_binary(const reading *r, tt_image *out)
{
    const int64_t row = r->width * out->channels;
    const int64_t wide = r->most > 255 ? 2 : 1;
    const int64_t row_bytes = is_bitmap(r) ? (r->width + 7) / 8 : row * wide;
    if (row_bytes * r->height > r->end - r->p)
        return tt_fail(TT_ERR_ARG, "the P%d image is truncated", r->kind);
    for (int64_t y = 0; y < r->height; y++) {
        const uint8_t *from = r->p + y * row_bytes;
        uint8_t *to = out->u8 + y * row;
        if (!is_bitmap(r) && r->most == 255) {
            memcpy(to, from, (size_t)row);
            continue;
        }
        for (int64_t x = 0; x < row; x++)
            to[x] = is_bitmap(r) ? ((from[x / 8] >> (7 - x % 8)) & 1 ? 0 : 255)
                    : wide == 1  ? scaled(r, from[x])
                                : scaled(r, from[2 * x] << 8 | from[2 * x + 1]);
    }
    return TT_OK;
}

// Digits of a bitmap may stand without blanks between them.
static bool read_bit(reading *r, int64_t *out)
{
    skip_blanks(r);
    if (r->p == r->end || (*r->p != '0' && *r->p != '1'))
        return false;
    *out = '1' - *r->p++;
    return true;
}

static tt_status read_plain(reading *r, tt_image *out)
{
    const int64_t n = r->width * r->height * out->channels;
    for (int64_t i = 0; i < n; i++) {
        int64_t value = 0;
        const bool is_good = is_bitmap(r) ? read_bit(r, &value)
                                          : read_number(r, MAX_VALUE, &value);
        if (!is_good)
            return tt_fail(TT_ERR_ARG, "the P%d image is damaged at pixel %lld",
                           r->kind, (long long)(i / out->channels));
        out->u8[i] = scaled(r, value);
    }
    return TT_OK;
}

static tt_status size(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r;
    TT_TRY(read_header(bytes, n, &r));
    out->channels = channels_of(&r);
    out->height = r.height;
    out->width = r.width;
    return TT_OK;
}

static tt_status decode(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r;
    TT_TRY(read_header(bytes, n, &r));
    TT_TRY(tt_image_reserve(out, channels_of(&r), r.height, r.width, false));
    return r.kind >= 4 ? read_binary(&r, out) : read_plain(&r, out);
}

static bool is_mine(const uint8_t *bytes, int64_t n)
{
    return n >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (is_blank(bytes[2]) || bytes[2] == '#');
}

const tt_image_decoder tt__decoder_pnm = {"PPM", is_mine, size, decode};
