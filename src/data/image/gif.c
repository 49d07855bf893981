// gif - the first picture of a GIF, which may move: palettes packed by LZW.
//
//   "GIF89a", u16 width, height, flags, background, aspect, palette; then blocks:
//   '!' extensions, ',' a picture (u16 left, top, width, height, flags, palette, bits
//   of the first codes, data in pieces with their lengths), ';' the end
//
// What the picture does not cover is transparent, or colour 0 of the palette.

#include "data/image/decode.h"

#include <string.h>

enum { CODES = 4096, MAX_BITS = 12 };

typedef struct reading {
    const uint8_t *p, *end;
    int64_t width, height; // of all
    int64_t left, top, w, h;
    bool is_interlaced, is_gray;
    int n_colours, transparent; // -1: none
    const uint8_t *palette;
    int first_bits;
} reading;

// The codes of LZW: each is an earlier code and one more byte. So the bytes of a code
// come out from the last to the first, and go over a stack.
typedef struct table {
    uint16_t before[CODES];
    uint8_t last[CODES];
    uint8_t stack[CODES];
} table;

static tt_status damaged(const char *what)
{
    return tt_fail(TT_ERR_ARG, "the GIF file %s", what);
}

static int64_t u16_at(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

static bool has(const reading *r, int64_t n)
{
    return r->end - r->p >= n;
}

static tt_status read_palette(reading *r, int flags)
{
    if ((flags & 0x80) == 0)
        return TT_OK;
    r->n_colours = 2 << (flags & 7);
    if (!has(r, 3L * r->n_colours))
        return damaged("is truncated");
    r->palette = r->p;
    r->p += 3L * r->n_colours;
    return TT_OK;
}

static tt_status skip_pieces(reading *r)
{
    while (has(r, 1) && *r->p != 0) {
        const int n = *r->p;
        if (!has(r, n + 1))
            break;
        r->p += n + 1;
    }
    if (!has(r, 1) || *r->p != 0)
        return damaged("is truncated");
    r->p++;
    return TT_OK;
}

// Everything before the first picture. Only what is transparent is of interest.
static tt_status skip_to_picture(reading *r)
{
    for (;;) {
        if (!has(r, 2))
            return damaged("has no picture");
        const uint8_t kind = *r->p++;
        if (kind == ',')
            return TT_OK;
        if (kind != '!')
            return damaged(kind == ';' ? "has no picture" : "is damaged");
        const uint8_t label = *r->p++;
        if (label == 0xf9 && has(r, 5) && r->p[0] >= 4 && (r->p[1] & 1) != 0)
            r->transparent = r->p[4];
        TT_TRY(skip_pieces(r));
    }
}

static tt_status read_picture(reading *r)
{
    if (!has(r, 9))
        return damaged("is truncated");
    r->left = u16_at(r->p);
    r->top = u16_at(r->p + 2);
    r->w = u16_at(r->p + 4);
    r->h = u16_at(r->p + 6);
    const int flags = r->p[8];
    r->p += 9;
    r->is_interlaced = (flags & 0x40) != 0;
    TT_TRY(read_palette(r, flags));
    if (r->w < 1 || r->h < 1 || r->left + r->w > r->width ||
        r->top + r->h > r->height)
        return damaged("has a picture that is larger than itself");
    if (r->palette == NULL)
        return damaged("has no palette");
    r->is_gray = true;
    for (int i = 0; i < r->n_colours; i++) {
        const uint8_t *c = r->palette + 3L * i;
        r->is_gray = r->is_gray && c[0] == c[1] && c[1] == c[2];
    }
    if (!has(r, 1) || *r->p < 1 || *r->p > 8)
        return damaged("has codes of an impossible length");
    r->first_bits = *r->p++;
    return TT_OK;
}

static tt_status read_header(const uint8_t *bytes, int64_t n, reading *r)
{
    *r = (reading){.p = bytes + 6, .end = bytes + n, .transparent = -1};
    if (!has(r, 7))
        return damaged("is truncated");
    r->width = u16_at(r->p);
    r->height = u16_at(r->p + 2);
    const int flags = r->p[4];
    r->p += 7;
    if (r->width < 1 || r->height < 1)
        return damaged("has no pixels");
    if (r->width * r->height * 3 > TT_DECODE_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "the GIF is too large to be decoded: %lld x %lld "
                       "pixels; make it smaller",
                       (long long)r->width, (long long)r->height);
    TT_TRY(read_palette(r, flags));
    TT_TRY(skip_to_picture(r));
    return read_picture(r);
}

// ---- pixels ------------------------------------------------------------------

typedef struct unpacking {
    reading *r;
    int64_t piece; // bytes left of it
    uint32_t held; // bits
    int n_held;
    int64_t done; // pixels
    tt_image *out;
} unpacking;

// Row number `i` of the file: of every eighth from 0 on, then from 4, ...
static int64_t row_of(const reading *r, int64_t i)
{
    static const int first[] = {0, 4, 2, 1}, stride[] = {8, 8, 4, 2};
    if (!r->is_interlaced)
        return i;
    for (int k = 0; k < 4; k++) {
        const int64_t n = (r->h - first[k] + stride[k] - 1) / stride[k];
        if (i < n)
            return first[k] + i * stride[k];
        i -= n > 0 ? n : 0;
    }
    return 0;
}

static void colour(const reading *r, int index, int64_t channels, uint8_t *to)
{
    const uint8_t *c =
        r->palette + 3L * (index < r->n_colours ? index : r->n_colours - 1);
    for (int64_t k = 0; k < channels; k++)
        to[k] = c[k];
}

static void put(unpacking *u, int index)
{
    const reading *r = u->r;
    if (u->done >= r->w * r->h)
        return;
    const int64_t y = r->top + row_of(r, u->done / r->w);
    const int64_t x = r->left + u->done % r->w;
    colour(r, index, u->out->channels,
           u->out->u8 + (y * r->width + x) * u->out->channels);
    u->done++;
}

// The next code, or -1 at the end of the data.
static int next_code(unpacking *u, int bits)
{
    reading *r = u->r;
    while (u->n_held < bits) {
        if (u->piece == 0) {
            if (!has(r, 1) || *r->p == 0)
                return -1;
            u->piece = *r->p++;
        }
        if (!has(r, 1))
            return -1;
        u->held |= (uint32_t)*r->p++ << u->n_held;
        u->n_held += 8;
        u->piece--;
    }
    const int code = (int)(u->held & ((1U << bits) - 1));
    u->held >>= bits;
    u->n_held -= bits;
    return code;
}

// Puts the bytes of a code; returns the first of them.
static uint8_t put_code(unpacking *u, table *t, int code, int first_free)
{
    int n = 0;
    while (code >= first_free && n < CODES - 1) {
        t->stack[n++] = t->last[code];
        code = t->before[code];
    }
    t->stack[n++] = (uint8_t)code;
    for (int i = n - 1; i >= 0; i--)
        put(u, t->stack[i]);
    return (uint8_t)code;
}

static tt_status unpack(unpacking *u, table *t)
{
    const int clear = 1 << u->r->first_bits, end = clear + 1, first = clear + 2;
    int bits = u->r->first_bits + 1, next = first, old = -1;
    while (u->done < u->r->w * u->r->h) {
        const int code = next_code(u, bits);
        if (code < 0 || code == end)
            return damaged("is truncated");
        if (code == clear) {
            bits = u->r->first_bits + 1;
            next = first;
            old = -1;
            continue;
        }
        if (code > next || (code == next && old < 0))
            return damaged("has a code that was never made");
        uint8_t byte = 0;
        if (code < next || old < 0) {
            byte = put_code(u, t, code, first);
        } else { // the one that is being made: the last and its own first byte
            byte = put_code(u, t, old, first);
            put(u, byte);
        }
        if (old >= 0 && next < CODES) {
            t->before[next] = (uint16_t)old;
            t->last[next++] = byte;
        }
        if (next == 1 << bits && bits < MAX_BITS)
            bits++;
        old = code;
    }
    return TT_OK;
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
    table t;
    TT_TRY(read_header(bytes, n, &r));
    const int64_t channels = r.is_gray ? 1 : 3;
    TT_TRY(tt_image_reserve(out, channels, r.height, r.width, false));
    for (int64_t i = 0; i < r.height * r.width; i++)
        colour(&r, r.transparent >= 0 ? r.transparent : 0, channels,
               out->u8 + i * channels);
    unpacking u = {.r = &r, .out = out};
    return unpack(&u, &t);
}

static bool is_mine(const uint8_t *bytes, int64_t n)
{
    return n >= 6 &&
           (memcmp(bytes, "GIF87a", 6) == 0 || memcmp(bytes, "GIF89a", 6) == 0);
}

const tt_image_decoder tt__decoder_gif = {"GIF", is_mine, size, decode};
