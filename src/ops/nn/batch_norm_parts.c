// batch_norm_parts - what batch_norm becomes when a statistic spans ranks: each
// rank sums over what it has, the sums are added across ranks, and the rest
// is element-wise.
//
//   forward    m = all_reduce(batch_norm_moments(x, running_mean))
//              y, mean, rstd, ... = batch_norm_apply(x, ..., m, running_mean)
//   backward   s = batch_norm_grad_sums(x, dy, mean, rstd): dgamma and dbeta, terms
//              dx = batch_norm_grad_apply(x, dy, ..., all_reduce(s))
//
//   wire       two values per channel each way; with groups, which may begin and
//              end anywhere on ranks, two for each of them. A rank adds nothing
//              to groups that it has no sample of
//
// The variance is mean(x^2) - mean(x)^2, which loses digits when the mean is large
// against the spread. Taking the mean first and squared differences after it would be
// safe, but needs two messages. So moments are those of x - running_mean: the running
// mean is near the mean, every rank has it, and one message is enough.

#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/batch_norm_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

// ---- forward ----

static tt_status infer_moments(tt_op_io *io)
{
    const char *op = "batch_norm_moments";
    TT_TRY(tt_infer_inputs(io, op, 2, 2));
    TT_TRY(tt__bn_check(io, op, ".c"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    return tt__bn_stats(io, true, &io->out[0].shape);
}

static void shard_moments(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xc", "m", NULL};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost_moments(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt__bn_cost(io, 0, 4, cost);
}

enum { X, GAMMA, BETA, RUNNING_MEAN, RUNNING_VAR, MOMENTS, SHIFT, RESIDUAL };
enum { Y, MEAN, RSTD, NEW_MEAN, NEW_VAR, N_OUT };

static tt_status infer_apply(tt_op_io *io)
{
    const char *op = "batch_norm_apply";
    TT_TRY(tt_infer_inputs(io, op, 7, 8));
    TT_TRY(tt__bn_check(io, op, ".cccc.c"));
    TT_TRY(tt__bn_check_stats(io, op, MOMENTS, true));
    if (tt_io_has(io, RESIDUAL))
        TT_TRY(tt__bn_check_like_x(io, op, RESIDUAL, "the residual"));
    io->n_out = N_OUT;
    io->out[Y].dtype = io->in[X].dtype;
    io->out[Y].shape = io->in[X].shape;
    for (int i = MEAN; i < N_OUT; i++)
        io->out[i].dtype = tt_dtype_master(io->in[X].dtype);
    TT_TRY(tt__bn_stats(io, false, &io->out[MEAN].shape));
    io->out[RSTD].shape = io->out[MEAN].shape;
    io->out[NEW_MEAN].shape = io->in[RUNNING_MEAN].shape;
    io->out[NEW_VAR].shape = io->in[RUNNING_VAR].shape;
    return TT_OK;
}

static void shard_apply(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xccrrmcx", "xssrr", NULL};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost_apply(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_batch_norm_params *p = io->params;
    const int extra =
        (tt_io_has(io, RESIDUAL) ? 1 : 0) + (p->activation ? 1 : 0);
    tt__bn_cost(io, 0, 4 + extra, cost);
    cost->depth = 1;
}

tt_status tt__bn_expand(tt_builder *b, const tt_node *node, const tt_sig *sig,
                        int axis, const tt_val *in, tt_val *out)
{
    const tt_val x = in[X];
    const tt_val residual = node->n_in > 5 ? in[5] : TT_NONE;
    tt_val moments = tt_call(b, &tt_op_batch_norm_moments, node->params,
                             (const tt_val[]){x, in[RUNNING_MEAN]}, 2, NULL);
    tt_place_as(b, moments, axis, tt_place_partial(TT_SUM), x);
    moments = tt_all_reduce(b, moments, axis, TT_SUM);
    const tt_val all[] = {
        x,       in[GAMMA],        in[BETA], in[RUNNING_MEAN], in[RUNNING_VAR],
        moments, in[RUNNING_MEAN], residual,
    };
    (void)tt_call(b, &tt_op_batch_norm_apply, node->params, all,
                  tt_is(residual) ? 8 : 7, out);
    for (int i = 0; i < N_OUT; i++)
        tt_place_as(b, out[i], axis, sig->out[i],
                    i < NEW_MEAN ? x : in[RUNNING_MEAN]);
    return tt_builder_status(b);
}

static const tt_sample samples_moments[] = {
    {"", {"f batch:4 channels:3 height:2 width:3", "m channels:3"}, 288},
    {"group=2", {"f batch:4 channels:2 width:3", "m features:2"}, 96},
    {"group=3", {"f batch:9 channels:2 width:2", "m features:2"}, 144},
    {0},
};

static const tt_sample samples_apply[] = {
    {"activation=relu",
     {"f batch:4 channels:3 height:2 width:3", "f channels:3", "f channels:3",
      "m=0.5 channels:3", "m=0.5 channels:3", "m+ moment:2 channels:3",
      "m channels:3", "f batch:4 channels:3 height:2 width:3"},
     432}, // 6 * 72
    {"group=2",
     {"f batch:4 channels:2 width:9", "f features:2", "f features:2",
      "m=0.5 features:2", "m=0.5 features:2", "m+ moment:2 batch:2 channels:2",
      "m features:2"},
     288}, // 4 * 72
    {"group=3 activation=relu",
     {"f batch:9 channels:2 width:2", "f features:2", "f features:2",
      "m=0.5 features:2", "m=0.5 features:2", "m+ moment:2 batch:3 channels:2",
      "m features:2", "f batch:9 channels:2 width:2"},
     216}, // 6 * 36
    {"activation=relu",
     {"f batch:4 channels:8 width:17", "f channels:8", "f channels:8",
      "m=0.5 channels:8", "m=0.5 channels:8", "m+ moment:2 channels:8",
      "m channels:8", "f batch:4 channels:8 width:17"},
     3264}, // 6 * 544
    {0},
};

const tt_op_def tt_op_batch_norm_moments = {
    .name = "batch_norm_moments",
    .doc = "Sums of x - shift and of its squares, per channel.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .infer = infer_moments,
    .shard = shard_moments,
    .cost = cost_moments,
    .samples = samples_moments,
};

const tt_op_def tt_op_batch_norm_apply = {
    .name = "batch_norm_apply",
    .doc = "batch_norm from moments that are known.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .infer = infer_apply,
    .shard = shard_apply,
    .cost = cost_apply,
    .samples = samples_apply,
};

// ---- backward ----

static tt_status infer_sums(tt_op_io *io)
{
    const char *op = "batch_norm_grad_sums";
    const tt_batch_norm_params *p = io->params;
    const bool has_relu = p->activation == TT_BATCH_NORM_RELU;
    TT_TRY(tt_infer_inputs(io, op, has_relu ? 5 : 4, 5));
    TT_TRY(tt__bn_check(io, op, ""));
    TT_TRY(tt__bn_check_like_x(io, op, 1, "dy"));
    TT_TRY(tt__bn_check_stats(io, op, 2, false));
    TT_TRY(tt__bn_check_stats(io, op, 3, false));
    if (has_relu)
        TT_TRY(tt__bn_check_like_x(io, op, 4, "y"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    return tt__bn_stats(io, true, &io->out[0].shape);
}

static void shard_sums(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xxssx", "m", NULL};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost_sums(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_batch_norm_params *p = io->params;
    tt__bn_cost(io, 0, 5 + (p->activation ? 1 : 0), cost);
}

static tt_status infer_grad_apply(tt_op_io *io)
{
    const char *op = "batch_norm_grad_apply";
    const tt_batch_norm_params *p = io->params;
    const bool has_relu = p->activation == TT_BATCH_NORM_RELU;
    TT_TRY(tt_infer_inputs(io, op, has_relu ? 7 : 6, 7));
    TT_TRY(tt__bn_check(io, op, "..c"));
    TT_TRY(tt__bn_check_like_x(io, op, 1, "dy"));
    TT_TRY(tt__bn_check_stats(io, op, 3, false));
    TT_TRY(tt__bn_check_stats(io, op, 4, false));
    TT_TRY(tt__bn_check_stats(io, op, 5, true));
    if (has_relu)
        TT_TRY(tt__bn_check_like_x(io, op, 6, "y"));
    io->n_out = p->has_residual ? 2 : 1;
    for (int i = 0; i < 2; i++) {
        io->out[i].dtype = io->in[0].dtype;
        io->out[i].shape = io->in[0].shape;
    }
    return TT_OK;
}

static void shard_grad_apply(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__bn_roles roles = {"xxcssmx", "xx", NULL};
    tt__bn_shard(io, &roles, axis_size, sigs);
}

static void cost_grad_apply(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_batch_norm_params *p = io->params;
    tt__bn_cost(io, 0, 7 + (p->activation ? 1 : 0), cost);
    cost->depth = 1;
}

// dgamma and dbeta stay terms of sums, like the gradients of all weights.
static void expand_weights(tt_builder *b, const tt_node *node, tt_val sums,
                           int axis, tt_val out[2])
{
    const tt_batch_norm_params *p = node->params;
    tt_val part[TT_MAX_OUT];
    tt_split_factor(b, sums, "moment", part);
    for (int i = 0; i < 2 && b->status == TT_OK; i++) {
        tt_place_as(b, part[i], axis, tt_place_partial(TT_SUM), sums);
        out[i] = part[i];
        if (p->group > 0) {
            out[i] = tt_reduce_dims(b, part[i], TT_REDUCE_SUM,
                                    (const int64_t[]){0}, 1);
            tt_place_as(b, out[i], axis, tt_place_partial(TT_SUM), sums);
        }
    }
}

tt_status tt__bn_expand_grad(tt_builder *b, const tt_node *node,
                             const tt_sig *sig, int axis, const tt_val *in,
                             tt_val *out)
{
    const tt_val y = node->n_in > 5 ? in[5] : TT_NONE;
    const int has_y = tt_is(y) ? 1 : 0;
    const tt_val sums = tt_call(b, &tt_op_batch_norm_grad_sums, node->params,
                                (const tt_val[]){in[0], in[1], in[3], in[4], y},
                                4 + has_y, NULL);
    tt_place_as(b, sums, axis, tt_place_partial(TT_SUM), in[0]);
    expand_weights(b, node, sums, axis, &out[1]);
    const tt_val whole = tt_all_reduce(b, sums, axis, TT_SUM);
    tt_val dx[TT_MAX_OUT];
    (void)tt_call(b, &tt_op_batch_norm_grad_apply, node->params,
                  (const tt_val[]){in[0], in[1], in[2], in[3], in[4], whole, y},
                  6 + has_y, dx);
    for (int i = 0; i < 2; i++)
        tt_place_as(b, dx[i], axis, sig->out[0], in[0]);
    out[0] = dx[0];
    out[3] = dx[1];
    return tt_builder_status(b);
}

static const tt_sample samples_sums[] = {
    {"",
     {"f batch:4 channels:3 height:2 width:3",
      "f batch:4 channels:3 height:2 width:3", "m channels:3", "m+ channels:3"},
     360}, // 5 * 72
    {"group=2 activation=relu",
     {"f batch:4 channels:2 width:3", "f batch:4 channels:2 width:3",
      "m batch:2 channels:2", "m+ batch:2 channels:2",
      "f! batch:4 channels:2 width:3"},
     144}, // 6 * 24
    {"group=3",
     {"f batch:9 channels:2 width:2", "f batch:9 channels:2 width:2",
      "m batch:3 channels:2", "m+ batch:3 channels:2"},
     180}, // 5 * 36
    {"activation=relu",
     {"f batch:4 channels:8 width:17", "f batch:4 channels:8 width:17",
      "m channels:8", "m+ channels:8", "f! batch:4 channels:8 width:17"},
     3264}, // 6 * 544
    {0},
};

static const tt_sample samples_grad_apply[] = {
    {"",
     {"f batch:4 channels:3 height:2 width:3",
      "f batch:4 channels:3 height:2 width:3", "f channels:3", "m channels:3",
      "m+ channels:3", "m moment:2 channels:3"},
     504}, // 7 * 72
    {"group=2 activation=relu has_residual=true",
     {"f batch:4 channels:2 width:3", "f batch:4 channels:2 width:3",
      "f features:2", "m batch:2 channels:2", "m+ batch:2 channels:2",
      "m moment:2 batch:2 channels:2", "f! batch:4 channels:2 width:3"},
     192}, // 8 * 24
    {"group=3",
     {"f batch:9 channels:2 width:2", "f batch:9 channels:2 width:2",
      "f features:2", "m batch:3 channels:2", "m+ batch:3 channels:2",
      "m moment:2 batch:3 channels:2"},
     252}, // 7 * 36
    {"activation=relu has_residual=true",
     {"f batch:4 channels:8 width:17", "f batch:4 channels:8 width:17",
      "f channels:8", "m channels:8", "m+ channels:8", "m moment:2 channels:8",
      "f! batch:4 channels:8 width:17"},
     4352}, // 8 * 544
    {0},
};

const tt_op_def tt_op_batch_norm_grad_sums = {
    .name = "batch_norm_grad_sums",
    .doc = "Gradients of gamma and beta, per group.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .infer = infer_sums,
    .shard = shard_sums,
    .cost = cost_sums,
    .samples = samples_sums,
};

const tt_op_def tt_op_batch_norm_grad_apply = {
    .name = "batch_norm_grad_apply",
    .doc = "Gradient of batch_norm's input from sums that are known.",
    .options = tt__bn_options,
    .params_bytes = sizeof(tt_batch_norm_params),
    .infer = infer_grad_apply,
    .shard = shard_grad_apply,
    .cost = cost_grad_apply,
    .samples = samples_grad_apply,
};
