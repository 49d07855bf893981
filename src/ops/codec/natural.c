// natural_encode, natural_sum - the power of two below or above, at random, so that it is
// the number itself on average.
//
//   scale   the power of two above the largest |e|
//   digit   128 for minus; 127 + exponent - the scale's exponent, 0 for zero: what is
//           2^-126 times the scale or less is zero
//   bytes   n + 4 ceil(n / block)
//   error   at most |e|, and at most 1/8 of e^2 on average
//   flops   2 per element; sum 2
//   source  Horvath et al. 2019 (natural compression)

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

const tt_code_form tt_form_natural = {
    .kind = TT_PACKET_NATURAL,
    .scales = 1,
    .per_byte = 1,
    .is_random = true,
};

int64_t tt_body_natural(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    return tt_code_body(&tt_form_natural, params, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_natural, true);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_natural);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 2 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_natural_options[] = {
    {"block", "4096", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5", "-", "I=11", "I=3"}, 30},
    {"", {"f a:7 b:11", "m a:7 b:11", "I=11", "I=3"}, 154},
    {"block=24", {"=0 a:33", "-", "I=11", "I=3"}, 66},
    {"block=32", {"m=1e-44 a:40", "m a:40", "I=11", "I=3"}, 80},
    {"block=40", {"f! a:37 b:9", "-", "I=11", "I=3"}, 666},
    {"block=8", {"f a:1", "m a:1", "I=11", "I=3"}, 2},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_natural_encode = {
    .name = "natural_encode",
    .doc = "Powers of two, rounded at random.",
    .options = tt_natural_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_natural_sum = {
    .name = "natural_sum",
    .doc = "The sum of what codes of natural_encode stand for.",
    .options = tt_natural_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
