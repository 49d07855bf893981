// conv - convolution in one to three dimensions.

#ifndef TT_OPS_NN_CONV_H
#define TT_OPS_NN_CONV_H

#include "graph/build.h"
#include "ops/shape/slide.h"

// What the user prefers; where it does not apply, or the backend has it not, the
// backend chooses. The result is the same up to rounding.
typedef enum tt_conv_algorithm {
    TT_CONV_AUTO,
    TT_CONV_DIRECT,
    TT_CONV_IM2COL,
    TT_CONV_WINOGRAD,
    TT_CONV_FFT,
} tt_conv_algorithm;

// Of conv, conv_grad_x and conv_grad_w.
typedef struct tt_conv_params {
    tt_slide_params slide; // kernel is empty: the weights have it
    int64_t groups;
    int algorithm; // tt_conv_algorithm
    bool wide;     // of conv: y is f32 where x and w are of 16 bits
} tt_conv_params;

// A convolution on one rank: x [n, groups * c, in...], w [groups * o, c,
// kernel...], y [n, groups * o, out...]. Groups are local: a rank may hold some.
typedef struct tt_conv_geometry {
    int64_t n, groups, c, o;
    tt_slide slide[TT_MAX_SPATIAL];
} tt_conv_geometry;

tt_conv_geometry tt_conv_geometry_of(const tt_conv_params *p, const tt_local *x,
                                     const tt_local *w, const tt_local *y);

#endif
