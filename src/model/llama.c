// llama - Llama and those like it: RMS norm, rotary positions, SwiGLU, grouped
// queries. Names and shapes as Hugging Face's LlamaForCausalLM, (out, in).
//
//   Mistral   window: a sequence may not be longer, so that no key is hidden
//   Qwen2     qkv_bias
//   Qwen3     qk_norm: RMS norm of each head's query and key before they are turned
//   Mixtral   experts in place of the MLP; matrices of all experts are one tensor
//
//   ids -> embed_tokens -> [ x + attention(norm x);  x + mlp(norm x) ] x layers
//       -> norm -> lm_head (or embed_tokens transposed) -> logits
//
// Grouped queries: several heads of queries share one head of keys and values, so the
// cache of a decoder is smaller. Rotary positions turn pairs of numbers of each head
// by an angle that grows with the position; the options rope_* stretch these angles
// for contexts that are longer than those in training.

#include "model/model.h"
#include "model/nn.h"
#include "ops/arith.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

typedef struct params {
    int64_t layers, width, heads, kv_heads, vocab, ff, context;
    double theta, deviation, eps;
    bool tied;
    int64_t head, window;
    bool qkv_bias, out_bias, mlp_bias, qk_norm;
    int rope; // tt_rotary_scaling
    double rope_factor, rope_low, rope_high, rope_context, rope_amplitude;
    int64_t experts, choices;
    double capacity, balance;
} params;

typedef struct shapes {
    char embed[32], heads[64], kv[64], ff[32];
} shapes;

static int64_t head_of(const params *p)
{
    return p->head > 0 ? p->head : p->width / p->heads;
}

// Longest sequence: beyond the window keys would be hidden.
static int64_t longest(const params *p)
{
    return p->window > 0 && p->window < p->context ? p->window : p->context;
}

// YaRN also makes attention a little sharper, more so for longer contexts.
static double amplitude_of(const params *p)
{
    if (p->rope_amplitude > 0)
        return p->rope_amplitude;
    return p->rope == TT_ROTARY_YARN && p->rope_factor > 1
               ? 0.1 * log(p->rope_factor) + 1
               : 1;
}

static tt_rotary_params rotary_of(const params *p)
{
    const double usual_high = p->rope == TT_ROTARY_YARN ? 32 : 4;
    return (tt_rotary_params){
        .theta = p->theta,
        .scaling = p->rope,
        .factor = p->rope_factor,
        .low = p->rope_low,
        .high = p->rope_high > 0 ? p->rope_high : usual_high,
        .context = p->rope_context > 0 ? p->rope_context : (double)p->context,
        .amplitude = amplitude_of(p)};
}

static shapes shapes_of(const params *p)
{
    shapes s;
    const long long head = (long long)head_of(p);
    snprintf(s.embed, sizeof s.embed, "embed:%lld", (long long)p->width);
    snprintf(s.heads, sizeof s.heads, "heads:%lld.head:%lld",
             (long long)p->heads, head);
    snprintf(s.kv, sizeof s.kv, "kv_heads:%lld.head:%lld",
             (long long)p->kv_heads, head);
    snprintf(s.ff, sizeof s.ff, "ff:%lld", (long long)p->ff);
    return s;
}

typedef struct layer {
    const char *name, *in, *out;
    bool has_bias;
} layer;

static tt_val dense(tt_builder *b, const params *p, tt_val x, const layer *l)
{
    const tt_dense d = {.name = l->name,
                        .in = l->in,
                        .out = l->out,
                        .is_transposed = true,
                        .has_bias = l->has_bias,
                        .init = tt_init_normal(p->deviation)};
    return tt_nn_dense(b, x, &d);
}

static tt_val attention(tt_builder *b, const params *p, const shapes *s,
                        tt_val x, const tt_past *past)
{
    const tt_rotary_params rotary = rotary_of(p);
    const bool bias = p->qkv_bias;
    const layer in[] = {{"self_attn.q_proj", s->embed, s->heads, bias},
                        {"self_attn.k_proj", s->embed, s->kv, bias},
                        {"self_attn.v_proj", s->embed, s->kv, bias}};
    const layer out = {"self_attn.o_proj", s->heads, s->embed, p->out_bias};
    tt_val part[3];
    for (int i = 0; i < 3; i++)
        part[i] = dense(b, p, x, &in[i]);
    for (int i = 0; i < 3; i++)
        part[i] = tt_callf(b, &tt_op_reshape, &part[i], 1, "dims=1,1,1,1");
    if (p->qk_norm) {
        part[0] = tt_nn_rms_norm(b, part[0], "self_attn.q_norm", p->eps);
        part[1] = tt_nn_rms_norm(b, part[1], "self_attn.k_norm", p->eps);
    }
    part[0] = tt_rotary(b, part[0], past->position, &rotary);
    part[1] = tt_rotary(b, part[1], past->position, &rotary);
    tt_val o = tt_nn_causal_attention(b, part, past);
    o = tt_callf(b, &tt_op_reshape, &o, 1, "dims=1,1,2");
    return dense(b, p, o, &out);
}

static tt_val mlp(tt_builder *b, const params *p, const shapes *s, tt_val x)
{
    const layer gate = {"mlp.gate_proj", s->embed, s->ff, p->mlp_bias};
    const layer up = {"mlp.up_proj", s->embed, s->ff, p->mlp_bias};
    const layer down = {"mlp.down_proj", s->ff, s->embed, p->mlp_bias};
    tt_val in[2];
    in[0] = dense(b, p, x, &gate);
    in[1] = dense(b, p, x, &up);
    return dense(b, p, tt_call(b, &tt_op_swiglu, NULL, in, 2, NULL), &down);
}

// Adds the load-balancing loss of the experts.
static tt_val experts(tt_builder *b, const params *p, tt_val x, tt_model_io *io)
{
    const tt_moe moe = {.name = "block_sparse_moe",
                        .experts = p->experts,
                        .choices = p->choices,
                        .width = p->width,
                        .ff = p->ff,
                        .capacity = p->capacity,
                        .is_gated = true,
                        .init = tt_init_normal(p->deviation),
                        .out_init = tt_init_normal(p->deviation)};
    tt_val balance = TT_NONE;
    const tt_val y = tt_nn_moe(b, x, &moe, &balance);
    if (p->balance == 0)
        return y;
    balance = tt_scale(b, balance, p->balance / (double)p->layers);
    io->extra_loss =
        tt_is(io->extra_loss) ? tt_add(b, io->extra_loss, balance) : balance;
    return y;
}

static tt_val block(tt_builder *b, const params *p, const shapes *s, tt_val x,
                    const tt_past *past, tt_model_io *io)
{
    const tt_val a = tt_nn_rms_norm(b, x, "input_layernorm", p->eps);
    x = tt_nn_add(b, x, attention(b, p, s, a, past));
    const tt_val m = tt_nn_rms_norm(b, x, "post_attention_layernorm", p->eps);
    return tt_nn_add(b, x,
                     p->experts > 0 ? experts(b, p, m, io) : mlp(b, p, s, m));
}

static tt_status check(const params *p, const tt_model_io *io)
{
    if (p->head == 0 &&
        (p->width % p->heads != 0 || p->width / p->heads % 2 != 0))
        return tt_fail(TT_ERR_ARG,
                       "model.width=%lld is not an even multiple of "
                       "model.heads=%lld (model.head=N would do)",
                       (long long)p->width, (long long)p->heads);
    if (p->head % 2 != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.head=%lld is odd; rotary positions turn pairs",
                       (long long)p->head);
    if (p->experts > 0 && p->choices > p->experts)
        return tt_fail(TT_ERR_ARG,
                       "model.choices=%lld is more than model.experts=%lld",
                       (long long)p->choices, (long long)p->experts);
    if (p->experts > 0 && p->mlp_bias)
        return tt_fail(TT_ERR_ARG, "model.mlp_bias is for models without "
                                   "experts");
    if (p->heads % p->kv_heads != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.heads=%lld is not a multiple of "
                       "model.kv_heads=%lld",
                       (long long)p->heads, (long long)p->kv_heads);
    if (io->seq > p->context)
        return tt_fail(TT_ERR_ARG, "seq=%lld is longer than model.context=%lld",
                       (long long)io->seq, (long long)p->context);
    if (io->seq > longest(p))
        return tt_fail(TT_ERR_ARG,
                       "seq=%lld is longer than model.window=%lld: attention "
                       "that slides over a longer text is not supported; set "
                       "seq to at most %lld",
                       (long long)io->seq, (long long)p->window,
                       (long long)p->window);
    return TT_OK;
}

static tt_val head(tt_builder *b, const params *p, const shapes *s, tt_val x,
                   tt_val embed)
{
    if (p->tied) {
        const int scope = tt_scope_push(b, "lm_head");
        x = tt_callf(b, &tt_op_matmul, (tt_val[]){x, embed, TT_NONE}, 3,
                     "transpose_b=true");
        tt_scope_pop(b, scope);
        return x;
    }
    char vocab[32];
    snprintf(vocab, sizeof vocab, "vocab:%lld", (long long)p->vocab);
    const layer l = {"lm_head", s->embed, vocab, false};
    return dense(b, p, x, &l);
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    const shapes s = shapes_of(p);
    if (io->seq == 0)
        io->seq = longest(p);
    io->extra_loss = TT_NONE;
    TT_TRY(check(p, io));
    const tt_past past = tt_nn_past(b, io, longest(p));
    const tt_val ids =
        tt_nn_tokens(b, io->batch, io->seq, io->decodes ? NULL : &io->labels);
    const int top = tt_scope_push(b, "model");
    const tt_val embed = tt_param(
        b, "embed_tokens.weight", tt_init_normal(p->deviation),
        "vocab:%lld embed:%lld", (long long)p->vocab, (long long)p->width);
    tt_val x =
        tt_call(b, &tt_op_embedding, NULL, (tt_val[]){ids, embed}, 2, NULL);
    for (int64_t i = 0; i < p->layers; i++) {
        const int scope = tt_scope_push(b, "layers.%lld", (long long)i);
        x = block(b, p, &s, x, &past, io);
        tt_scope_pop(b, scope);
    }
    x = tt_nn_rms_norm(b, x, "norm", p->eps);
    tt_scope_pop(b, top);
    io->logits = head(b, p, &s, x, embed);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"layers", "12", "transformer blocks", TT_OPT_I64, offsetof(params, layers),
     NULL, 1, 1000},
    {"width", "768", "width of the residual stream", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 1 << 20},
    {"heads", "12", "query heads", TT_OPT_I64, offsetof(params, heads), NULL, 1,
     1 << 16},
    {"kv_heads", "4", "key and value heads", TT_OPT_I64,
     offsetof(params, kv_heads), NULL, 1, 1 << 16},
    {"vocab", "32000", "tokens in the vocabulary", TT_OPT_I64,
     offsetof(params, vocab), NULL, 1, 1 << 30},
    {"ff", "2048", "width of the MLP", TT_OPT_I64, offsetof(params, ff), NULL,
     1, 1 << 24},
    {"context", "2048", "longest sequence", TT_OPT_I64,
     offsetof(params, context), NULL, 1, 1 << 24},
    {"theta", "10000", "base of the rotary positions", TT_OPT_F64,
     offsetof(params, theta), NULL, 1, 1e12},
    {"deviation", "0.02", "of initial weights", TT_OPT_F64,
     offsetof(params, deviation), NULL, 1e-9, 100},
    {"eps", "1e-5", "of the RMS norms", TT_OPT_F64, offsetof(params, eps), NULL,
     1e-15, 1},
    {"tied", "false", "the head shares the embedding", TT_OPT_BOOL,
     offsetof(params, tied)},
    {"head", "0", "entries of a head; 0: width / heads", TT_OPT_I64,
     offsetof(params, head), NULL, 0, 1 << 16},
    {"qkv_bias", "false", "biases of queries, keys and values", TT_OPT_BOOL,
     offsetof(params, qkv_bias)},
    {"out_bias", "false", "bias of what attention gives", TT_OPT_BOOL,
     offsetof(params, out_bias)},
    {"mlp_bias", "false", "biases of the MLP", TT_OPT_BOOL,
     offsetof(params, mlp_bias)},
    {"qk_norm", "false", "RMS norm of each head's query and key", TT_OPT_BOOL,
     offsetof(params, qk_norm)},
    {"window", "0", "keys that a query sees; seq is at most this; 0: all",
     TT_OPT_I64, offsetof(params, window), NULL, 0, 1 << 24},
    {"rope", "none", "scaling of rotary positions for longer texts",
     TT_OPT_CHOICE, offsetof(params, rope), "none|linear|llama3|yarn"},
    {"rope_factor", "1", "by which they are slowed down", TT_OPT_F64,
     offsetof(params, rope_factor), NULL, 1e-6, 1e9},
    {"rope_context", "0", "tokens before scaling; 0: context", TT_OPT_F64,
     offsetof(params, rope_context), NULL, 0, 1e12},
    {"rope_low", "1", "turns in them below which all slow down", TT_OPT_F64,
     offsetof(params, rope_low), NULL, 1e-6, 1e9},
    {"rope_high", "0", "turns above which none do; 0: 4, yarn 32", TT_OPT_F64,
     offsetof(params, rope_high), NULL, 0, 1e9},
    {"rope_amplitude", "0", "factor on queries and keys; 0: 1, yarn its own",
     TT_OPT_F64, offsetof(params, rope_amplitude), NULL, 0, 1e6},
    {"experts", "0", "experts in place of each MLP; 0: none", TT_OPT_I64,
     offsetof(params, experts), NULL, 0, 1 << 16},
    {"choices", "2", "experts that a token goes to", TT_OPT_I64,
     offsetof(params, choices), NULL, 1, 1024},
    {"capacity", "0",
     "room of an expert, relative to an equal share; 0: for all tokens",
     TT_OPT_F64, offsetof(params, capacity), NULL, 0, 1000},
    {"balance", "0.01", "weight of the loss that keeps experts equally busy",
     TT_OPT_F64, offsetof(params, balance), NULL, 0, 100},
    {0},
};

static const tt_model_preset presets[] = {
    {"llama-160m", "layers=12 width=768 heads=12 kv_heads=12 ff=3072"},
    {"llama-1b", "layers=16 width=2048 heads=32 kv_heads=8 ff=8192 "
                 "vocab=128256 theta=500000 tied=true"},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"layers=2 width=16 heads=4 kv_heads=2 vocab=10 ff=12 context=6", .seq = 6,
     .tensor = "heads:tensor kv_heads:tensor ff:tensor vocab:tensor"},
    {"layers=2 width=16 heads=4 kv_heads=1 vocab=10 ff=12 context=6 tied=true",
     .seq = 5, .tensor = "heads:tensor ff:tensor vocab:tensor"},
    // as Qwen and Llama 3.1
    {"layers=2 width=12 heads=4 kv_heads=2 head=6 vocab=10 ff=12 context=6 "
     "qkv_bias=true out_bias=true mlp_bias=true qk_norm=true rope=llama3 "
     "rope_factor=4 rope_context=30 theta=100",
     .seq = 6, .tensor = "heads:tensor kv_heads:tensor ff:tensor vocab:tensor"},
    // as Mixtral
    {"layers=2 width=16 heads=4 kv_heads=2 vocab=10 ff=12 context=6 experts=3 "
     "balance=0 rope=yarn rope_factor=4 rope_context=30 rope_high=4 theta=100",
     .seq = 6,
     .tensor = "heads:tensor kv_heads:tensor experts:tensor vocab:tensor"},
    {0},
};

const tt_model_def tt_model_llama = {
    .name = "llama",
    .doc = "Llama, Mistral, Qwen2 and 3, Mixtral: RMS norm, rotary positions, "
           "SwiGLU.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_TOKENS,
    .can_decode = true,
    .samples = samples,
    .build = build,
};
