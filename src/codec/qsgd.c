// qsgd - few levels of a norm per block, at random, with Elias codes: ops/codec/qsgd.c.

#include "codec/codec.h"
#include "ops/codec/entropy.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_qsgd = {
    .name = "qsgd",
    .doc = "Few levels at random, with Elias codes.",
    .options = tt_qsgd_options,
    .params_bytes = sizeof(tt_code_params),
    .is_unbiased = true,
    .encode_op = &tt_op_qsgd_encode,
    .sum_op = &tt_op_qsgd_sum,
};
