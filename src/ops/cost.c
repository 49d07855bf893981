// cost - helpers for cost functions.

#include "ops/cost.h"

#include <math.h>

double tt_cost_count(const tt_type *type)
{
    return (double)tt_shape_count(&type->shape);
}

double tt_cost_bytes(const tt_type *type)
{
    if (type->dtype == TT_N_DTYPES)
        return 0;
    return tt_cost_count(type) * (double)tt_dtype_bytes(type->dtype);
}

double tt_cost_log2(double n)
{
    return n <= 2 ? 1 : ceil(log2(n));
}

void tt_cost_io(const tt_op_io *io, uint32_t shape_only, tt_cost *cost)
{
    for (int i = 0; i < io->n_in; i++) {
        const bool is_read = i >= 32 || ((shape_only >> i) & 1) == 0;
        if (is_read)
            cost->bytes += tt_cost_bytes(&io->in[i]);
    }
    for (int i = 0; i < io->n_out; i++)
        cost->bytes += tt_cost_bytes(&io->out[i]);
}

void tt_cost_elementwise(const tt_op_io *io, uint32_t shape_only,
                         double per_element, tt_cost *cost)
{
    tt_cost_io(io, shape_only, cost);
    cost->flops = per_element * tt_cost_count(&io->out[0]);
    cost->work = cost->flops;
    cost->depth = 1;
}

void tt_cost_each(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_elementwise(io, io->op->shape_only, io->op->flops_each, cost);
}

void tt_cost_move(const tt_op_io *io, uint32_t shape_only, tt_cost *cost)
{
    tt_cost_io(io, shape_only, cost);
    for (int i = 0; i < io->n_out; i++)
        cost->work += tt_cost_count(&io->out[i]);
    cost->depth = 1;
}

void tt_cost_moved(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_move(io, io->op->shape_only, cost);
}

void tt_cost_reduction(const tt_op_io *io, uint32_t shape_only, double flops,
                       double length, tt_cost *cost)
{
    tt_cost_io(io, shape_only, cost);
    cost->flops = flops;
    cost->work = flops;
    cost->depth = tt_cost_log2(length);
}
