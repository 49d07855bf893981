// transform_crop - which part of an image the model sees. Internal to
// transform.

#ifndef TT_DATA_IMAGE_TRANSFORM_CROP_H
#define TT_DATA_IMAGE_TRANSFORM_CROP_H

#include "data/image/transform.h"

typedef struct tt_crop {
    int64_t top, left, height, width; // the part of the image that is taken,
    int64_t to_height, to_width;      // then resized to this,
    int64_t y, x;    // of which the model sees a square from here on, which may
                     // reach outside,
    bool is_flipped; // left and right
} tt_crop;

// Of an image of this size; fails when it does not suit the model.
tt_status tt_crop_choose(const tt_transform *t, int64_t height, int64_t width,
                         uint64_t key, tt_crop *crop_out);

#endif
