// clip - the factor by which the optimiser multiplies summed gradients.
//
//   norm  = sqrt(sumsq) / count
//   scale = min(1, max_norm / (norm + 1e-6)) / count
//
// Without sumsq, or with max_norm = 0, scale is 1 / count; without sumsq there is
// no norm. A count of 0 (every label ignored) gives scale 0 and norm 0.
//
//   flops   6, without sumsq 1

#include "ops/optim/clip.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

static tt_status infer(tt_op_io *io)
{
    if (io->n_in != 2 || !tt_io_has(io, 1))
        return tt_fail(TT_ERR_ARG, "clip: takes sumsq (or none) and count");
    TT_TRY(tt_infer_float_scalar(io, "clip", 1));
    const tt_dtype dtype = tt_dtype_master(io->in[1].dtype);
    tt_infer_add(io, dtype, &io->in[1].shape);
    if (!tt_io_has(io, 0))
        return TT_OK;
    TT_TRY(tt_infer_float_scalar(io, "clip", 0));
    tt_infer_add(io, dtype, &io->in[0].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, tt_io_has(io, 0) ? 6 : 1, cost_out);
}

tt_val tt_clip(tt_builder *b, tt_val sumsq, tt_val count, double max_norm,
               tt_val *norm_out)
{
    tt_val out[TT_MAX_OUT];
    const tt_clip_params params = {.max_norm = max_norm};
    tt_call(b, &tt_op_clip, &params, (tt_val[]){sumsq, count}, 2, out);
    *norm_out = out[1];
    return out[0];
}

static const tt_opt options[] = {
    {"max_norm", "0", "the largest norm; 0: no limit", TT_OPT_F64,
     .offset = offsetof(tt_clip_params, max_norm), .min = 0, .max = -1},
    {0},
};

static const tt_sample samples[] = {
    {"max_norm=0.5", {"=9", "=2"}, 6},
    {"max_norm=2", {"=9", "=2"}, 6},
    {"", {"=9", "=2"}, 6},
    {"max_norm=1", {"=9", "=0"}, 6},
    {"", {"-", "=4"}, 1},
    {0},
};

const tt_op_def tt_op_clip = {
    .name = "clip",
    .doc = "The norm of gradients and the factor that limits it.",
    .options = options,
    .params_bytes = sizeof(tt_clip_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};
