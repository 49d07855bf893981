// rms_norm - rows with mean square 1, then scaled.
//
//   y  = xhat * gamma,  xhat = x * rstd
//   dx = rstd * (g - xhat * mean(g * xhat)),  g = dy * gamma
//
//   flops   forward 4 per element, dx 7, dgamma 3
//   shard   as layer_norm

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { X, GAMMA };        // inputs of the operator
enum { GX, GDY, GGAMMA }; // of rms_norm_grad_x, then rstd
enum { Y, RSTD, N_OUT };  // outputs

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rms_norm", 2, 2));
    TT_TRY(tt_infer_float(io, "rms_norm", X));
    if (io->in[X].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "rms_norm: the input is a scalar");
    TT_TRY(tt__want_columns(io, GAMMA, "rms_norm"));
    io->n_out = N_OUT;
    io->out[Y].dtype = io->in[X].dtype;
    io->out[Y].shape = io->in[X].shape;
    io->out[RSTD].dtype = tt_dtype_master(io->in[X].dtype);
    io->out[RSTD].shape = tt__lead_of(&io->in[X].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val x = node->in[X], dy = dout[Y], rstd = node->out[RSTD];
    if (need[X])
        din[X] = tt_call(b, &tt_op_rms_norm_grad_x, NULL,
                         (tt_val[]){x, dy, node->in[GAMMA], rstd}, 4, NULL);
    if (need[GAMMA])
        din[GAMMA] = tt_call(b, &tt_op_rms_norm_grad_w, NULL,
                             (tt_val[]){x, dy, rstd}, 3, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "=.", "==", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zz", "z.", tt__norm_expand},
                   sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 4 * tt_cost_count(&io->in[X]),
                      (double)tt__last(&io->in[X].shape), cost_out);
}

static tt_status infer_grad_x(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rms_norm_grad_x", 4, 4));
    TT_TRY(tt_infer_same_dims(io, "rms_norm_grad_x", GX, GDY));
    TT_TRY(tt__want_columns(io, GGAMMA, "rms_norm_grad_x"));
    TT_TRY(tt__want_rows(io, 3, "rms_norm_grad_x"));
    io->n_out = 1;
    io->out[0].dtype = io->in[GX].dtype;
    io->out[0].shape = io->in[GX].shape;
    return TT_OK;
}

static void shard_grad_x(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==.=", "=", NULL}, sigs);
    tt__shard_last(io, axis_size,
                   &(tt__split){0, "zzz.", "z", tt__norm_expand_grad_x}, sigs);
}

static void cost_grad_x(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 7 * tt_cost_count(&io->in[GX]),
                      (double)tt__last(&io->in[GX].shape), cost_out);
}

static tt_status infer_grad_w(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rms_norm_grad_w", 3, 3));
    TT_TRY(tt_infer_same_dims(io, "rms_norm_grad_w", GX, GDY));
    TT_TRY(tt__want_rows(io, 2, "rms_norm_grad_w"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[GX].dtype);
    io->out[0].shape = tt__last_of(&io->in[GX].shape);
    return TT_OK;
}

static void shard_grad_w(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "===", "+", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zz.", "z", NULL}, sigs);
}

static void cost_grad_w(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[GX]);
    tt_cost_reduction(io, 0, 3 * n, n / (double)tt__last(&io->in[GX].shape),
                      cost_out);
}

static const tt_opt options[] = {
    {.name = "eps",
     .fallback = "1e-06",
     .doc = "added to the mean square",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_norm_params, eps),
     .min = 0,
     .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:3 embed:7", "f embed:7"}, 84},
    {"eps=0.1", {"f batch:2 seq:3 heads:5.head:3", "f embed:15"}, 360},
    {0},
};

static const tt_sample samples_grad_x[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "m+ batch:3"},
     147},
    {"",
     {"f batch:2 seq:3 embed:5", "f batch:2 seq:3 embed:5", "f embed:5",
      "m+ batch:2 seq:3"},
     210},
    {0},
};

static const tt_sample samples_grad_w[] = {
    {"", {"f batch:3 embed:7", "f batch:3 embed:7", "m+ batch:3"}, 63},
    {"",
     {"f batch:2 seq:3 embed:5", "f batch:2 seq:3 embed:5", "m+ batch:2 seq:3"},
     90},
    {0},
};

const tt_op_def tt_op_rms_norm = {
    .name = "rms_norm",
    .doc = "Rows to mean square 1, scaled.",
    .options = options,
    .params_bytes = sizeof(tt_norm_params),
    .no_grad = 2,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_rms_norm_grad_x = {
    .name = "rms_norm_grad_x",
    .doc = "Gradient of rms_norm's input.",
    .infer = infer_grad_x,
    .shard = shard_grad_x,
    .cost = cost_grad_x,
    .samples = samples_grad_x,
};

const tt_op_def tt_op_rms_norm_grad_w = {
    .name = "rms_norm_grad_w",
    .doc = "Gradient of rms_norm's scale.",
    .infer = infer_grad_w,
    .shard = shard_grad_w,
    .cost = cost_grad_w,
    .samples = samples_grad_w,
};
