// ema - a moving average of a weight: average += (1 - decay) * (w - average), which
// leaves an average that equals its weight exactly as it is. Nothing changes when
// skip is not 0.
//
//   flops   3 per element

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "ops/shard_common.h"

enum { AVERAGE, W, SKIP };

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "ema", 3, 3));
    TT_TRY(tt_infer_float(io, "ema", AVERAGE));
    TT_TRY(tt_infer_float(io, "ema", W));
    TT_TRY(tt_infer_same_dims(io, "ema", AVERAGE, W));
    TT_TRY(tt_infer_scalar(io, "ema", SKIP, TT_U8));
    tt_infer_add(io, io->in[AVERAGE].dtype, &io->in[AVERAGE].shape);
    return TT_OK;
}

static const tt_opt options[] = {
    {"decay", "0.999", "how much of the average stays", TT_OPT_F64,
     .offset = offsetof(tt_ema_params, decay), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"", {"m a:3 b:5", "m a:3 b:5", "u=0"}, 15 * 3},
    {"decay=0.25", {"m a:7.c:2", "m a:7.c:2", "u=0"}, 14 * 3},
    {"decay=0.5", {"m a:3 b:5", "m a:3 b:5", "u=1"}, 15 * 3},
    {0},
};

const tt_op_def tt_op_ema = {
    .name = "ema",
    .doc = "A step of a moving average of a weight.",
    .options = options,
    .params_bytes = sizeof(tt_ema_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 3,
    .samples = samples,
};
