// ternary - TernGrad: ops/codec/ternary.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_ternary = {
    .name = "ternary",
    .doc = "Minus one, zero or one times a scale, at random.",
    .options = tt_ternary_options,
    .params_bytes = sizeof(tt_code_params),
    .is_unbiased = true,
    .encode_op = &tt_op_ternary_encode,
    .sum_op = &tt_op_ternary_sum,
};
