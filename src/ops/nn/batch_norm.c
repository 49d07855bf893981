// batch_norm - y = activation((x - mean) * rstd * gamma + beta + residual), with the
// mean and variance of each channel over batch and space.
//
//   training   statistics of x, in groups of `group` samples when that is set;
//              gives mean and rstd too, and the running statistics moved towards
//              them (the variance unbiased, the mean of the groups)
//   else       the running statistics
//
//   dx = gamma * rstd * (dz - mean(dz) - xhat * mean(dz * xhat)), dz = dy where y > 0
//
//   flops   forward 8 per element (mean 1, variance 3, the rest 4), or 4 with
//           running statistics; 1 each for residual and activation. Backward 10
//           (xhat 2, sums 3, the rest 5), or 6; 1 for the activation
//   shard   channels, and whole groups, without communication; statistics that
//           span ranks are summed (batch_norm_parts.c): the same mathematics

#include "ops/nn/batch_norm.h"

#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/batch_norm_common.h"
#include "ops/ops.h"

enum { X, GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR, RESIDUAL };
enum { Y, MEAN, RSTD, NEW_MEAN, NEW_VAR, N_OUT };
enum { GX, GDY, GGAMMA, GMEAN, GRSTD, GY };
enum { DX, DGAMMA, DBETA, DRESIDUAL };

static tt_status infer(tt_op_io *io)
{
    const char *op = "batch_norm";
    const tt_batch_norm_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, op, 5, 6));
    TT_TRY(tt__bn_check(io, op, ".cccc"));
    const tt_dtype wide = tt_dtype_master(io->in[X].dtype);
    TT_TRY(tt__expect_dtype(io, op, RUNNING_MEAN, wide, "running_mean"));
    TT_TRY(tt__expect_dtype(io, op, RUNNING_VAR, wide, "running_var"));
    if (tt_io_has(io, RESIDUAL))
        TT_TRY(tt__bn_check_like_x(io, op, RESIDUAL, "the residual"));
    io->n_out = p->training ? N_OUT : 1;
    io->out[Y].dtype = io->in[X].dtype;
    io->out[Y].shape = io->in[X].shape;
    for (int i = MEAN; i < N_OUT; i++)
        io->out[i].dtype = wide;
    TT_TRY(tt__bn_stats(io, false, &io->out[MEAN].shape));
    io->out[RSTD].shape = io->out[MEAN].shape;
    io->out[NEW_MEAN].shape = io->in[RUNNING_MEAN].shape;
    io->out[NEW_VAR].shape = io->in[RUNNING_VAR].shape;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    tt_batch_norm_params p = *(const tt_batch_norm_params *)node->params;
    const bool has_relu = p.activation == TT_BATCH_NORM_RELU;
    const bool needs_residual =
        node->n_in > RESIDUAL && tt_is(node->in[RESIDUAL]) && need[RESIDUAL];
    p.has_residual = needs_residual && has_relu;
    tt_val in[6] = {[GX] = node->in[X],
                    [GDY] = dout[Y],
                    [GGAMMA] = node->in[GAMMA],
                    [GMEAN] = node->in[RUNNING_MEAN],
                    [GRSTD] = node->in[RUNNING_VAR],
                    [GY] = node->out[Y]};
    if (p.training) {
        in[GMEAN] = node->out[MEAN];
        in[GRSTD] = node->out[RSTD];
    }
    if (needs_residual)
        din[RESIDUAL] = dout[Y];
    if (!need[X] && !need[GAMMA] && !need[BETA] && !p.has_residual)
        return tt_builder_status(b);
    tt_val out[TT_MAX_OUT];
    (void)tt_call(b, &tt_op_batch_norm_grad, &p, in, has_relu ? 6 : 5, out);
    din[X] = out[DX];
    din[GAMMA] = out[DGAMMA];
    din[BETA] = out[DBETA];
    if (p.has_residual)
        din[RESIDUAL] = out[DRESIDUAL];
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xccrrx", "xssrr", tt__bn_expand};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_batch_norm_params *p = io->params;
    const int extra =
        (tt_io_has(io, RESIDUAL) ? 1 : 0) + (p->activation ? 1 : 0);
    tt__bn_cost(io, 0, (p->training ? 8 : 4) + extra, cost_out);
}

static const tt_sample samples[] = {
    {"",
     {"f batch:4 channels:3 height:2 width:3", "f channels:3", "f channels:3",
      "m=0.25 channels:3", "m=0.5 channels:3"},
     576}, // 8 * 72
    {"momentum=0.3 activation=relu eps=0.01",
     {"f batch:3 channels:2 height:3 width:3", "f channels:2", "f channels:2",
      "m=0.1 channels:2", "m=2 channels:2",
      "f batch:3 channels:2 height:3 width:3"},
     540}, // 10 * 54
    {"group=2 activation=relu",
     {"f batch:4 channels:2 width:3", "f features:2", "f features:2",
      "m=0.1 features:2", "m=0.7 features:2"},
     216}, // 9 * 24
    {"group=3",
     {"f batch:9 channels:2 width:2", "f features:2", "f features:2",
      "m=0.1 features:2", "m=0.7 features:2"},
     288}, // 8 * 36
    {"training=false",
     {"f batch:3 channels:4", "f channels:4", "f channels:4",
      "m=0.1 channels:4", "m=0.7 channels:4"},
     48}, // 4 * 12
    {"training=false activation=relu",
     {"f batch:3 channels:2 width:2", "f channels:2", "f channels:2",
      "m=0.1 channels:2", "m=0.7 channels:2", "f batch:3 channels:2 width:2"},
     72}, // 6 * 12
    {"activation=relu",
     {"f batch:4 channels:8 width:17", "f channels:8", "f channels:8",
      "m=0.1 channels:8", "m=0.7 channels:8"},
     4896}, // 9 * 544
    {"activation=relu",
     {"f batch:4 channels:8 width:17", "f channels:8", "f channels:8",
      "m=0.1 channels:8", "m=0.7 channels:8", "f batch:4 channels:8 width:17"},
     5440}, // 10 * 544
    {0},
};

const tt_op_def tt_op_batch_norm = {
    .name = "batch_norm",
    .doc = "Channels with mean 0 and variance 1, scaled and shifted.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .no_grad = 30,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

// ---- gradient ----

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "batch_norm_grad";
    const tt_batch_norm_params *p = io->params;
    const bool has_relu = p->activation == TT_BATCH_NORM_RELU;
    TT_TRY(tt_infer_inputs(io, op, has_relu ? 6 : 5, 6));
    TT_TRY(tt__bn_check(io, op, p->training ? "..c" : "..ccc"));
    TT_TRY(tt__bn_check_like_x(io, op, GDY, "dy"));
    if (has_relu)
        TT_TRY(tt__bn_check_like_x(io, op, GY, "y"));
    for (int i = GMEAN; p->training && i <= GRSTD; i++)
        TT_TRY(tt__bn_check_stats(io, op, i, false));
    io->n_out = p->has_residual ? 4 : 3;
    for (int i = 0; i < 4; i++) {
        const bool is_x = i == DX || i == DRESIDUAL;
        io->out[i].dtype =
            is_x ? io->in[GX].dtype : tt_dtype_master(io->in[GX].dtype);
        io->out[i].shape = io->in[is_x ? GX : GGAMMA].shape;
    }
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xxcssx", "xggx", tt__bn_expand_grad};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_batch_norm_params *p = io->params;
    tt__bn_cost(io, 0, (p->training ? 10 : 6) + (p->activation ? 1 : 0),
                cost_out);
}

static const tt_sample samples_grad[] = {
    {"",
     {"f batch:4 channels:3 height:2 width:3",
      "f batch:4 channels:3 height:2 width:3", "f channels:3", "m channels:3",
      "m+ channels:3"},
     720}, // 10 * 72
    {"activation=relu has_residual=true",
     {"f batch:3 channels:2 width:3", "f batch:3 channels:2 width:3",
      "f channels:2", "m channels:2", "m+ channels:2",
      "f! batch:3 channels:2 width:3"},
     198}, // 11 * 18
    {"group=2 activation=relu",
     {"f batch:4 channels:2 width:3", "f batch:4 channels:2 width:3",
      "f features:2", "m batch:2 channels:2", "m+ batch:2 channels:2",
      "f! batch:4 channels:2 width:3"},
     264}, // 11 * 24
    {"group=3",
     {"f batch:9 channels:2 width:2", "f batch:9 channels:2 width:2",
      "f features:2", "m batch:3 channels:2", "m+ batch:3 channels:2"},
     360}, // 10 * 36
    {"training=false eps=0.01",
     {"f batch:3 channels:2 width:3", "f batch:3 channels:2 width:3",
      "f channels:2", "m channels:2", "m+ channels:2"},
     108}, // 6 * 18
    {"",
     {"f batch:4 channels:8 width:17", "f batch:4 channels:8 width:17",
      "f channels:8", "m channels:8", "m+ channels:8"},
     5440}, // 10 * 544
    {"activation=relu",
     {"f batch:4 channels:8 width:17", "f batch:4 channels:8 width:17",
      "f channels:8", "m channels:8", "m+ channels:8",
      "f! batch:4 channels:8 width:17"},
     5984}, // 11 * 544
    {"activation=relu has_residual=true",
     {"f batch:4 channels:8 width:17", "f batch:4 channels:8 width:17",
      "f channels:8", "m channels:8", "m+ channels:8",
      "f! batch:4 channels:8 width:17"},
     5984},
    {0},
};

const tt_op_def tt_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .doc = "Gradients of batch_norm.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
