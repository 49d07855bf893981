// site - forms of operands.

#include "graph/site.h"

bool tt_operand_is_dense(const tt_operand *o)
{
    if (o->layout != 0)
        return false;
    int64_t stride[TT_MAX_DIMS];
    tt_shape_strides(&o->local.shape, stride);
    for (int d = 0; d < o->local.shape.ndim; d++)
        if (o->stride[d] != stride[d] && tt_operand_dim(o, d) != 1)
            return false;
    return true;
}

void tt_operand_set_dense(tt_operand *o)
{
    o->layout = 0;
    tt_shape_strides(&o->local.shape, o->stride);
}

bool tt_operand_same_form(const tt_operand *a, const tt_operand *b)
{
    if (a->layout != b->layout || a->dtype != b->dtype)
        return false;
    if (a->layout != 0)
        return true;
    for (int d = 0; d < a->local.shape.ndim; d++)
        if (a->stride[d] != b->stride[d] && tt_operand_dim(a, d) != 1)
            return false;
    return true;
}
