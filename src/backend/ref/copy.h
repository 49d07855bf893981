// copy - moves elements between operands with any strides.

#ifndef TT_BACKEND_REF_COPY_H
#define TT_BACKEND_REF_COPY_H

#include "graph/site.h"

// One side of a copy: the first element, and strides in elements per factor.
typedef struct tt__strided {
    char *base;
    int64_t stride[TT_MAX_FACTORS];
} tt__strided;

// The factors of a plain operand that lies at `base`.
tt__strided tt__strided_of(const tt_operand *operand, const void *base);

// The same without factor f, at its entry i.
tt__strided tt__strided_select(const tt__strided *whole, int f, int64_t i,
                               int64_t bytes);

// Copies elements of `bytes` bytes, for every index of the shape's factors. The
// context is the caller's; this folder needs none.
typedef void tt__copy_fn(void *ctx, const tt_shape *shape, int64_t bytes,
                         const tt__strided *to, const tt__strided *from);
tt__copy_fn tt__copy;

#endif
