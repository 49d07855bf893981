// loss_scale - the factor on the loss of training in f16 (dynamic loss scaling). It
// keeps small gradients above the smallest f16 number; the optimiser divides by it. It
// is halved when the gradient's norm is not finite though the loss is, and doubled
// after `growth` steps without that.
//
//   (scale, good, loss, norm) -> (scale, good), `good`: steps since it last changed
//
// A loss that is not finite says nothing about gradients and changes nothing.
//
//   flops   1

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/scaling.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "loss_scale", TT_LS_N, TT_LS_N));
    for (int i = 0; i < TT_LS_N; i++)
        TT_TRY(tt_infer_float_scalar(io, "loss_scale", i));
    tt_infer_add(io, io->in[TT_LS_SCALE].dtype, &io->in[TT_LS_SCALE].shape);
    tt_infer_add(io, io->in[TT_LS_GOOD].dtype, &io->in[TT_LS_GOOD].shape);
    return TT_OK;
}

tt_val tt_loss_scale(tt_builder *b, const tt_loss_scale_params *params,
                     const tt_val in[TT_LS_N])
{
    tt_val out[TT_MAX_OUT];
    tt_call(b, &tt_op_loss_scale, params, in, TT_LS_N, out);
    tt_update(b, in[TT_LS_SCALE], out[0]);
    tt_update(b, in[TT_LS_GOOD], out[1]);
    return out[0];
}

static const tt_opt options[] = {
    {"growth", "1000", "good steps before it is doubled; 0: never", TT_OPT_I64,
     .offset = offsetof(tt_loss_scale_params, growth), .min = 0, .max = 1e6},
    {0},
};

// The third norm is the infinity that f32 makes of it.
static const tt_sample samples[] = {
    {"growth=3", {"m=1024", "m=1", "m=6", "m=2"}, 1},
    {"growth=3", {"m=1024", "m=2", "m=6", "m=2"}, 1},
    {"growth=3", {"m=1024", "m=2", "m=6", "m=1e999"}, 1},
    {"growth=3", {"m=1024", "m=2", "m=1e999", "m=1e999"}, 1},
    {"growth=0", {"m=1024", "m=2", "m=6", "m=2"}, 1},
    {"growth=1", {"m=16777216", "m=0", "m=6", "m=2"}, 1},
    {0},
};

const tt_op_def tt_op_loss_scale = {
    .name = "loss_scale",
    .doc = "The factor on the loss that keeps gradients in the range of f16.",
    .options = options,
    .params_bytes = sizeof(tt_loss_scale_params),
    .infer = infer,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};
