// dgc_encode - the largest entries of what momentum has gathered (deep gradient
// compression); topk_sum reads its codes.
//
//   g   = x, scaled down to a norm of clip / sqrt(peers) where it is larger
//   u   = momentum u + g         momentum correction: the momentum is taken before
//   v   = v + u                  picking, so the optimiser must have none of its own
//   pick the largest of v; there u = v = 0 afterwards (momentum factor masking)
//
//   warm-up   the part that is picked goes from `start` to `ratio`, by the same factor
//             in each of `warm_up` steps
//   bytes     8 + 8 per entry picked
//   flops     8 per element
//   source    Lin et al. 2018

#include "ops/codec/sparse.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

#include <math.h>

int64_t tt_dgc_warm_up(const tt_sparse_params *p)
{
    return p->start > p->ratio && p->ratio > 0 ? p->warm_up : 0;
}

double tt_dgc_factor(const tt_sparse_params *p)
{
    const int64_t steps = tt_dgc_warm_up(p);
    return steps == 0 ? 1 : pow(p->ratio / p->start, 1 / (double)steps);
}

static double ratio_at(const tt_sparse_params *p, int64_t step)
{
    if (step >= tt_dgc_warm_up(p))
        return p->ratio;
    return p->start * tt_dgc_power(tt_dgc_factor(p), step < 0 ? 0 : step);
}

int64_t tt_dgc_most(const tt_sparse_params *p, int64_t n)
{
    const bool warms = p->warm_up > 0 && p->start > p->ratio;
    return tt_sparse_count(warms ? p->start : p->ratio, n);
}

int64_t tt_dgc_count(const tt_sparse_params *p, int64_t n, int64_t step)
{
    const int64_t k = tt_sparse_count(ratio_at(p, step), n);
    const int64_t most = tt_dgc_most(p, n);
    return k < most ? k : most;
}

static tt_status infer(tt_op_io *io)
{
    const char *op = "dgc_encode";
    tt_shape code = {0};
    TT_TRY(tt_infer_inputs(io, op, TT_DGC_N, TT_DGC_N));
    const tt_type *x = &io->in[TT_DGC_X];
    TT_TRY(tt_infer_float(io, op, TT_DGC_X));
    const tt_dtype wide = tt_dtype_master(x->dtype);
    const int64_t n = tt_shape_count(&x->shape);
    if (n > (int64_t)1 << 31)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld numbers are more than 2^31; split the tensor "
                       "over ranks",
                       op, (long long)n);
    TT_TRY(tt__expect_dtype(io, op, TT_DGC_U, wide, "u"));
    TT_TRY(tt__expect_dtype(io, op, TT_DGC_V, wide, "v"));
    TT_TRY(tt_infer_same_dims(io, op, TT_DGC_X, TT_DGC_U));
    TT_TRY(tt_infer_same_dims(io, op, TT_DGC_X, TT_DGC_V));
    TT_TRY(tt_infer_scalar(io, op, TT_DGC_STEP, TT_I64));
    const int64_t body = tt_sparse_body(tt_dgc_most(io->params, n),
                                        tt_packet_value_bytes(x->dtype));
    TT_TRY(tt_shape_push(&code, "bytes", tt_packet_capacity(body)));
    tt_infer_add(io, TT_U8, &code);
    tt_infer_add(io, wide, &io->in[TT_DGC_U].shape);
    tt_infer_add(io, wide, &io->in[TT_DGC_V].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_DGC_X]);
    tt_cost_reduction(io, 0, 8 * n, n, cost_out);
}

// The first row is not the user's: whoever uses the codec knows it.
const tt_opt tt_dgc_options[] = {
    {"peers", "1", "replicas", TT_OPT_I64,
     .offset = offsetof(tt_sparse_params, peers), .min = 1, .max = 1 << 24},
    {"ratio", "0.001", "part of the entries that is sent", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, ratio), .min = 0, .max = 1},
    {"momentum", "0.9", "of the velocity that is gathered", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, momentum), .min = 0,
     .max = TT_BELOW_1},
    {"clip", "0", "norm that a replica's gradient has at most; 0: any",
     TT_OPT_F64, .offset = offsetof(tt_sparse_params, clip), .min = 0,
     .max = 1e30},
    {"start", "0.25", "part that is sent at the first step of the warm-up",
     TT_OPT_F64, .offset = offsetof(tt_sparse_params, start), .min = 0,
     .max = 1},
    {"warm_up", "0", "steps until `ratio` is reached", TT_OPT_I64,
     .offset = offsetof(tt_sparse_params, warm_up), .min = 0, .max = 1e12},
    {0},
};

static const tt_sample samples[] = {
    {"ratio=0.3", {"f a:3 b:7", "m a:3 b:7", "m a:3 b:7", "I=0"}, 168},
    {"ratio=0.1 warm_up=4 clip=0.5 peers=4",
     {"f a:50 b:31", "m a:50 b:31", "m a:50 b:31", "I=2"},
     12400},
    {"ratio=0.2", {"=1 a:11", "m=0 a:11", "m=0 a:11", "I=9"}, 88},
    {0},
};

const tt_op_def tt_op_dgc_encode = {
    .name = "dgc_encode",
    .doc = "The largest entries of what momentum has gathered.",
    .options = tt_dgc_options,
    .params_bytes = sizeof(tt_sparse_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};
