// sign_encode, sign_sum - signs, which the replicas vote on.
//
//   sum     (1, 0 or -1: what most signs say) times the sum of the replicas' scales, so
//           that it is as large as a sum of gradients
//   bytes   n / 8 + 4 ceil(n / block)
//   error   biased: only with a residual, or an optimiser that wants signs
//   flops   2 per element; sum 2
//   source  Bernstein et al. 2018 (signSGD with majority vote); Karimireddy et al. 2019

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

const tt_code_form tt_form_sign = {
    .kind = TT_PACKET_SIGN,
    .scales = 1,
    .per_byte = 8,
};

int64_t tt_body_sign(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    return tt_code_body(&tt_form_sign, params, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_sign, false);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_sign);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 2 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_sign_options[] = {
    {"block", "1024", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 30},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 154},
    {"block=24", {"=0 a:33"}, 66},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 80},
    {"block=40", {"f! a:37 b:9"}, 666},
    {"block=8", {"f a:1", "m a:1"}, 2},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_sign_encode = {
    .name = "sign_encode",
    .doc = "Signs and a size per block; a sum is a vote.",
    .options = tt_sign_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_sign_sum = {
    .name = "sign_sum",
    .doc = "The sum of what codes of sign_encode stand for.",
    .options = tt_sign_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
