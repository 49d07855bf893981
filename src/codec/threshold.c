// threshold - the entries above a threshold: ops/codec/threshold.c. Where codes are merged
// on the way they have the entries' values, since sums are no multiples of one threshold.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    tt_sparse_params p = *(const tt_sparse_params *)c->params;
    tt_val out[TT_MAX_OUT];
    p.has_values = c->is_merged;
    const tt_val in[] = {[TT_PX] = c->x, [TT_PRESIDUAL] = c->residual};
    c->code[0] = tt_call(b, &tt_op_threshold_encode, &p, in, 2, out);
    c->n_codes = 1;
    c->join = TT_CODEC_GATHERED;
    c->is_last = true;
    c->residual_out = tt_is(c->residual) ? out[1] : TT_NONE;
    return b->status;
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    const tt_sparse_params *p = c->params;
    const tt_sparse_params list = {.ratio = p->ratio};
    const tt_val in[TT_PSUM_N] = {
        [TT_PSUM_PACKETS] = joined[0], [TT_PSUM_LIKE] = c->x};
    *sum_out = c->is_merged
                   ? tt_call(b, &tt_op_topk_sum, &list, in, TT_PSUM_N, NULL)
                   : tt_call(b, &tt_op_threshold_sum, p, in, TT_PSUM_N, NULL);
    return b->status;
}

static tt_codec_list list(const void *params, int64_t n, int64_t value_bytes)
{
    (void)value_bytes;
    const tt_sparse_params *p = params;
    return (tt_codec_list){tt_sparse_count(p->ratio, n), 4};
}

const tt_codec_def tt_codec_threshold = {
    .name = "threshold",
    .doc = "Entries above a threshold, as plus or minus the threshold.",
    .options = &tt_threshold_options[1], // without values
    .params_bytes = sizeof(tt_sparse_params),
    .is_sparse = true,
    .needs_feedback = true,
    .encode = encode,
    .decode = decode,
    .list = list,
};
