// move - operators that move, view or convert elements without arithmetic.

#ifndef TT_OPS_MOVE_H
#define TT_OPS_MOVE_H

#include "graph/build.h"

typedef struct tt_cast_params {
    int to; // tt_dtype
} tt_cast_params;

// x itself when it has this dtype already.
tt_val tt_cast(tt_builder *b, tt_val x, tt_dtype to);

#endif
