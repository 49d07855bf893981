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

const tt_packet_form tt_form_sign = {
    .kind = TT_PACKET_SIGN,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = 8,
};

const tt_opt tt_sign_options[] = {
    TT_CODE_BLOCK_OPTION("1024"),
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 30},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 154},
    {"", {"f a:30 b:70", "m a:30 b:70"}, 4200},
    {"block=24", {"=0 a:33"}, 66},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 80},
    {"block=40", {"f! a:37 b:9"}, 666},
    {"block=8", {"f a:1", "m a:1"}, 2},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {"block=16", {"c300", "f a:33"}, 66}, // more votes than a byte counts
    {0},
};

const tt_op_def tt_op_sign_encode = {
    .name = "sign_encode",
    .doc = "Signs and a size per block; a sum is a vote.",
    .options = tt_sign_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_sign,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_sign_sum = {
    .name = "sign_sum",
    .doc = "The sum of what codes of sign_encode stand for.",
    .options = tt_sign_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_sign,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
