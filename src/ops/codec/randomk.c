// randomk_take, randomk_put - random entries, the same ones in all replicas.
//
// The vector is cut into k parts of equal length, and a random entry of each is taken.
// Which one is a function of seed and step, so places are not sent, and the values of
// replicas can be added as they are: the codec is linear.
//
//   randomk_take (x, residual, seed, step) -> (values [k], residual)
//   randomk_put (values, seed, step, like) -> the values at their places, and zeros
//
// Without a residual, values are multiplied by the length of their part, so that the
// result is x on average. With one they are sent as they are.
//
//   bytes   4 ceil(ratio n)
//   flops   2 per value; put none
//   source  Stich et al. 2018 (rand-k)

#include "ops/codec/sparse.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

static tt_status infer(tt_op_io *io)
{
    const char *op = "randomk_take";
    const tt_sparse_params *p = io->params;
    tt_shape values = {0};
    TT_TRY(tt_infer_inputs(io, op, 1, TT_RK_N));
    if (!tt_io_has(io, TT_RK_SEED) || !tt_io_has(io, TT_RK_STEP))
        return tt_fail(TT_ERR_ARG, "%s: there must be a seed and a step", op);
    TT_TRY(tt_infer_float(io, op, TT_RK_X));
    TT_TRY(tt_infer_scalar(io, op, TT_RK_SEED, TT_I64));
    TT_TRY(tt_infer_scalar(io, op, TT_RK_STEP, TT_I64));
    const tt_dtype wide = tt_dtype_master(io->in[TT_RK_X].dtype);
    const int64_t n = tt_shape_count(&io->in[TT_RK_X].shape);
    TT_TRY(tt_shape_push(&values, "kept", tt_sparse_count(p->ratio, n)));
    tt_infer_add(io, wide, &values);
    if (!tt_io_has(io, TT_RK_RESIDUAL))
        return TT_OK;
    TT_TRY(tt__expect_dtype(io, op, TT_RK_RESIDUAL, wide, "the residual"));
    TT_TRY(tt_infer_same_dims(io, op, TT_RK_X, TT_RK_RESIDUAL));
    tt_infer_add(io, wide, &io->in[TT_RK_RESIDUAL].shape);
    return TT_OK;
}

static tt_status infer_put(tt_op_io *io)
{
    const char *op = "randomk_put";
    const tt_sparse_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, op, TT_RP_N, TT_RP_N));
    TT_TRY(tt_infer_float(io, op, TT_RP_VALUES));
    TT_TRY(tt_infer_float(io, op, TT_RP_LIKE));
    TT_TRY(tt_infer_scalar(io, op, TT_RP_SEED, TT_I64));
    TT_TRY(tt_infer_scalar(io, op, TT_RP_STEP, TT_I64));
    const int64_t n = tt_shape_count(&io->in[TT_RP_LIKE].shape);
    if (tt_shape_count(&io->in[TT_RP_VALUES].shape) !=
        tt_sparse_count(p->ratio, n))
        return tt_fail(TT_ERR_ARG,
                       "%s: of %lld numbers %lld are sent, not %lld", op,
                       (long long)n, (long long)tt_sparse_count(p->ratio, n),
                       (long long)tt_shape_count(&io->in[TT_RP_VALUES].shape));
    tt_infer_add(io, io->in[TT_RP_LIKE].dtype, &io->in[TT_RP_LIKE].shape);
    return TT_OK;
}

const tt_opt tt_randomk_options[] = {
    {"ratio", "0.01", "part of the entries that is sent", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, ratio), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"ratio=0.3", {"f a:3 b:7", "-", "I=5", "I=2"}, 14},
    {"ratio=0.1", {"f a:50 b:31", "m a:50 b:31", "I=5", "I=7"}, 310},
    {"ratio=1", {"f a:9", "-", "I=1", "I=1"}, 18},
    {0},
};

static const tt_sample samples_put[] = {
    {"ratio=0.3", {"m kept:7", "I=5", "I=2", "f a:3 b:7"}, 0},
    {"ratio=0.1", {"m kept:155", "I=5", "I=7", "f a:50 b:31"}, 0},
    {0},
};

const tt_op_def tt_op_randomk_take = {
    .name = "randomk_take",
    .doc = "Random entries, the same ones in all replicas.",
    .options = tt_randomk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .infer = infer,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_randomk_put = {
    .name = "randomk_put",
    .doc = "Random entries at their places, and zeros.",
    .options = tt_randomk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .shape_only = 1U << TT_RP_LIKE,
    .infer = infer_put,
    .cost = tt_cost_moved,
    .samples = samples_put,
};
