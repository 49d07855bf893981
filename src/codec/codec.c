// codec - the registry of codecs, and what all of them share.

#include "codec/codec.h"

#include "ops/arith.h"
#include "ops/codec/merge.h"
#include "ops/codec/packet.h"
#include "ops/gradops.h"

#include <string.h>

#define TT_CODEC(name) extern const tt_codec_def tt_codec_##name;
#include "codec/list.h"
#undef TT_CODEC

static const tt_codec_def *const all[] = {
#define TT_CODEC(name) &tt_codec_##name,
#include "codec/list.h"
#undef TT_CODEC
};

enum { N_CODECS = sizeof(all) / sizeof(all[0]) };

const tt_codec_def *const *tt_codec_all(int *n)
{
    *n = N_CODECS;
    return all;
}

const tt_codec_def *tt_codec_find(const char *name)
{
    for (int i = 0; i < N_CODECS; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

tt_status tt_codec_states(const tt_codec_def *def, const void *params,
                          const tt_type *x, tt_codec_state *states, int *n_out)
{
    *n_out = 0;
    return def->states == NULL ? TT_OK : def->states(params, x, states, n_out);
}

// ---- packets -------------------------------------------------------------

static tt_status encode_packet(tt_builder *b, tt_coding *c)
{
    tt_val out[TT_MAX_OUT];
    const tt_val in[TT_P_N] = {[TT_PX] = c->x,
                               [TT_PRESIDUAL] = c->residual,
                               [TT_PSEED] = c->seed,
                               [TT_PSTEP] = c->step};
    c->code[0] = tt_call(b, c->def->encode_op, c->params, in, TT_P_N, out);
    c->n_codes = 1;
    c->join = TT_CODEC_GATHERED;
    c->is_last = true;
    c->residual_out = tt_is(c->residual) ? out[1] : TT_NONE;
    return b->status;
}

static tt_status decode_packet(tt_builder *b, tt_coding *c,
                               const tt_val *joined, tt_val *sum_out)
{
    const tt_val in[TT_PSUM_N] = {
        [TT_PSUM_PACKETS] = joined[0], [TT_PSUM_LIKE] = c->x};
    *sum_out = tt_call(b, c->def->sum_op, c->params, in, TT_PSUM_N, NULL);
    return b->status;
}

// ---- all -----------------------------------------------------------------

tt_status tt_codec_encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    if (c->def->is_lossless)
        c->residual = TT_NONE;
    if (joined == NULL) {
        c->residual_out = TT_NONE;
        for (int i = 0; i < TT_CODEC_STATES; i++)
            c->state_out[i] = TT_NONE;
    }
    TT_TRY(b->status);
    if (c->def->encode == NULL)
        return encode_packet(b, c);
    TT_TRY(c->def->encode(b, c, joined));
    return b->status;
}

tt_status tt_codec_decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                          tt_val *sum_out)
{
    TT_TRY(b->status);
    if (c->def->decode == NULL)
        return decode_packet(b, c, joined, sum_out);
    TT_TRY(c->def->decode(b, c, joined, sum_out));
    return b->status;
}

bool tt_codec_merges(const tt_codec_def *def, const void *params,
                     const tt_type *x, int64_t peers, int64_t ranks)
{
    const int64_t value_bytes = tt_packet_value_bytes(x->dtype);
    const int64_t n = tt_shape_count(&x->shape);
    if (def->list == NULL)
        return false;
    const tt_codec_list list = def->list(params, n, value_bytes);
    return tt_merged_pays(&(tt_merged_case){.n = n,
                                            .k = list.entries,
                                            .value_bytes = value_bytes,
                                            .gathered_each = list.each,
                                            .replicas = peers,
                                            .ranks = ranks});
}

// ---- size ----------------------------------------------------------------

static tt_status make_states(tt_builder *b, tt_coding *c, const tt_type *x)
{
    tt_codec_state state[TT_CODEC_STATES];
    int n = 0;
    TT_TRY(tt_codec_states(c->def, c->params, x, state, &n));
    for (int i = 0; i < n; i++)
        c->state[i] = tt_state(b, TT_ROLE_OPTIM, state[i].name, state[i].dtype,
                               &state[i].shape, state[i].init);
    return b->status;
}

static int64_t bytes_of(const tt_builder *b, tt_val v)
{
    const tt_type *type = tt_type_of(b, v);
    return tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
}

// Encodes in a graph of its own and adds up.
static tt_status add_rounds(tt_builder *b, tt_coding *c, const tt_type *x,
                            int64_t *bytes_out)
{
    const tt_dtype wide = x->dtype == TT_F64 ? TT_F64 : TT_F32;
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    tt_val joined[TT_CODEC_CODES];
    int64_t bytes = 0;
    c->x = tt_state(b, TT_ROLE_BUFFER, "x", x->dtype, &x->shape, zero);
    c->residual =
        c->def->needs_feedback
            ? tt_state(b, TT_ROLE_OPTIM, "residual", wide, &x->shape, zero)
            : TT_NONE;
    c->seed = c->common_seed = tt_scalar(b, "seed", TT_I64);
    c->step = tt_scalar(b, "step", TT_I64);
    TT_TRY(make_states(b, c, x));
    for (int round = 0; round < TT_CODEC_ROUNDS && !c->is_last; round++) {
        TT_TRY(tt_codec_encode(b, c, round == 0 ? NULL : joined));
        for (int i = 0; i < c->n_codes; i++) {
            joined[i] = c->code[i];
            bytes += bytes_of(b, c->code[i]);
        }
    }
    *bytes_out = bytes;
    return TT_OK;
}

tt_status tt_codec_bytes(const tt_codec_def *def, const void *params,
                         const tt_type *x, int64_t peers, int64_t *bytes_out)
{
    tt_builder b;
    tt_coding c = {.def = def, .params = params, .peers = peers};
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_status status = add_rounds(&b, &c, x, bytes_out);
    tt_builder_fini(&b);
    return status;
}
