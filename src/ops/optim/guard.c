// guard - whether an update must be left out: 1 when it was asked for, when the mean
// loss or the norm of the gradient is not finite, or when the mean loss is above
// the limit. A count of 0 (every label ignored) has a mean of 0.
//
//   flops   1

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "guard", TT_GUARD_N, TT_GUARD_N));
    TT_TRY(tt_infer_scalar(io, "guard", TT_GUARD_SKIP, TT_U8));
    for (int i = TT_GUARD_NORM; i < TT_GUARD_N; i++)
        TT_TRY(tt_infer_float_scalar(io, "guard", i));
    tt_infer_add(io, TT_U8, &io->in[TT_GUARD_SKIP].shape);
    return TT_OK;
}

tt_val tt_guard(tt_builder *b, const tt_val in[TT_GUARD_N])
{
    return tt_call(b, &tt_op_guard, NULL, in, TT_GUARD_N, NULL);
}

static const tt_sample samples[] = {
    {"", {"u=0", "m=2", "m=6", "m=2", "m=4"}, 1},
    {"", {"u=0", "m=2", "m=6", "m=2", "m=2.5"}, 1},
    {"", {"u=1", "m=2", "m=6", "m=2", "m=4"}, 1},
    {"", {"u=0", "m=2", "m=6", "m=0", "m=4"}, 1},
    {0},
};

const tt_op_def tt_op_guard = {
    .name = "guard",
    .doc = "Whether an update must be left out.",
    .infer = infer,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};
