// dnnl_wide - bf16 tensors for processors on which oneDNN has no bf16.
//
// The library is given floats. A product then takes operands that were rounded to bf16,
// sums in fp32 and rounds its result once. That is what bf16 instructions do as well,
// so only the order of the sums differs between processors. The cost is the time of an
// fp32 product and two more passes over the operands.

#ifndef TT_BACKEND_CPU_DNNL_DNNL_WIDE_H
#define TT_BACKEND_CPU_DNNL_DNNL_WIDE_H

#include "backend/cpu/dnnl/dnnl.h"

// Whether tensors of this type are handed to the library as floats.
bool tt__is_widened(tt_dtype dtype);

// How a tensor lies as bf16 and as floats without gaps.
typedef struct tt__wide {
    int64_t count; // of elements, with a layout's padding; 0: it is not widened
    int ndim;      // 0: both are one run
    int64_t dims[TT__MAX_NDIM]; // the last has the smallest stride
    int64_t stride[TT__MAX_NDIM];
} tt__wide;

// Of a tensor of `count` elements in one run.
tt__wide tt__wide_flat(int64_t count);
// Of a tensor with strides; *floats_out is the tensor that the library gets: the same
// extents and order of dimensions, without gaps.
tt__wide tt__wide_strided(const tt__dnnl_tensor *t,
                          tt__dnnl_tensor *floats_out);

int64_t
tt__wide_bytes(const tt__wide *w); // of the floats, in whole cache lines
void tt__wide_read(const tt__wide *w, const void *bf16, float *floats);
void tt__wide_write(const tt__wide *w, const float *floats, void *bf16);

#endif
