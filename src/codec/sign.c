// sign - signs on which replicas vote: ops/codec/sign.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_sign = {
    .name = "sign",
    .doc = "Signs with a size per block, on which replicas vote.",
    .options = tt_sign_options,
    .params_bytes = sizeof(tt_code_params),
    .has_signs = true,
    .needs_feedback = true,
    .encode_op = &tt_op_sign_encode,
    .sum_op = &tt_op_sign_sum,
};
