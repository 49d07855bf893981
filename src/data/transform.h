// transform - from a decoded image to the numbers a model sees: crop, flip,
// resize, normalise. Random choices are a function of the key alone.

#ifndef TT_DATA_TRANSFORM_H
#define TT_DATA_TRANSFORM_H

#include "base/opt.h"
#include "data/source.h"

#include <stdint.h>

enum { TT_MAX_CHANNELS = 16 };

// data.*: the table is in transform.c.
typedef struct tt_transform {
    int64_t pad;    // random crop after padding by this much; 0: none
    bool flip;      // left and right, half of the time
    int resize;     // choice: none, fit, random (RandomResizedCrop), ...
    int64_t resize_to; // shorter side before the centre crop; 0: image * 256/224
    tt_f64s mean, std, scale, ratio;
    int64_t channels, image; // what the model wants; filled in by the caller
    bool is_train;           // else no random choices: resize and centre crop
} tt_transform;
extern const tt_opt tt_transform_options[];

// Writes channels x image x image floats. `scratch` grows as needed and is kept
// by the caller for the next call.
tt_status tt_transform_apply(const tt_transform *t, const tt_image *in,
                             uint64_t key, tt_image *scratch, float *out);

#endif
