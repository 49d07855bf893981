// jpeg - through libjpeg-turbo, with its defaults: the accurate DCT and smooth
// upsampling.
//
// The library reports errors by a jump (longjmp). Local variables of the function that
// is jumped out of are lost, so everything that lives across a jump is in `reading`,
// which the caller owns.
//
// Files may be hostile: a progressive file of a few bytes can ask for many scans over a
// large image. So scans are counted and memory is limited. Warnings that mean damaged
// pixels are errors, since a half-gray image would be trained on.

#include "data/image/decode.h"

// clang-format off
#include <setjmp.h>
#include <stdio.h> // before jpeglib.h, which needs it

#include <jerror.h>
#include <jpeglib.h>
// clang-format on

enum { MAX_SCANS = 100, SLACK = 4 << 20 };

typedef struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    tt_status status; // why it ended, where that is not the library's message
    bool is_size_only;
    tt_image *out;
    const uint8_t *bytes;
    int64_t n;
} reading;

_Noreturn static void give_up(j_common_ptr jpeg)
{
    reading *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->message);
    longjmp(r->jump, 1);
}

// Warnings that do not change a pixel are let pass.
static void warn(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level >= 0 || code == JWRN_EXTRANEOUS_DATA ||
        code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
        code == JWRN_TOO_MUCH_DATA)
        return;
    give_up(jpeg);
}

static void stay_silent(j_common_ptr jpeg)
{
    (void)jpeg;
}

// A few bytes make a scan over all of the image, and a file may have many: honest
// ones have about ten.
static void count_scans(j_common_ptr jpeg)
{
    reading *r = jpeg->client_data;
    if (r->jpeg.input_scan_number <= MAX_SCANS)
        return;
    snprintf(r->message, sizeof r->message, "it has more than %d scans",
             MAX_SCANS);
    longjmp(r->jump, 1);
}

// Bytes of the coefficients that a file in several scans makes the library keep.
static int64_t kept_bytes(j_decompress_ptr jpeg)
{
    int64_t bytes = 0;
    if (!jpeg_has_multiple_scans(jpeg))
        return 0;
    for (int i = 0; i < jpeg->num_components; i++) {
        const jpeg_component_info *c = &jpeg->comp_info[i];
        bytes += (int64_t)(c->width_in_blocks + c->h_samp_factor) *
                 (c->height_in_blocks + c->v_samp_factor) * DCTSIZE2 *
                 (int64_t)sizeof(JCOEF);
    }
    return bytes;
}

// Halves the size until it fits.
static bool choose_scale(j_decompress_ptr jpeg)
{
    const int64_t kept = kept_bytes(jpeg);
    jpeg->scale_num = 1;
    for (jpeg->scale_denom = 1; jpeg->scale_denom <= 8;
         jpeg->scale_denom *= 2) {
        jpeg_calc_output_dimensions(jpeg);
        if ((int64_t)jpeg->output_width * jpeg->output_height *
                    jpeg->output_components +
                kept <=
            TT_DECODE_BYTES)
            return true;
    }
    return false;
}

static tt_status prepare(reading *r)
{
    j_decompress_ptr jpeg = &r->jpeg;
    if (jpeg->num_components == 1)
        jpeg->out_color_space = JCS_GRAYSCALE;
    else if (jpeg->num_components == 3)
        jpeg->out_color_space = JCS_RGB;
    else if (jpeg->num_components == 4)
        jpeg->out_color_space = JCS_CMYK;
    else
        return tt_fail(TT_ERR_ARG,
                       "the JPEG has %d colour components; 1, 3 and 4 are "
                       "understood",
                       jpeg->num_components);
    if (!choose_scale(jpeg))
        return tt_fail(TT_ERR_ARG,
                       "the JPEG is too large to be decoded: %u x %u "
                       "pixels; make it smaller",
                       jpeg->image_width, jpeg->image_height);
    const int64_t channels = jpeg->num_components == 1 ? 1 : 3;
    if (!r->is_size_only)
        return tt_image_reserve(r->out, channels, jpeg->output_height,
                                jpeg->output_width, false);
    r->out->channels = channels;
    r->out->height = jpeg->output_height;
    r->out->width = jpeg->output_width;
    return TT_OK;
}

// a * b / 255, rounded.
static int scaled(int a, int b)
{
    const int x = a * b + 128;
    return ((x >> 8) + x) >> 8;
}

// Values are stored inverted: 255 is no ink.
static void cmyk_to_rgb(const uint8_t *cmyk, int64_t n, uint8_t *rgb)
{
    for (int64_t i = 0; i < n; i++) {
        const int white = cmyk[4 * i + 3];
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] =
                (uint8_t)(white - scaled(255 - cmyk[4 * i + c], white));
    }
}

// All between header and end; may be left by a jump.
static void read_rows(reading *r)
{
    j_decompress_ptr jpeg = &r->jpeg;
    const int64_t row = r->out->channels * r->out->width;
    JSAMPARRAY inks = NULL;
    (void)jpeg_start_decompress(jpeg);
    if (jpeg->out_color_space == JCS_CMYK)
        inks = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE,
                                       jpeg->output_width * 4, 1);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = r->out->u8 + jpeg->output_scanline * row;
        (void)jpeg_read_scanlines(jpeg, inks != NULL ? inks : &to, 1);
        if (inks != NULL)
            cmyk_to_rgb(inks[0], r->out->width, to);
    }
    (void)jpeg_finish_decompress(jpeg);
}

// False when it was left by a jump; else r->status says how it went.
static bool guarded(reading *r)
{
    if (setjmp(r->jump) != 0)
        return false;
    jpeg_create_decompress(&r->jpeg);
    r->progress.progress_monitor = count_scans;
    r->jpeg.progress = &r->progress;
    r->jpeg.mem->max_memory_to_use = TT_DECODE_BYTES + SLACK;
    jpeg_mem_src(&r->jpeg, r->bytes, (unsigned long)r->n);
    (void)jpeg_read_header(&r->jpeg, TRUE);
    r->status = prepare(r);
    if (r->status == TT_OK && !r->is_size_only)
        read_rows(r);
    return true;
}

static tt_status run(reading *r)
{
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->jpeg.client_data = r;
    r->errors.error_exit = give_up;
    r->errors.emit_message = warn;
    r->errors.output_message = stay_silent;
    if (!guarded(r))
        r->status =
            r->errors.msg_code == JERR_OUT_OF_MEMORY
                ? tt_fail(TT_ERR_NOMEM, "there is no memory to decode a JPEG")
                : tt_fail(TT_ERR_ARG, "the JPEG is damaged: %s", r->message);
    jpeg_destroy_decompress(&r->jpeg);
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
    return n >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

const tt_image_decoder tt__decoder_jpeg = {"JPEG", is_mine, size, decode};
