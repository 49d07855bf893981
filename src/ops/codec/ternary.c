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

const tt_packet_form tt_form_ternary = {
    .kind = TT_PACKET_TERNARY,
    .is_random = true,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = 5,
};

const tt_opt tt_ternary_options[] = {
    TT_CODE_BLOCK_OPTION("1280"),
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

const tt_op_def tt_op_ternary_encode = {
    .name = "ternary_encode",
    .doc = "Minus one, zero or one times a scale, at random.",
    .options = tt_ternary_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_ternary,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 4,
    .samples = samples,
};

const tt_op_def tt_op_ternary_sum = {
    .name = "ternary_sum",
    .doc = "The sum of what codes of ternary_encode stand for.",
    .options = tt_ternary_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_ternary,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = tt__code_sum_samples,
};
