// transform_crop - the geometry of augmentation, as torchvision's RandomCrop,
// RandomResizedCrop, Resize and CenterCrop have it; the random numbers are ours.
//
// Each decision draws from a fixed index of the key's stream (DRAW_*). So adding a
// decision does not change the others, and the flip of a sample does not depend on how
// many tries its crop took.

#include "data/image/transform_crop.h"

#include "base/rng.h"

#include <math.h>

enum { // what is drawn at which index of the key's stream
    DRAW_FLIP,
    DRAW_Y,
    DRAW_X,
    DRAW_TRIES,
    TRIES = 10,
};

// A whole number in [0, n).
static int64_t draw_below(uint64_t key, uint64_t index, int64_t n)
{
    return (int64_t)(((uint64_t)tt_rng_u32(key, index) * (uint64_t)n) >> 32);
}

static double draw_between(uint64_t key, uint64_t index, double low,
                           double high)
{
    return low + (high - low) * tt_rng_uniform(key, index);
}

static int64_t clamp(double x, int64_t low, int64_t high)
{
    return x < (double)low ? low : x > (double)high ? high : (int64_t)x;
}

// The square that the model sees in what the image became.
static tt_status place(const tt_transform *t, uint64_t key, tt_crop *w)
{
    const int64_t pad = t->pad;
    const int64_t spare_y = w->to_height + 2 * pad - t->image;
    const int64_t spare_x = w->to_width + 2 * pad - t->image;
    if (spare_y < 0 || spare_x < 0 ||
        (t->resize == TT_RESIZE_NONE && pad == 0 && spare_y + spare_x > 0))
        return tt_fail(TT_ERR_ARG,
                       "the image has %lld x %lld pixels and the model wants "
                       "%lld x %lld; set data.resize to fit or random",
                       (long long)w->width, (long long)w->height,
                       (long long)t->image, (long long)t->image);
    if (t->is_train) {
        w->y = draw_below(key, DRAW_Y, spare_y + 1) - pad;
        w->x = draw_below(key, DRAW_X, spare_x + 1) - pad;
    } else { // the padding is alike on both sides
        w->y = (int64_t)rint((double)(w->to_height - t->image) / 2);
        w->x = (int64_t)rint((double)(w->to_width - t->image) / 2);
    }
    return TT_OK;
}

static void fit(const tt_transform *t, tt_crop *w)
{
    const int64_t side =
        t->resize_to > 0 ? t->resize_to : (t->image * 256 + 112) / 224;
    const bool is_upright = w->height > w->width;
    const int64_t less = is_upright ? w->width : w->height;
    const int64_t more = is_upright ? w->height : w->width;
    const int64_t other = (int64_t)((double)side * (double)more / (double)less);
    w->to_height = is_upright ? other : side;
    w->to_width = is_upright ? side : other;
}

// What is left when no try fits: the middle, as little beyond the ratios as the
// image allows.
static void take_middle(const tt_transform *t, int64_t height, int64_t width,
                        tt_crop *w)
{
    const double shape = (double)width / (double)height;
    w->height = height;
    w->width = width;
    if (shape < t->ratio.v[0])
        w->height = clamp(rint((double)width / t->ratio.v[0]), 1, height);
    else if (shape > t->ratio.v[1])
        w->width = clamp(rint((double)height * t->ratio.v[1]), 1, width);
    w->top = (height - w->height) / 2;
    w->left = (width - w->width) / 2;
}

// RandomResizedCrop: a random part of the area with a random shape, up to ten tries.
// The ratio is drawn on a logarithmic scale, so that 3:4 and 4:3 are equally likely.
static void take_random(const tt_transform *t, uint64_t key, tt_crop *w)
{
    const int64_t height = w->height, width = w->width;
    const double area = (double)height * (double)width;
    w->to_height = w->to_width = t->image;
    for (uint64_t i = DRAW_TRIES; i < DRAW_TRIES + 2 * TRIES; i += 2) {
        const double part =
            area * draw_between(key, i, t->scale.v[0], t->scale.v[1]);
        const double shape = exp(
            draw_between(key, i + 1, log(t->ratio.v[0]), log(t->ratio.v[1])));
        const double across = rint(sqrt(part * shape));
        const double down = rint(sqrt(part / shape));
        if (across < 1 || across > (double)width || down < 1 ||
            down > (double)height)
            continue;
        w->width = (int64_t)across;
        w->height = (int64_t)down;
        w->top = draw_below(key, DRAW_Y, height - w->height + 1);
        w->left = draw_below(key, DRAW_X, width - w->width + 1);
        return;
    }
    take_middle(t, height, width, w);
}

tt_status tt_crop_choose(const tt_transform *t, int64_t height, int64_t width,
                         uint64_t key, tt_crop *crop_out)
{
    tt_crop w = {.height = height,
                 .width = width,
                 .to_height = height,
                 .to_width = width};
    if (t->resize == TT_RESIZE_RANDOM && t->is_train) {
        take_random(t, key, &w);
    } else {
        if (t->resize != TT_RESIZE_NONE)
            fit(t, &w);
        TT_TRY(place(t, key, &w));
    }
    w.is_flipped = t->flip && t->is_train && draw_below(key, DRAW_FLIP, 2) == 1;
    *crop_out = w;
    return TT_OK;
}
