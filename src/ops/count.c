// count - a counter of whole numbers, moved on by one: how many batches a norm
// has seen.
//
//   flops   none: one integer addition

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "count", 1, 1));
    TT_TRY(tt_infer_scalar(io, "count", 0, TT_I64));
    tt_infer_add(io, TT_I64, &io->in[0].shape);
    return TT_OK;
}

static const tt_sample samples[] = {
    {"", {"I=41"}, 0},
    {0},
};

const tt_op_def tt_op_count = {
    .name = "count",
    .doc = "A counter, one further.",
    .flags = TT_OP_INPLACE,
    .infer = infer,
    .cost = tt_cost_moved,
    .samples = samples,
};
