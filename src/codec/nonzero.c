// nonzero - the entries that are not zero: ops/codec/nonzero.c.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_nonzero = {
    .name = "nonzero",
    .doc = "The entries that are not zero, as they are.",
    .is_sparse = true,
    .is_unbiased = true,
    .is_lossless = true,
    .encode_op = &tt_op_nonzero_encode,
    .sum_op = &tt_op_nonzero_sum,
};
