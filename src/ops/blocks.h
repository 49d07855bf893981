// blocks - see blocks.c. Placements of the results are the caller's business.

#ifndef TT_OPS_BLOCKS_H
#define TT_OPS_BLOCKS_H

#include "graph/build.h"
#include "graph/site.h"

tt_val tt_block_make(tt_builder *b, tt_val x);
tt_val tt_unblock(tt_builder *b, const tt_val *x, int n);

// Where a part of a plain operand lies in it: strides per dim, and the offset of its
// first element. False: no strides express it.
bool tt_block_inside(const tt_operand *whole, const tt_local *part,
                     int64_t *stride_out, int64_t *offset_out);

#endif
