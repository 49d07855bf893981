// resize - bilinear with antialiasing, on bytes, bit for bit as Pillow does it:
// a triangle that widens with the reduction, weights in fixed point, rows first,
// rounded to bytes between the two passes. (Pillow 13 takes columns first where the
// height shrinks more than the width; results then differ by one at most.)

#ifndef TT_DATA_IMAGE_RESIZE_H
#define TT_DATA_IMAGE_RESIZE_H

#include <stdint.h>

typedef struct tt_resize {
    const uint8_t *pixels; // rows of pixels, channels innermost
    int64_t stride;        // bytes from row to row
    int64_t channels, height, width;
    int64_t to_height, to_width;   // of the whole result
    int64_t top, left, rows, cols; // the part of it that is wanted
} tt_resize;

// Bytes of scratch that tt_resize_run needs, a multiple of 16.
int64_t tt_resize_bytes(const tt_resize *r);

// Writes rows x cols pixels. `scratch` is aligned to 8 bytes.
void tt_resize_run(const tt_resize *r, void *scratch, uint8_t *out);

#endif
