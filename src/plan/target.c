// target - sizes of operands on a machine.

#include "plan/target.h"

int64_t tt_target_bytes(tt_target *target, const tt_operand *o)
{
    if (o->dtype == TT_N_DTYPES)
        return 0;
    if (o->layout != 0)
        return target->layout_bytes(target, o->layout);
    int64_t last = 0;
    for (int d = 0; d < o->local.shape.ndim; d++) {
        const int64_t n = tt_operand_dim(o, d);
        if (n == 0)
            return 0;
        last += (n - 1) * o->stride[d];
    }
    return (last + 1) * tt_dtype_bytes(o->dtype);
}
