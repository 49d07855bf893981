// topk - the entries of largest absolute value: ops/codec/topk_code.c.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

static tt_codec_list list(const void *params, int64_t n, int64_t value_bytes)
{
    const tt_sparse_params *p = params;
    return (tt_codec_list){tt_sparse_count(p->ratio, n), value_bytes + 4};
}

const tt_codec_def tt_codec_topk = {
    .name = "topk",
    .doc = "The entries of largest absolute value.",
    .options = tt_topk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .is_sparse = true,
    .needs_feedback = true,
    .encode_op = &tt_op_topk_encode,
    .sum_op = &tt_op_topk_sum,
    .list = list,
};
