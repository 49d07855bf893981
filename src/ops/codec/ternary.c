// ternary_encode, ternary_sum - minus one, zero or one times a scale, which is the number
// itself on average.
//
//   digit   1 + sign(e) where u < |e| (1 / scale), else 1; u = 24 random bits
//   shrunk  with a residual the scale is sent times min(1, sum e^2 / (scale sum |e|)), sums
//           in chains: numbers that are too large on average would make residuals grow
//           without end where most numbers are far below the scale
//   bytes   n / 5 + 4 ceil(n / block): 1.6 bits an element
//   flops   4 per element; sum 2
//   source  Wen et al. 2017 (TernGrad)

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

const tt_code_form tt_form_ternary = {
    .kind = TT_PACKET_TERNARY,
    .scales = 1,
    .per_byte = 5,
    .is_random = true,
};

int64_t tt_body_ternary(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    return tt_code_body(&tt_form_ternary, params, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_ternary, true);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_ternary);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 4 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_ternary_options[] = {
    {"block", "1280", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5", "-", "I=11", "I=3"}, 60},
    {"", {"f a:7 b:11", "m a:7 b:11", "I=11", "I=3"}, 308},
    {"block=24", {"=0 a:33", "-", "I=11", "I=3"}, 132},
    {"block=32", {"m=1e-44 a:40", "m a:40", "I=11", "I=3"}, 160},
    {"block=40", {"f! a:37 b:9", "-", "I=11", "I=3"}, 1332},
    {"block=8", {"f a:1", "m a:1", "I=11", "I=3"}, 4},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_ternary_encode = {
    .name = "ternary_encode",
    .doc = "Minus one, zero or one times a scale, at random.",
    .options = tt_ternary_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_ternary_sum = {
    .name = "ternary_sum",
    .doc = "The sum of what codes of ternary_encode stand for.",
    .options = tt_ternary_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
