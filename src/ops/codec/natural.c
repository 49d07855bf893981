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

const tt_packet_form tt_form_natural = {
    .kind = TT_PACKET_NATURAL,
    .is_random = true,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = 1,
};

const tt_opt tt_natural_options[] = {
    TT_CODE_BLOCK_OPTION("4096"),
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5", "-", "I=11", "I=3"}, 30},
    {"", {"f a:7 b:11", "m a:7 b:11", "I=11", "I=3"}, 154},
    {"", {"f a:70 b:61", "m a:70 b:61", "I=11", "I=3"}, 8540},
    {"block=24", {"=0 a:33", "-", "I=11", "I=3"}, 66},
    {"block=32", {"m=1e-44 a:40", "m a:40", "I=11", "I=3"}, 80},
    {"block=40", {"f! a:37 b:9", "-", "I=11", "I=3"}, 666},
    {"block=8", {"f a:1", "m a:1", "I=11", "I=3"}, 2},
    {0},
};

const tt_op_def tt_op_natural_encode = {
    .name = "natural_encode",
    .doc = "Powers of two, rounded at random.",
    .options = tt_natural_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_natural,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_natural_sum = {
    .name = "natural_sum",
    .doc = "The sum of what codes of natural_encode stand for.",
    .options = tt_natural_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_natural,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = tt__code_sum_samples,
};
