// lstm - a word language model: embedding, LSTM layers, linear decoder. Names as
// PyTorch's word_language_model: encoder, rnn.weight_ih_l0, ..., decoder. Every
// sample starts from a zero state. The recurrence runs over [seq, batch].
//
// The products of all inputs with weight_ih do not depend on the recurrence, so they
// are one large product for the whole sequence. Only the product with weight_hh is
// done step by step, inside of the operator lstm. A decoder keeps h and c as states
// and continues from them.

#include "ops/nn/lstm.h"

#include "model/model.h"
#include "model/nn.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/ops.h"

#include <stdio.h>

typedef struct params {
    int64_t layers, embed, hidden, vocab, context;
    double dropout;
} params;

static tt_val weight(tt_builder *b, const params *p, const char *kind,
                     int64_t layer, const char *in)
{
    char name[64];
    snprintf(name, sizeof name, "rnn.%s_l%lld", kind, (long long)layer);
    return tt_param(b, name, tt_init_fan_in(p->hidden),
                    "gates:4.hidden:%lld %s", (long long)p->hidden, in);
}

// Zeros [batch, hidden], shaped after the gates [seq, batch, gates.hidden].
static tt_val zeros(tt_builder *b, tt_val gates)
{
    tt_val x = tt_callf(b, &tt_op_split, &gates, 1, "factor=gates");
    x = tt_callf(b, &tt_op_slice, &x, 1, "dim=0 start=0 size=1");
    x = tt_reduce_dims(b, x, TT_REDUCE_SUM, (const int64_t[]){0}, 1);
    return tt_callf(b, &tt_op_fill, &x, 1, "value=0"); // of a shape only
}

// The state `rnn.KIND_lN` of a decoder.
static tt_val carried(tt_builder *b, const params *p, const char *kind,
                      int64_t layer, const tt_model_io *io)
{
    char name[64];
    tt_shape shape = {0};
    snprintf(name, sizeof name, "rnn.%s_l%lld", kind, (long long)layer);
    (void)tt_shape_push(&shape, "batch", io->batch);
    (void)tt_shape_push(&shape, "hidden", p->hidden);
    const tt_dtype wide = b->dtype == TT_F64 ? TT_F64 : TT_F32;
    return tt_state(b, TT_ROLE_BUFFER, name, kind[0] == 'c' ? wide : b->dtype,
                    &shape, tt_init_const(0));
}

// The last step of all [seq, batch, hidden] is what the next one starts from.
static void carry(tt_builder *b, tt_val state, tt_val all)
{
    const int64_t last = tt_dim_of(b, all, 0) - 1;
    const tt_val x = tt_callf(b, &tt_op_slice, &all, 1,
                              "dim=0 start=%lld size=1", (long long)last);
    tt_update(b, state, tt_callf(b, &tt_op_reshape, &x, 1, "dims=2,1"));
}

static tt_val layer(tt_builder *b, const params *p, int64_t i, tt_val x,
                    const tt_model_io *io)
{
    char in[32], hidden[32];
    snprintf(in, sizeof in, "in:%lld", (long long)tt_dim_of(b, x, 2));
    snprintf(hidden, sizeof hidden, "from:%lld", (long long)p->hidden);
    const tt_val w_ih = weight(b, p, "weight_ih", i, in);
    const tt_val w_hh = weight(b, p, "weight_hh", i, hidden);
    const tt_val b_ih = weight(b, p, "bias_ih", i, "");
    const tt_val b_hh = weight(b, p, "bias_hh", i, "");
    const tt_val xg = tt_callf(b, &tt_op_matmul, (tt_val[]){x, w_ih, b_ih}, 3,
                               "transpose_b=true");
    const tt_lstm_args args = {
        .xg = xg,
        .w_hh = w_hh,
        .b_hh = b_hh,
        .h0 = io->decodes ? carried(b, p, "h", i, io) : zeros(b, xg),
        .c0 = io->decodes ? carried(b, p, "c", i, io) : zeros(b, xg)};
    tt_val c;
    const tt_val h = tt_lstm(b, &args, &c);
    if (io->decodes) {
        carry(b, args.h0, h);
        carry(b, args.c0, c);
    }
    return h;
}

static tt_val decoder(tt_builder *b, const params *p, tt_val x)
{
    char in[32], out[32];
    snprintf(in, sizeof in, "in:%lld", (long long)p->hidden);
    snprintf(out, sizeof out, "vocab:%lld", (long long)p->vocab);
    const tt_dense d = {.name = "decoder",
                        .in = in,
                        .out = out,
                        .is_transposed = true,
                        .has_bias = true,
                        .init = {.kind = TT_INIT_UNIFORM, .a = 0.1, .of = {-1}},
                        .bias_init = tt_init_const(0)};
    return tt_nn_dense(b, x, &d);
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    tt_val y = TT_NONE;
    if (io->seq == 0)
        io->seq = p->context;
    tt_val ids = tt_nn_tokens(b, io->batch, io->seq, io->decodes ? NULL : &y);
    ids = tt_callf(b, &tt_op_transpose, &ids, 1, "perm=1,0");
    if (io->decodes)
        io->context = 0;
    else
        io->labels = tt_callf(b, &tt_op_transpose, &y, 1, "perm=1,0");
    const tt_init uniform = {.kind = TT_INIT_UNIFORM, .a = 0.1, .of = {-1}};
    const tt_val encoder =
        tt_param(b, "encoder.weight", uniform, "vocab:%lld embed:%lld",
                 (long long)p->vocab, (long long)p->embed);
    tt_val x =
        tt_call(b, &tt_op_embedding, NULL, (tt_val[]){ids, encoder}, 2, NULL);
    x = tt_dropout(b, x, p->dropout);
    for (int64_t i = 0; i < p->layers; i++)
        x = tt_dropout(b, layer(b, p, i, x, io), p->dropout);
    io->logits = decoder(b, p, x);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"layers", "2", "LSTM layers", TT_OPT_I64, offsetof(params, layers), NULL,
     1, 1000},
    {"embed", "200", "width of the embedding", TT_OPT_I64,
     offsetof(params, embed), NULL, 1, 1 << 20},
    {"hidden", "200", "units of a layer", TT_OPT_I64, offsetof(params, hidden),
     NULL, 1, 1 << 20},
    {"vocab", "10000", "words in the vocabulary", TT_OPT_I64,
     offsetof(params, vocab), NULL, 1, 1 << 30},
    {"context", "35", "words per sample", TT_OPT_I64, offsetof(params, context),
     NULL, 1, 1 << 20},
    {"dropout", "0", "probability of dropping", TT_OPT_F64,
     offsetof(params, dropout), NULL, 0, 0.999},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"layers=2 embed=6 hidden=5 vocab=9", .seq = 5},
    {"layers=2 embed=6 hidden=5 vocab=9 dropout=0.3", .seq = 5},
    {0},
};

const tt_model_def tt_model_lstm = {
    .name = "lstm",
    .doc = "LSTM language model.",
    .options = options,
    .params_bytes = sizeof(params),
    .task = TT_TASK_TOKENS,
    .can_decode = true,
    .samples = samples,
    .build = build,
};
