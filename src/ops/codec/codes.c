// codes - what the operators of codecs in blocks share (codes.h).

#include "ops/codec/codes.h"

#include "ops/cost.h"

#include <math.h>

int64_t tt__code_body(const tt_packet_form *form, const void *params, int64_t n,
                      tt_dtype dtype)
{
    (void)dtype;
    return 4 * tt_code_blocks(params, n) * form->scales +
           tt_code_digits_bytes(params, form->per_byte, n);
}

void tt__code_cost(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, io->op->flops_each * n, fmin(n, (double)p->block),
                      cost);
}

const tt_sample tt__code_sum_samples[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};
