// transform - options, and from the chosen window to normalised planes.
//
// Only the pixels that the model will see are computed: the resize makes the window and
// not the whole image. A byte has 256 values, so normalising is a table where the
// image is large enough for that to pay.
//
//   image (HWC bytes) -> [luma] -> [resize the window] -> planes (CHW floats)
//   image (CHW floats) --------------------------------^

#include "data/image/transform.h"

#include "data/image/resize.h"
#include "data/image/transform_crop.h"

#include <string.h>

// Pixels that a plane is made of: `rows` x `cols` of them at (top, left) of the
// square, black around them.
typedef struct source {
    bool is_float;
    const uint8_t *u8; // of channel 0; or
    const float *f32;
    int64_t stride, step; // elements from row to row, from pixel to pixel,
    int64_t plane;        // and from channel to channel
    int64_t top, left, rows, cols;
} source;

static double at(const tt_f64s *list, int64_t channel, double fallback)
{
    return list->n == 0 ? fallback : list->v[list->n == 1 ? 0 : channel];
}

static tt_status check_count(const tt_transform *t, const char *name,
                             const tt_f64s *list)
{
    if (list->n <= 1 || list->n == t->channels)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "data.%s has %lld values and the model %lld channels; give "
                   "one value, or one for each channel",
                   name, (long long)list->n, (long long)t->channels);
}

static tt_status check_range(const char *name, const tt_f64s *list)
{
    if (list->n == 2 && list->v[0] <= list->v[1])
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "data.%s is a range: give the least value and the greatest",
                   name);
}

tt_status tt_transform_check(const tt_transform *t)
{
    TT_TRY(check_count(t, "mean", &t->mean));
    TT_TRY(check_count(t, "std", &t->std));
    if (t->pad >= t->image)
        return tt_fail(TT_ERR_ARG,
                       "data.pad=%lld must be less than the side of the "
                       "image, %lld",
                       (long long)t->pad, (long long)t->image);
    if (t->resize == TT_RESIZE_NONE)
        return TT_OK;
    if (t->resize_to > 0 && t->resize_to < t->image)
        return tt_fail(TT_ERR_ARG,
                       "data.resize_to=%lld is less than the side of the "
                       "image, %lld, that is cut out of it",
                       (long long)t->resize_to, (long long)t->image);
    if (t->resize == TT_RESIZE_FIT)
        return TT_OK;
    if (t->pad > 0)
        return tt_fail(TT_ERR_ARG, "data.pad goes with data.resize=none or fit,"
                                   " not with random; leave one of them out");
    TT_TRY(check_range("scale", &t->scale));
    return check_range("ratio", &t->ratio);
}

static tt_status check_input(const tt_transform *t, const tt_image *in)
{
    if (in->channels != t->channels && in->channels != 1 &&
        !(in->channels == 3 && t->channels == 1 && !in->is_float))
        return tt_fail(TT_ERR_ARG,
                       "the image has %lld channels and the model wants %lld",
                       (long long)in->channels, (long long)t->channels);
    if (in->is_float && t->resize != TT_RESIZE_NONE)
        return tt_fail(TT_ERR_ARG, "images of floats cannot be resized; leave "
                                   "data.resize out");
    return TT_OK;
}

static void to_luma(const tt_image *in, uint8_t *out)
{
    const int64_t n = in->height * in->width;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = in->u8 + 3 * i;
        out[i] = (uint8_t)((p[0] * 19595U + p[1] * 38470U + p[2] * 7471U +
                            0x8000U) >>
                           16);
    }
}

static int64_t at_least(int64_t x, int64_t low)
{
    return x < low ? low : x;
}

static int64_t at_most(int64_t x, int64_t high)
{
    return x > high ? high : x;
}

// Where the square overlaps what the image became.
static source overlap(const tt_transform *t, const tt_crop *w)
{
    source s = {.top = at_least(-w->y, 0), .left = at_least(-w->x, 0)};
    s.rows = at_most(w->to_height - w->y, t->image) - s.top;
    s.cols = at_most(w->to_width - w->x, t->image) - s.left;
    return s;
}

// Finds or makes the bytes of the window.
static tt_status take_bytes(const tt_transform *t, const tt_image *in,
                            const tt_crop *w, tt_image *scratch, source *s)
{
    const bool is_luma = in->channels == 3 && t->channels == 1;
    const bool is_resized =
        w->to_height != w->height || w->to_width != w->width;
    const int64_t channels = is_luma ? 1 : in->channels;
    tt_resize r = {
        .stride = in->width * channels,
        .channels = channels,
        .height = w->height,
        .width = w->width,
        .to_height = w->to_height,
        .to_width = w->to_width,
        .top = w->y + s->top,
        .left = w->x + s->left,
        .rows = s->rows,
        .cols = s->cols,
    };
    const int64_t luma = is_luma ? in->height * in->width : 0;
    const int64_t passes = is_resized ? tt_resize_bytes(&r) : 0;
    const int64_t result = is_resized ? r.rows * r.cols * channels : 0;
    if (passes + result + luma > 0)
        TT_TRY(tt_image_reserve(scratch, 1, 1, passes + result + luma, false));

    const uint8_t *pixels = in->u8;
    if (is_luma) {
        to_luma(in, scratch->u8 + passes + result);
        pixels = scratch->u8 + passes + result;
    }
    r.pixels = pixels + w->top * r.stride + w->left * channels;
    s->step = channels;
    s->plane = 1;
    if (is_resized) {
        tt_resize_run(&r, scratch->u8, scratch->u8 + passes);
        s->u8 = scratch->u8 + passes;
        s->stride = r.cols * channels;
    } else {
        s->u8 = r.pixels + r.top * r.stride + r.left * channels;
        s->stride = r.stride;
    }
    return TT_OK;
}

static void fill(float *to, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

static void reverse(float *row, int64_t n)
{
    for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
        const float swap = row[i];
        row[i] = row[j];
        row[j] = swap;
    }
}

// The order of operations is that of ToTensor and Normalize, so values agree.
static float normal(uint8_t byte, float mean, float std)
{
    return ((float)byte / 255.0F - mean) / std;
}

// `value` is the table of all bytes, or NULL.
static void write_row(const source *s, int64_t from, const float *value,
                      float mean, float std, float *row)
{
    for (int64_t x = 0; !s->is_float && x < s->cols; x++) {
        const uint8_t byte = s->u8[from + x * s->step];
        row[x] = value != NULL ? value[byte] : normal(byte, mean, std);
    }
    for (int64_t x = 0; s->is_float && x < s->cols; x++)
        row[x] = (s->f32[from + x * s->step] - mean) / std;
}

static void write_plane(const source *s, int64_t channel, int64_t side,
                        const float by[2], float *out)
{
    const float mean = by[0], std = by[1];
    const float black = (0 - mean) / std;
    float value[256];
    const bool has_table = s->rows * s->cols >= 256; // else it does not pay
    for (int i = 0; has_table && i < 256; i++)
        value[i] = normal((uint8_t)i, mean, std);
    fill(out, s->top * side, black);
    for (int64_t y = 0; y < s->rows; y++) {
        float *row = out + (s->top + y) * side;
        fill(row, s->left, black);
        write_row(s, channel * s->plane + y * s->stride,
                  has_table ? value : NULL, mean, std, row + s->left);
        fill(row + s->left + s->cols, side - s->left - s->cols, black);
    }
    const int64_t done = s->top + s->rows;
    fill(out + done * side, (side - done) * side, black);
}

tt_status tt_transform_apply(const tt_transform *t, const tt_image *in,
                             uint64_t key, tt_image *scratch, float *out)
{
    TT_TRY(tt_transform_check(t));
    TT_TRY(check_input(t, in));
    tt_crop w = {0};
    TT_TRY(tt_crop_choose(t, in->height, in->width, key, &w));
    source s = overlap(t, &w);
    if (in->is_float) {
        s.is_float = true;
        s.f32 = in->f32 + (w.y + s.top) * in->width + w.x + s.left;
        s.stride = in->width;
        s.step = 1;
        s.plane = in->height * in->width;
    } else {
        TT_TRY(take_bytes(t, in, &w, scratch, &s));
    }
    for (int64_t c = 0; c < t->channels; c++) {
        float *to = out + c * t->image * t->image;
        const float by[] = {(float)at(&t->mean, c, 0),
                            (float)at(&t->std, c, 1)};
        write_plane(&s, in->channels == t->channels ? c : 0, t->image, by, to);
        for (int64_t y = 0; w.is_flipped && y < t->image; y++)
            reverse(to + y * t->image, t->image);
    }
    return TT_OK;
}

const tt_opt tt_transform_options[] = {
    {"pad", "0", "pad images by this much, then crop at random", TT_OPT_I64,
     offsetof(tt_transform, pad), NULL, 0, 4096},
    {"flip", "false", "mirror half of the images, left and right", TT_OPT_BOOL,
     offsetof(tt_transform, flip)},
    {"resize", "none",
     "to the model's size: by the shorter side, or RandomResizedCrop",
     TT_OPT_CHOICE, offsetof(tt_transform, resize), "none|fit|random"},
    {"resize_to", "0", "shorter side before the crop; 0: 256/224 of the image",
     TT_OPT_I64, offsetof(tt_transform, resize_to), NULL, 0, 65536},
    {"mean", NULL, "subtracted from values in [0, 1]; one, or one per channel",
     TT_OPT_F64S, offsetof(tt_transform, mean), NULL, -1e6, 1e6},
    {"std", NULL, "values are divided by it; one, or one per channel",
     TT_OPT_F64S, offsetof(tt_transform, std), NULL, 1e-6, 1e6},
    {"scale", "0.08,1", "least and greatest part of the area, of resize=random",
     TT_OPT_F64S, offsetof(tt_transform, scale), NULL, 1e-6, 1},
    {"ratio", "0.75,1.3333333333333333",
     "least and greatest width / height, of resize=random", TT_OPT_F64S,
     offsetof(tt_transform, ratio), NULL, 1e-3, 1e3},
    {0},
};
