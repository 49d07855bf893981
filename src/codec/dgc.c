// dgc - deep gradient compression: the largest entries of what momentum has gathered, with
// clipping, masking and warm-up (ops/codec/dgc.c). What was not sent is in the residual,
// and the momentum is the codec's: the optimiser must be plain SGD.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

static tt_status states(const void *params, const tt_type *x,
                        tt_codec_state *state, int *n_out)
{
    (void)params;
    state[0] = (tt_codec_state){
        .name = "momentum",
        .dtype = tt_dtype_master(x->dtype),
        .shape = x->shape,
        .init = {.kind = TT_INIT_CONST, .of = TT_NONE},
    };
    *n_out = 1;
    return TT_OK;
}

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    tt_sparse_params p = *(const tt_sparse_params *)c->params;
    tt_val out[TT_MAX_OUT];
    if (!tt_is(c->residual))
        return tt_fail(TT_ERR_ARG,
                       "dgc keeps what it does not send: it needs error "
                       "feedback");
    p.peers = c->peers;
    const tt_val in[TT_DGC_N] = {[TT_DGC_X] = c->x,
                                 [TT_DGC_U] = c->state[0],
                                 [TT_DGC_V] = c->residual,
                                 [TT_DGC_STEP] = c->step};
    c->code[0] = tt_call(b, &tt_op_dgc_encode, &p, in, TT_DGC_N, out);
    c->n_codes = 1;
    c->join = TT_CODEC_GATHERED;
    c->is_last = true;
    c->state_out[0] = out[TT_DGC_U_OUT];
    c->residual_out = out[TT_DGC_V_OUT];
    return b->status;
}

// Codes are those of topk, with room for the start of the warm-up.
static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    const tt_sparse_params *p = c->params;
    const bool warms = p->warm_up > 0 && p->start > p->ratio;
    const tt_sparse_params most = {.ratio = warms ? p->start : p->ratio};
    const tt_val in[TT_PSUM_N] = {
        [TT_PSUM_PACKETS] = joined[0], [TT_PSUM_LIKE] = c->x};
    *sum_out = tt_call(b, &tt_op_topk_sum, &most, in, TT_PSUM_N, NULL);
    return b->status;
}

// After the warm-up.
static tt_codec_list list(const void *params, int64_t n, int64_t value_bytes)
{
    const tt_sparse_params *p = params;
    return (tt_codec_list){tt_sparse_count(p->ratio, n), value_bytes + 4};
}

const tt_codec_def tt_codec_dgc = {
    .name = "dgc",
    .doc = "The largest entries of what momentum has gathered.",
    .options = &tt_dgc_options[1], // without peers
    .params_bytes = sizeof(tt_sparse_params),
    .is_sparse = true,
    .needs_feedback = true,
    .encode = encode,
    .decode = decode,
    .states = states,
    .list = list,
};
