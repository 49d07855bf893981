// copy - moves elements between strided arrays of one shape, fast.

#ifndef TT_BACKEND_CPU_COPY_H
#define TT_BACKEND_CPU_COPY_H

#include "backend/ref/copy.h"

enum { TT__BLOCK_DIMS = TT_MAX_FACTORS };

// Extents, and strides in elements on either side. A stride of 0 in `from`
// repeats an element.
typedef struct tt__strided_block {
    int n;
    int64_t dims[TT__BLOCK_DIMS], from[TT__BLOCK_DIMS], to[TT__BLOCK_DIMS];
} tt__strided_block;

// Elements of 2 and 4 bytes.
bool tt__can_copy(tt_dtype dtype);

// The sides do not overlap.
void tt__copy_block(const tt__strided_block *block, int64_t bytes,
                    const void *from, void *to);

// As tt__copy.
tt__copy_fn tt__copy_fast;

#endif
