// move - a strided copy, or a sum, between two places of one memory. The wire packs
// what it sends with these.

#ifndef TT_BACKEND_MOVE_H
#define TT_BACKEND_MOVE_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_MOVE_DIMS = 8 };

// to[i] = from[i], or += it, for all i of an index space; strides in elements.
typedef struct tt_move {
    int ndim;
    int64_t dim[TT_MOVE_DIMS];
    int64_t to_stride[TT_MOVE_DIMS], from_stride[TT_MOVE_DIMS];
    tt_dtype dtype;
    bool adds;
    void *to;
    const void *from;
} tt_move;

#endif
