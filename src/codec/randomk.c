// randomk - random entries, the same ones in all replicas: ops/codec/randomk.c.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    tt_val out[TT_MAX_OUT];
    const tt_val in[TT_RK_N] = {[TT_RK_X] = c->x,
                                [TT_RK_RESIDUAL] = c->residual,
                                [TT_RK_SEED] = c->common_seed,
                                [TT_RK_STEP] = c->step};
    c->code[0] = tt_call(b, &tt_op_randomk_take, c->params, in, TT_RK_N, out);
    c->n_codes = 1;
    c->join = TT_CODEC_ADDED;
    c->is_last = true;
    c->residual_out = tt_is(c->residual) ? out[1] : TT_NONE;
    return b->status;
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    const tt_val in[TT_RP_N] = {[TT_RP_VALUES] = joined[0],
                                [TT_RP_SEED] = c->common_seed,
                                [TT_RP_STEP] = c->step,
                                [TT_RP_LIKE] = c->x};
    *sum_out = tt_call(b, &tt_op_randomk_put, c->params, in, TT_RP_N, NULL);
    return b->status;
}

const tt_codec_def tt_codec_randomk = {
    .name = "randomk",
    .doc = "Random entries, the same ones in all replicas.",
    .options = tt_randomk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .is_linear = true,
    .is_sparse = true,
    .is_unbiased = true,
    .encode = encode,
    .decode = decode,
};
