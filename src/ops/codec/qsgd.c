// qsgd_encode, qsgd_sum - few levels at random, with Elias codes (entropy.h).
//
//   bytes   on average (3 + 3/2 log2(2 (s^2 + b) / (s (s + sqrt(b))))) s (s + sqrt(b)) / 8
//           + 6 per block of b numbers, as in the paper; at most as many bits for each
//           number as 2 s has
//   error   none on average; its square is below min(b / s^2, sqrt(b) / s) of the block's
//   flops   5 per element; sum 2
//   source  Alistarh et al. 2017

#include "ops/codec/entropy.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

// 1 / (1 + the bound of the relative error's square).
float tt_qsgd_shrink(const tt_code_params *p)
{
    const double b = (double)p->block, s = (double)p->levels;
    return (float)(1 / (1 + fmin(b / (s * s), sqrt(b) / s)));
}

static int64_t body(const tt_packet_form *form, const void *params, int64_t n,
                    tt_dtype dtype)
{
    (void)form, (void)dtype;
    const tt_code_params *p = params;
    return 6 * tt_code_blocks(p, n) +
           n / p->block * tt_qsgd_dense_bytes(p, p->block) +
           tt_qsgd_dense_bytes(p, n % p->block);
}

const tt_packet_form tt_form_qsgd = {
    .kind = TT_PACKET_QSGD,
    .is_random = true,
    .body = body,
};

const tt_opt tt_qsgd_options[] = {
    {"levels", "1", "above zero; more are more precise and longer", TT_OPT_I64,
     .offset = offsetof(tt_code_params, levels), .min = 1, .max = 127},
    {"block", "512", "entries that share a norm", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8, .max = 4096},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5", "-", "I=11", "I=3"}, 75},
    {"", {"f a:7 b:11", "m a:7 b:11", "I=11", "I=3"}, 385},
    {"levels=3 block=64", {"=0 a:33", "-", "I=1", "I=2"}, 165},
    {"levels=127 block=64", {"f a:37 b:9", "-", "I=1", "I=2"}, 1665},
    {"levels=7 block=256", {"f! a:37 b:9", "m a:37 b:9", "I=1", "I=2"}, 1665},
    {0},
};

static const tt_sample samples_sum[] = {
    {"levels=2", {"c3", "f a:7 b:11"}, 154},
    {"levels=7 block=64", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_qsgd_encode = {
    .name = "qsgd_encode",
    .doc = "Few levels at random, with Elias codes.",
    .options = tt_qsgd_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_qsgd,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 5,
    .samples = samples,
};

const tt_op_def tt_op_qsgd_sum = {
    .name = "qsgd_sum",
    .doc = "The sum of what codes of qsgd_encode stand for.",
    .options = tt_qsgd_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_qsgd,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
