// gpt - GPT-2 of any size: pre-norm transformer, learned positions, tanh GELU, tied
// head. Names and shapes as Hugging Face's GPT2LMHeadModel; weights are stored
// (in, out). With experts, each MLP is a layer of them.
//
//   ids -> wte + wpe -> [ x + attention(ln_1 x);  x + mlp(ln_2 x) ] x layers
//       -> ln_f -> times wte transposed -> logits
//
// Dimensions have names ("heads:12.head:64"). Layouts refer to these names, so nothing
// here says how the model is split over ranks: "heads:tensor" splits c_attn by columns
// and c_proj by rows, because both have the factor `heads`.
//
// Projections into the residual stream start smaller, by 1 / sqrt(2 * layers), as in
// GPT-2: each block adds two terms to the stream, and its variance shall not grow with
// the depth.

#include "model/model.h"
#include "model/nn.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

typedef struct params {
    int64_t layers, width, heads, vocab, context, ff;
    double dropout, deviation, eps;
    bool bias, tied;
    int64_t experts, choices;
    double capacity, balance;
} params;

static void shape_heads(const params *p, char *heads, size_t bytes)
{
    snprintf(heads, bytes, "heads:%lld.head:%lld", (long long)p->heads,
             (long long)(p->width / p->heads));
}

// Queries, keys and values are one product with a packed matrix (c_attn).
static tt_val attention(tt_builder *b, const params *p, tt_val x,
                        const tt_past *past)
{
    char embed[32], heads[64], packed[96];
    snprintf(embed, sizeof embed, "embed:%lld", (long long)p->width);
    shape_heads(p, heads, sizeof heads);
    snprintf(packed, sizeof packed, "qkv:3.%s", heads);
    const tt_dense in = {.name = "attn.c_attn",
                         .in = embed,
                         .out = packed,
                         .has_bias = p->bias,
                         .init = tt_init_normal(p->deviation)};
    const tt_dense out = {
        .name = "attn.c_proj",
        .in = heads,
        .out = embed,
        .has_bias = p->bias,
        .init = tt_init_normal(p->deviation / sqrt(2.0 * (double)p->layers))};
    const tt_val qkv = tt_nn_dense(b, x, &in);
    const tt_val o = tt_nn_packed_attention(b, qkv, past);
    return tt_dropout(b, tt_nn_dense(b, o, &out), p->dropout);
}

static tt_val mlp(tt_builder *b, const params *p, tt_val x)
{
    char embed[32], ff[32];
    snprintf(embed, sizeof embed, "embed:%lld", (long long)p->width);
    snprintf(ff, sizeof ff, "ff:%lld",
             (long long)(p->ff > 0 ? p->ff : 4 * p->width));
    const tt_dense up = {.name = "mlp.c_fc",
                         .in = embed,
                         .out = ff,
                         .has_bias = p->bias,
                         .activation = "gelu_tanh",
                         .init = tt_init_normal(p->deviation)};
    const tt_dense down = {
        .name = "mlp.c_proj",
        .in = ff,
        .out = embed,
        .has_bias = p->bias,
        .init = tt_init_normal(p->deviation / sqrt(2.0 * (double)p->layers))};
    return tt_dropout(b, tt_nn_dense(b, tt_nn_dense(b, x, &up), &down),
                      p->dropout);
}

// Adds the load-balancing loss of the experts.
static tt_val experts(tt_builder *b, const params *p, tt_val x, tt_model_io *io)
{
    const tt_moe moe = {.name = "mlp",
                        .experts = p->experts,
                        .choices = p->choices,
                        .width = p->width,
                        .ff = p->ff > 0 ? p->ff : 4 * p->width,
                        .capacity = p->capacity,
                        .init = tt_init_normal(p->deviation),
                        .out_init = tt_init_normal(
                            p->deviation / sqrt(2.0 * (double)p->layers))};
    tt_val balance = TT_NONE;
    const tt_val y = tt_nn_moe(b, x, &moe, &balance);
    balance = tt_scale(b, balance, p->balance / (double)p->layers);
    io->extra_loss =
        tt_is(io->extra_loss) ? tt_add(b, io->extra_loss, balance) : balance;
    return tt_dropout(b, y, p->dropout);
}

static tt_status check(const params *p, const tt_model_io *io)
{
    if (p->experts > 0 && p->choices > p->experts)
        return tt_fail(TT_ERR_ARG,
                       "model.choices=%lld is more than model.experts=%lld",
                       (long long)p->choices, (long long)p->experts);
    if (p->width % p->heads != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.width=%lld is not a multiple of model.heads=%lld",
                       (long long)p->width, (long long)p->heads);
    if (io->seq > p->context)
        return tt_fail(TT_ERR_ARG, "seq=%lld is longer than model.context=%lld",
                       (long long)io->seq, (long long)p->context);
    return TT_OK;
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    if (io->seq == 0)
        io->seq = p->context;
    io->extra_loss = TT_NONE;
    TT_TRY(check(p, io));
    const tt_past past = tt_nn_past(b, io, p->context);
    const tt_val ids =
        tt_nn_tokens(b, io->batch, io->seq, io->decodes ? NULL : &io->labels);
    const int top = tt_scope_push(b, "transformer");
    const tt_init normal = tt_init_normal(p->deviation);
    const tt_val wte =
        tt_param(b, "wte.weight", normal, "vocab:%lld embed:%lld",
                 (long long)p->vocab, (long long)p->width);
    const tt_val wpe =
        tt_param(b, "wpe.weight", normal, "positions:%lld embed:%lld",
                 (long long)p->context, (long long)p->width);
    tt_val x =
        tt_call(b, &tt_op_embedding, NULL, (tt_val[]){ids, wte}, 2, NULL);
    x = tt_position_embedding(b, x, wpe, past.position);
    x = tt_dropout(b, x, p->dropout);
    for (int64_t i = 0; i < p->layers; i++) {
        const int layer = tt_scope_push(b, "h.%lld", (long long)i);
        const tt_val a = tt_nn_layer_norm(b, x, "ln_1", p->eps);
        x = tt_nn_add(b, x, attention(b, p, a, &past));
        const tt_val m = tt_nn_layer_norm(b, x, "ln_2", p->eps);
        x = tt_nn_add(b, x,
                      p->experts > 0 ? experts(b, p, m, io) : mlp(b, p, m));
        tt_scope_pop(b, layer);
    }
    x = tt_nn_layer_norm(b, x, "ln_f", p->eps);
    tt_scope_pop(b, top);
    const int head = tt_scope_push(b, "lm_head");
    const tt_val to_logits =
        p->tied ? wte
                : tt_param(b, "weight", normal, "vocab:%lld embed:%lld",
                           (long long)p->vocab, (long long)p->width);
    io->logits = tt_callf(b, &tt_op_matmul, (tt_val[]){x, to_logits, TT_NONE},
                          3, "transpose_b=true");
    tt_scope_pop(b, head);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"layers", "12", "transformer blocks", TT_OPT_I64, offsetof(params, layers),
     NULL, 1, 1000},
    {"width", "768", "width of the residual stream", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 1 << 20},
    {"heads", "12", "attention heads", TT_OPT_I64, offsetof(params, heads),
     NULL, 1, 1 << 16},
    {"vocab", "50257", "tokens in the vocabulary", TT_OPT_I64,
     offsetof(params, vocab), NULL, 1, 1 << 30},
    {"context", "1024", "longest sequence", TT_OPT_I64,
     offsetof(params, context), NULL, 1, 1 << 24},
    {"ff", "0", "width of the MLP; 0: four times width", TT_OPT_I64,
     offsetof(params, ff), NULL, 0, 1 << 24},
    {"dropout", "0", "probability of dropping", TT_OPT_F64,
     offsetof(params, dropout), NULL, 0, 0.999},
    {"deviation", "0.02", "of initial weights", TT_OPT_F64,
     offsetof(params, deviation), NULL, 1e-9, 100},
    {"eps", "1e-5", "of the layer norms", TT_OPT_F64, offsetof(params, eps),
     NULL, 1e-15, 1},
    {"bias", "true", "biases in the linear layers", TT_OPT_BOOL,
     offsetof(params, bias)},
    {"tied", "true", "the head shares the embedding", TT_OPT_BOOL,
     offsetof(params, tied)},
    {"experts", "0", "experts in place of each MLP; 0: none", TT_OPT_I64,
     offsetof(params, experts), NULL, 0, 1 << 16},
    {"choices", "2", "experts that a token goes to", TT_OPT_I64,
     offsetof(params, choices), NULL, 1, 1024},
    {"capacity", "1.25", "room of an expert, relative to an equal share",
     TT_OPT_F64, offsetof(params, capacity), NULL, 0.01, 1000},
    {"balance", "0.01", "weight of the loss that keeps experts equally busy",
     TT_OPT_F64, offsetof(params, balance), NULL, 0, 100},
    {0},
};

static const tt_model_preset presets[] = {
    {"gpt2-124m", "layers=12 width=768 heads=12"},
    {"gpt2-350m", "layers=24 width=1024 heads=16"},
    {"gpt2-774m", "layers=36 width=1280 heads=20"},
    {"gpt2-1558m", "layers=48 width=1600 heads=25"},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"layers=2 width=8 heads=2 vocab=10 context=6", .seq = 6,
     .tensor = "heads:tensor ff:tensor vocab:tensor"},
    {"layers=2 width=8 heads=2 vocab=10 context=6 dropout=0.3", .seq = 6},
    {"layers=1 width=8 heads=2 vocab=10 context=6 tied=false", .seq = 6},
    {"layers=2 width=8 heads=2 vocab=10 context=6 experts=3 "
     "balance=0",
     .seq = 6, .tensor = "heads:tensor experts:tensor vocab:tensor"},
    {0},
};

const tt_model_def tt_model_gpt = {
    .name = "gpt",
    .doc = "GPT-2: pre-norm transformer with learned positions, tied head.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_TOKENS,
    .can_decode = true,
    .samples = samples,
    .build = build,
};
