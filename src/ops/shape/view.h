// view - strides of parts: what the `view` functions of operators are made of.

#ifndef TT_OPS_SHAPE_VIEW_H
#define TT_OPS_SHAPE_VIEW_H

#include "graph/site.h"

// Strides in elements per factor of a plain operand.
void tt_view_split_dims(const tt_operand *whole,
                        int64_t stride_out[TT_MAX_FACTORS]);

// The inverse: strides per dim of `shape` from those of its factors. False when
// the factors of a dim do not follow each other evenly.
bool tt_view_merge_dims(const tt_shape *shape, const int64_t *factor_stride,
                        int64_t stride_out[TT_MAX_DIMS]);

// Part `i` along factor `f` of `whole`: `part` has the other factors, in their
// order.
bool tt_view_select(const tt_operand *whole, int f, int64_t i,
                    const tt_shape *part, int64_t *stride_out,
                    int64_t *offset_out);

// The block of `whole` that `part` is, by the origins of both.
bool tt_view_block(const tt_operand *whole, const tt_local *part,
                   int64_t *stride_out, int64_t *offset_out);

#endif
