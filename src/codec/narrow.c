// narrow - codes of 16 bits that are added as they are.

#include "codec/narrow.h"

#include "ops/codec/narrow.h"
#include "ops/ops.h"

const tt_opt tt__narrow_options[] = {
    {"scale", "1",
     "by which numbers are multiplied; one that is no power of two rounds them "
     "once more",
     TT_OPT_F64, .offset = offsetof(tt__narrow_codec, scale), .min = 0x1p-60,
     .max = 0x1p60},
    {0},
};

static tt_narrow_params params_of(const tt_coding *c, int to)
{
    const tt__narrow_codec *p = c->params;
    return (tt_narrow_params){.to = to, .scale = p->scale, .peers = c->peers};
}

tt_status tt__codec_narrow(tt_builder *b, tt_coding *c, int to)
{
    const tt_narrow_params params = params_of(c, to);
    const tt_val in[TT_NARROW_N] = {c->x, c->residual};
    tt_val out[TT_MAX_OUT];
    c->code[0] = tt_call(b, &tt_op_narrow, &params, in, TT_NARROW_N, out);
    c->n_codes = 1;
    c->join = TT_CODEC_ADDED;
    c->is_last = true;
    c->residual_out = tt_is(c->residual) ? out[1] : TT_NONE;
    return b->status;
}

tt_status tt__codec_widen(tt_builder *b, tt_coding *c, int to,
                          const tt_val *joined, tt_val *sum_out)
{
    const tt_narrow_params params = params_of(c, to);
    const tt_val in[2] = {joined[0], c->x};
    *sum_out = tt_call(b, &tt_op_widen, &params, in, 2, NULL);
    return b->status;
}
