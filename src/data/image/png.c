// png - through libpng, every kind of PNG to 8 bits of gray or RGB.
//
// The library reports errors by a jump (longjmp). Local variables of the function that
// is jumped out of are lost, so everything that lives across a jump is in `reading`,
// which the caller owns.

#include "base/alloc.h"
#include "data/image/decode.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 1000000 };

typedef struct reading {
    png_structp png;
    png_infop info;
    char message[128];
    tt_status status; // why it ended, where that is not the library's message
    bool is_size_only;
    tt_image *out;
    uint8_t **rows;
    const uint8_t *bytes; // what is left
    int64_t n;
} reading;

_Noreturn static void give_up(png_structp png, png_const_charp message)
{
    reading *r = png_get_error_ptr(png);
    snprintf(r->message, sizeof r->message, "%s", message);
    png_longjmp(png, 1);
}

static void stay_silent(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void *allocate(png_structp png, png_alloc_size_t bytes)
{
    (void)png;
    return tt_alloc(bytes > TT_DECODE_BYTES ? -1 : (int64_t)bytes);
}

static void release(png_structp png, void *block)
{
    (void)png;
    tt_free(block);
}

static void pull(png_structp png, png_bytep to, size_t n)
{
    reading *r = png_get_io_ptr(png);
    if ((int64_t)n > r->n)
        png_error(png, "it is truncated");
    memcpy(to, r->bytes, n);
    r->bytes += n;
    r->n -= (int64_t)n;
}

// Alpha is dropped, not blended: transparency is asked for nowhere.
static void ask_for_bytes(reading *r)
{
    if (png_get_color_type(r->png, r->info) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    else if (png_get_bit_depth(r->png, r->info) < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
}

static tt_status prepare(reading *r)
{
    const int64_t height = png_get_image_height(r->png, r->info);
    const int64_t width = png_get_image_width(r->png, r->info);
    const int color = png_get_color_type(r->png, r->info);
    const int64_t channels = (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
    const int64_t table = height * (int64_t)sizeof(uint8_t *);
    if (height * width * channels + table > TT_DECODE_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "the PNG is too large to be decoded: %lld x %lld "
                       "pixels; make it smaller",
                       (long long)width, (long long)height);
    if (r->is_size_only) {
        r->out->channels = channels;
        r->out->height = height;
        r->out->width = width;
        return TT_OK;
    }
    TT_TRY(tt_image_reserve(r->out, channels, height, width, false));
    r->rows = tt_alloc(table);
    if (r->rows == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to decode a PNG");
    for (int64_t y = 0; y < height; y++)
        r->rows[y] = r->out->u8 + y * width * channels;
    return TT_OK;
}

// False when it was left by a jump; else r->status says how it went.
static bool guarded(reading *r)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return false;
    r->info = png_create_info_struct(r->png);
    if (r->info == NULL)
        png_error(r->png, "there is no memory");
    png_set_user_limits(r->png, MAX_SIDE, MAX_SIDE);
    png_set_read_fn(r->png, r, pull);
    png_read_info(r->png, r->info);
    r->status = prepare(r);
    if (r->status != TT_OK || r->is_size_only)
        return true;
    ask_for_bytes(r);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if ((int64_t)png_get_rowbytes(r->png, r->info) !=
        r->out->width * r->out->channels)
        png_error(r->png, "its rows have an unexpected length");
    png_read_image(r->png, r->rows);
    png_read_end(r->png, NULL);
    return true;
}

static tt_status run(reading *r)
{
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, give_up,
                                      stay_silent, NULL, allocate, release);
    if (r->png == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to decode a PNG");
    if (!guarded(r))
        r->status = tt_fail(TT_ERR_ARG, "the PNG is damaged: %s", r->message);
    png_destroy_read_struct(&r->png, &r->info, NULL);
    tt_free(r->rows);
    return r->status;
}

static tt_status size(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r = {.bytes = bytes, .n = n, .out = out, .is_size_only = true};
    return run(&r);
}

static tt_status decode(const uint8_t *bytes, int64_t n, tt_image *out)
{
    reading r = {.bytes = bytes, .n = n, .out = out};
    return run(&r);
}

static bool is_mine(const uint8_t *bytes, int64_t n)
{
    static const uint8_t magic[] = {0x89, 'P',  'N',  'G',
                                    '\r', '\n', 0x1A, '\n'};
    return n >= (int64_t)sizeof magic &&
           memcmp(bytes, magic, sizeof magic) == 0;
}

const tt_image_decoder tt__decoder_png = {"PNG", is_mine, size, decode};
