// norm_grad - all gradients of layer norm, or of RMS norm (mean absent), in one pass.
// It also adds the other gradient that flows into x, the residual's (`plus`).
//
//   dx = plus + rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * gamma
//   dgamma = sum over rows of dy * xhat,  dbeta = sum over rows of dy
//   dsum   = sum over rows of dx: the gradient of a bias in front of x
//
//   flops   14 per element, 1 more with each of dbeta, plus and dsum

#include "ops/cost.h"
#include "ops/fused/fused.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

static tt_status infer(tt_op_io *io)
{
    static const char name[] = "norm_grad";
    const tt_norm_grad_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, name, 3, 6));
    TT_TRY(tt_infer_float(io, name, TT_NG_X));
    TT_TRY(tt_infer_same_dims(io, name, TT_NG_X, TT_NG_DY));
    TT_TRY(tt__want_columns(io, TT_NG_GAMMA, name));
    if (tt_io_has(io, TT_NG_MEAN))
        TT_TRY(tt__want_rows(io, TT_NG_MEAN, name));
    if (!tt_io_has(io, TT_NG_RSTD))
        return tt_fail(TT_ERR_ARG, "%s: rstd is missing", name);
    TT_TRY(tt__want_rows(io, TT_NG_RSTD, name));
    if (tt_io_has(io, TT_NG_PLUS))
        TT_TRY(tt_infer_same_dims(io, name, TT_NG_X, TT_NG_PLUS));
    tt_infer_add(io, io->in[TT_NG_X].dtype, &io->in[TT_NG_X].shape);
    const tt_shape column = tt__last_of(&io->in[TT_NG_X].shape);
    for (int i = 0; i < 1 + p->bias + p->sums; i++)
        tt_infer_add(io, tt_dtype_master(io->in[TT_NG_X].dtype), &column);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_norm_grad_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_NG_X]);
    const int flops =
        14 + p->bias + p->sums + (tt_io_has(io, TT_NG_PLUS) ? 1 : 0);
    tt_cost_reduction(io, 0, flops * n, n, cost_out);
}

static const tt_opt options[] = {
    {.name = "bias",
     .fallback = "true",
     .doc = "whether dbeta is wanted too",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_norm_grad_params, bias)},
    {.name = "sums",
     .fallback = "false",
     .doc = "whether the sums of dx are wanted too",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_norm_grad_params, sums)},
    {0},
};

static const tt_sample samples[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "m batch:3",
      "m+ batch:3", "f batch:3 embed:7"},
     336},
    {"",
     {"f batch:2 seq:3 embed:16", "f batch:2 seq:3 embed:16", "f embed:16",
      "m batch:2 seq:3", "m+ batch:2 seq:3"},
     1440},
    {"bias=false",
     {"f batch:5 embed:24", "f batch:5 embed:24", "f embed:24", "-",
      "m+ batch:5", "f batch:5 embed:24"},
     1800},
    {"bias=false",
     {"f batch:5 embed:3", "f batch:5 embed:3", "f embed:3", "-", "m+ batch:5"},
     210},
    {"sums=true",
     {"f batch:5 embed:24", "f batch:5 embed:24", "f embed:24", "m batch:5",
      "m+ batch:5", "f batch:5 embed:24"},
     2040},
    {"bias=false sums=true",
     {"f batch:9 embed:5", "f batch:9 embed:5", "f embed:5", "-", "m+ batch:9"},
     675},
    // More rows than a device has warps; rows of more than a warp reads at once.
    {"sums=true",
     {"f batch:150 embed:8", "f batch:150 embed:8", "f embed:8", "m batch:150",
      "m+ batch:150"},
     19200},
    {"",
     {"f batch:3 embed:1040", "f batch:3 embed:1040", "f embed:1040",
      "m batch:3", "m+ batch:3", "f batch:3 embed:1040"},
     49920},
    {0},
};

const tt_op_def tt_op_norm_grad = {
    .name = "norm_grad",
    .doc = "Gradients of a norm's input and weights, and a sum, in one pass.",
    .options = options,
    .params_bytes = sizeof(tt_norm_grad_params),
    .flags = TT_OP_INPLACE,
    .infer = infer,
    .cost = cost,
    .samples = samples,
};
