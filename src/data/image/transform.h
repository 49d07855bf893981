// transform - from a decoded image to the numbers a model sees: crop, flip,
// resize, normalise. Random choices are a function of the key alone.
//
//   resize    in training                          in validation
//   none      pad; window at random                window in the middle
//   fit       shorter side to resize_to; pad;      shorter side to resize_to;
//             window at random                     window in the middle
//   random    a part of random size and shape,     as fit
//             resized (RandomResizedCrop)
//
// With none and no padding the image must have the model's size. What lies outside
// of the image is black. Bytes become value / 255, then (x - mean) / std. Images
// of floats are not divided by 255 and cannot be resized. One channel is repeated
// for a model that has more; three become one by ITU-R 601 luma, before resizing.

#ifndef TT_DATA_IMAGE_TRANSFORM_H
#define TT_DATA_IMAGE_TRANSFORM_H

#include "base/settings/opt.h"
#include "data/source/source.h"

#include <stdint.h>

enum { TT_RESIZE_NONE, TT_RESIZE_FIT, TT_RESIZE_RANDOM };

// data.*: the table is in transform.c.
typedef struct tt_transform {
    int64_t pad;             // random crop after padding by this much; 0: none
    bool flip;               // left and right, half of the time
    int resize;              // TT_RESIZE_...
    int64_t resize_to;       // shorter side before the crop; 0: image * 256/224
    tt_f64s mean, std;       // none: 0 and 1; one for all channels, or one each
    tt_f64s scale, ratio;    // of random: part of the area, width / height
    int64_t channels, image; // what the model wants; filled in by the caller
    bool is_train;           // else no random choices
} tt_transform;
extern const tt_opt tt_transform_options[];

// Whether the options go together, once channels and image are filled in.
tt_status tt_transform_check(const tt_transform *t);

// Writes channels x image x image floats. `scratch` grows as needed and is kept
// by the caller for the next call.
tt_status tt_transform_apply(const tt_transform *t, const tt_image *in,
                             uint64_t key, tt_image *scratch, float *out);

#endif
