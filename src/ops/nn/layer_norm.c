// layer_norm - rows with mean 0 and variance 1, then scaled and shifted.
//
//   y  = xhat * gamma + beta,  xhat = (x - mean) * rstd
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * gamma
//
//   flops   forward 6 per element (7 with beta), dx 10, dgamma 4 (5 with dbeta)
//   shard   by rows without communication; a split row sums its moments
//           (norm_parts.c)
//
// mean and rstd are outputs, two numbers per row, so that the gradient need not compute
// them again.

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { X, GAMMA, BETA };       // inputs of the operator
enum { GX, GDY, GGAMMA };      // of layer_norm_grad_x, then mean, rstd
enum { Y, MEAN, RSTD, N_OUT }; // outputs

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "layer_norm", 2, 3));
    TT_TRY(tt_infer_float(io, "layer_norm", X));
    if (io->in[X].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "layer_norm: the input is a scalar");
    TT_TRY(tt__want_columns(io, GAMMA, "layer_norm"));
    if (tt_io_has(io, BETA))
        TT_TRY(tt__want_columns(io, BETA, "layer_norm"));
    io->n_out = N_OUT;
    io->out[Y].dtype = io->in[X].dtype;
    io->out[Y].shape = io->in[X].shape;
    io->out[MEAN].dtype = io->out[RSTD].dtype =
        tt_dtype_master(io->in[X].dtype);
    io->out[MEAN].shape = io->out[RSTD].shape = tt__lead_of(&io->in[X].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const bool has_beta = node->n_in > BETA && tt_is(node->in[BETA]);
    const tt_val x = node->in[X], dy = dout[Y];
    const tt_val mean = node->out[MEAN], rstd = node->out[RSTD];
    if (need[X])
        din[X] =
            tt_call(b, &tt_op_layer_norm_grad_x, NULL,
                    (tt_val[]){x, dy, node->in[GAMMA], mean, rstd}, 5, NULL);
    if (need[GAMMA] || (has_beta && need[BETA])) {
        const tt_layer_norm_grad_w_params p = {.bias = has_beta};
        tt_val out[TT_MAX_OUT];
        tt_call(b, &tt_op_layer_norm_grad_w, &p, (tt_val[]){x, dy, mean, rstd},
                4, out);
        din[GAMMA] = out[0];
        if (has_beta)
            din[BETA] = out[1];
    }
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "=..", "===", NULL}, sigs);
    tt__shard_last(io, axis_size,
                   &(tt__split){0, "zzz", "z..", tt__norm_expand}, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[X]);
    tt_cost_reduction(io, 0, (tt_io_has(io, BETA) ? 7 : 6) * n,
                      (double)tt__last(&io->in[X].shape), cost_out);
}

static tt_status infer_grad_x(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "layer_norm_grad_x", 5, 5));
    TT_TRY(tt_infer_same_dims(io, "layer_norm_grad_x", GX, GDY));
    TT_TRY(tt__want_columns(io, GGAMMA, "layer_norm_grad_x"));
    TT_TRY(tt__want_rows(io, 3, "layer_norm_grad_x"));
    TT_TRY(tt__want_rows(io, 4, "layer_norm_grad_x"));
    io->n_out = 1;
    io->out[0].dtype = io->in[GX].dtype;
    io->out[0].shape = io->in[GX].shape;
    return TT_OK;
}

static void shard_grad_x(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==.==", "=", NULL}, sigs);
    tt__shard_last(io, axis_size,
                   &(tt__split){0, "zzz..", "z", tt__norm_expand_grad_x}, sigs);
}

static void cost_grad_x(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 10 * tt_cost_count(&io->in[GX]),
                      (double)tt__last(&io->in[GX].shape), cost_out);
}

static tt_status infer_grad_w(tt_op_io *io)
{
    const tt_layer_norm_grad_w_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "layer_norm_grad_w", 4, 4));
    TT_TRY(tt_infer_same_dims(io, "layer_norm_grad_w", GX, GDY));
    TT_TRY(tt__want_rows(io, 2, "layer_norm_grad_w"));
    TT_TRY(tt__want_rows(io, 3, "layer_norm_grad_w"));
    io->n_out = p->bias ? 2 : 1;
    for (int i = 0; i < io->n_out; i++) {
        io->out[i].dtype = tt_dtype_master(io->in[GX].dtype);
        io->out[i].shape = tt__last_of(&io->in[GX].shape);
    }
    return TT_OK;
}

static void shard_grad_w(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "====", "++", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zz..", "zz", NULL}, sigs);
}

static void cost_grad_w(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[GX]);
    tt_cost_reduction(io, 0, (io->n_out == 2 ? 5 : 4) * n,
                      n / (double)tt__last(&io->in[GX].shape), cost_out);
}

tt_val tt_layer_norm(tt_builder *b, tt_val x, tt_val gamma, tt_val beta,
                     double eps)
{
    return tt_call(b, &tt_op_layer_norm, &(tt_norm_params){.eps = eps},
                   (tt_val[]){x, gamma, beta}, 3, NULL);
}

static const tt_opt options[] = {
    {.name = "eps",
     .fallback = "1e-05",
     .doc = "added to the variance",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_norm_params, eps),
     .min = 0,
     .max = 1},
    {0},
};

static const tt_opt options_grad_w[] = {
    {.name = "bias",
     .fallback = "true",
     .doc = "give the gradient of beta too",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_layer_norm_grad_w_params, bias)},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:3 embed:7", "f embed:7", "f embed:7"}, 147},
    {"", {"f batch:3 embed:16", "f embed:16", "f embed:16"}, 336},
    {"eps=0.1", {"f batch:2 seq:3 embed:5", "f embed:5", "-"}, 180},
    {"eps=0.01", {"f rows:5 heads:2.head:3", "f embed:6", "f embed:6"}, 210},
    {0},
};

static const tt_sample samples_grad_x[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "m batch:3",
      "m+ batch:3"},
     210},
    {"",
     {"f batch:2 seq:3 embed:5", "f batch:2 seq:3 embed:5", "f embed:5",
      "m batch:2 seq:3", "m+ batch:2 seq:3"},
     300},
    {"",
     {"f batch:3 embed:16", "f batch:3 embed:16", "f embed:16", "m batch:3",
      "m+ batch:3"},
     480},
    {0},
};

static const tt_sample samples_grad_w[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "m batch:3", "m+ batch:3"},
     105},
    {"bias=false",
     {"f batch:2 seq:3 embed:5", "f batch:2 seq:3 embed:5", "m batch:2 seq:3",
      "m+ batch:2 seq:3"},
     120},
    {"",
     {"f batch:3 embed:16", "f batch:3 embed:16", "m batch:3", "m+ batch:3"},
     240},
    {0},
};

const tt_op_def tt_op_layer_norm = {
    .name = "layer_norm",
    .doc = "Rows to mean 0 and variance 1, scaled and shifted.",
    .options = options,
    .params_bytes = sizeof(tt_norm_params),
    .no_grad = 6,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_layer_norm_grad_x = {
    .name = "layer_norm_grad_x",
    .doc = "Gradient of layer_norm's input.",
    .infer = infer_grad_x,
    .shard = shard_grad_x,
    .cost = cost_grad_x,
    .samples = samples_grad_x,
};

const tt_op_def tt_op_layer_norm_grad_w = {
    .name = "layer_norm_grad_w",
    .doc = "Gradients of layer_norm's scale and shift.",
    .options = options_grad_w,
    .params_bytes = sizeof(tt_layer_norm_grad_w_params),
    .infer = infer_grad_w,
    .shard = shard_grad_w,
    .cost = cost_grad_w,
    .samples = samples_grad_w,
};
