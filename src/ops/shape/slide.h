// slide - windows that slide over spatial dimensions: what convolution and
// pooling share.
//
// Tensors are [batch, channels, space...] with one to three spatial dimensions. Along
// each of them, output o reads the inputs o * stride - pad + k * dilation for k below
// kernel. What lies outside of the tensor is padding.
//
// On one rank the same holds for local indices. A split tensor comes with its halo, and
// the local pad follows from the origins of both parts: at a seam it is 0, at the edge
// of the image it is the real one. So kernels need not know about ranks.

#ifndef TT_OPS_SHAPE_SLIDE_H
#define TT_OPS_SHAPE_SLIDE_H

#include "base/settings/opt.h"
#include "graph/op.h"
#include "graph/place.h"

enum { TT_MAX_SPATIAL = 3 };

// Lists with an entry per spatial dimension, or one entry for all, or none: then
// stride is the kernel (pooling), pad 0, dilation 1.
typedef struct tt_slide_params {
    tt_i64s kernel; // pooling; a convolution's is in its weights
    tt_i64s stride, pad, dilation;
} tt_slide_params;

// One dimension, on local extents.
typedef struct tt_slide {
    int64_t in, out; // local extents
    int64_t kernel, stride, dilation;
    int64_t pad;              // local: before the first local input
    int64_t origin, whole_in; // of the input: global index of local 0; extent
} tt_slide;

// The input that output o reads at k, as a local index; may be outside [0, in).
static inline int64_t tt_slide_at(const tt_slide *s, int64_t o, int64_t k)
{
    return o * s->stride - s->pad + k * s->dilation;
}

// Always three dimensions: missing ones are the first, of extent 1. `kernel`
// has an extent per spatial dimension.
void tt_slide_of(const tt_slide_params *p, const int64_t *kernel,
                 const tt_local *x, const tt_local *y,
                 tt_slide slide_out[TT_MAX_SPATIAL]);

// Entry i of a list as described above.
int64_t tt_slide_entry(const tt_i64s *list, int i, int64_t fallback);

// For infer: checks x and the lists, and appends the output's spatial dims to
// `y`, which has batch and channels already.
tt_status tt_slide_infer(const char *op, const tt_slide_params *p,
                         const int64_t *kernel, const tt_shape *x, tt_shape *y);

// The kernel's extents as params give them, along n dimensions.
tt_status tt_slide_kernel(const char *op, const tt_slide_params *p, int n,
                          int64_t kernel_out[TT_MAX_SPATIAL]);

// For infer: x is [batch, channels, space...].
tt_status tt_slide_check_image(const char *op, const tt_shape *x);

// For shard: whether spatial dimension i can be split, as y is, over `axis_size`
// ranks, and where x (with its halo) and y are then.
typedef struct tt_slide_split {
    int dim; // spatial dimension
    int axis_size;
} tt_slide_split;
bool tt_slide_place(const tt_slide_params *p, const int64_t *kernel,
                    const tt_type *x, const tt_type *y, tt_slide_split split,
                    tt_place place_out[2]);

#endif
