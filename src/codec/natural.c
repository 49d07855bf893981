// natural - the power of two below or above, at random: ops/codec/natural.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_natural = {
    .name = "natural",
    .doc = "Powers of two, rounded at random.",
    .options = tt_natural_options,
    .params_bytes = sizeof(tt_code_params),
    .is_unbiased = true,
    .encode_op = &tt_op_natural_encode,
    .sum_op = &tt_op_natural_sum,
};
