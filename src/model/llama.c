// llama - a Llama-style GPT: RMS norm, rotary positions, SwiGLU, grouped queries,
// no biases. Names and shapes as Hugging Face's LlamaForCausalLM, (out, in).

#include "model/model.h"
#include "model/nn.h"
#include "ops/embed.h"
#include "ops/ops.h"

#include <stdio.h>

typedef struct params {
    int64_t layers, width, heads, kv_heads, vocab, ff, context;
    double theta, deviation, eps;
    bool tied;
} params;

typedef struct shapes {
    char embed[32], heads[64], kv[64], ff[32];
} shapes;

static shapes shapes_of(const params *p)
{
    shapes s;
    const long long head = (long long)(p->width / p->heads);
    snprintf(s.embed, sizeof s.embed, "embed:%lld", (long long)p->width);
    snprintf(s.heads, sizeof s.heads, "heads:%lld.head:%lld",
             (long long)p->heads, head);
    snprintf(s.kv, sizeof s.kv, "kv_heads:%lld.head:%lld",
             (long long)p->kv_heads, head);
    snprintf(s.ff, sizeof s.ff, "ff:%lld", (long long)p->ff);
    return s;
}

static tt_val dense(tt_builder *b, const params *p, tt_val x, const char *name,
                    const char *in, const char *out)
{
    const tt_dense d = {.name = name,
                        .in = in,
                        .out = out,
                        .is_transposed = true,
                        .init = tt_init_normal(p->deviation)};
    return tt_nn_dense(b, x, &d);
}

static tt_val attention(tt_builder *b, const params *p, const shapes *s,
                        tt_val x, const tt_past *past)
{
    tt_val part[3] = {
        dense(b, p, x, "self_attn.q_proj", s->embed, s->heads),
        dense(b, p, x, "self_attn.k_proj", s->embed, s->kv),
        dense(b, p, x, "self_attn.v_proj", s->embed, s->kv),
    };
    for (int i = 0; i < 3; i++)
        part[i] = tt_callf(b, &tt_op_reshape, &part[i], 1, "dims=1,1,1,1");
    part[0] = tt_rotary(b, part[0], past->position, p->theta);
    part[1] = tt_rotary(b, part[1], past->position, p->theta);
    tt_val o = tt_nn_causal_attention(b, part, past);
    o = tt_callf(b, &tt_op_reshape, &o, 1, "dims=1,1,2");
    return dense(b, p, o, "self_attn.o_proj", s->heads, s->embed);
}

static tt_val mlp(tt_builder *b, const params *p, const shapes *s, tt_val x)
{
    const tt_val gate = dense(b, p, x, "mlp.gate_proj", s->embed, s->ff);
    const tt_val up = dense(b, p, x, "mlp.up_proj", s->embed, s->ff);
    const tt_val y =
        tt_call(b, &tt_op_swiglu, NULL, (tt_val[]){gate, up}, 2, NULL);
    return dense(b, p, y, "mlp.down_proj", s->ff, s->embed);
}

static tt_val block(tt_builder *b, const params *p, const shapes *s, tt_val x,
                    const tt_past *past)
{
    const tt_val a = tt_nn_rms_norm(b, x, "input_layernorm", p->eps);
    x = tt_nn_add(b, x, attention(b, p, s, a, past));
    const tt_val m = tt_nn_rms_norm(b, x, "post_attention_layernorm", p->eps);
    return tt_nn_add(b, x, mlp(b, p, s, m));
}

static tt_status check(const params *p, const tt_model_io *io)
{
    if (p->width % p->heads != 0 || p->width / p->heads % 2 != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.width=%lld is not an even multiple of "
                       "model.heads=%lld",
                       (long long)p->width, (long long)p->heads);
    if (p->heads % p->kv_heads != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.heads=%lld is not a multiple of "
                       "model.kv_heads=%lld",
                       (long long)p->heads, (long long)p->kv_heads);
    if (io->seq > p->context)
        return tt_fail(TT_ERR_ARG, "seq=%lld is longer than model.context=%lld",
                       (long long)io->seq, (long long)p->context);
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
    return dense(b, p, x, "lm_head", s->embed, vocab);
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    const shapes s = shapes_of(p);
    if (io->seq == 0)
        io->seq = p->context;
    TT_TRY(check(p, io));
    const tt_past past = tt_nn_past(b, io, p->context);
    const tt_val ids =
        tt_nn_tokens(b, io->batch, io->seq, io->decodes ? NULL : &io->labels);
    const int top = tt_scope_push(b, "model");
    const tt_val embed = tt_param(
        b, "embed_tokens.weight", tt_init_normal(p->deviation),
        "vocab:%lld embed:%lld", (long long)p->vocab, (long long)p->width);
    tt_val x =
        tt_call(b, &tt_op_embedding, NULL, (tt_val[]){ids, embed}, 2, NULL);
    for (int64_t i = 0; i < p->layers; i++) {
        const int layer = tt_scope_push(b, "layers.%lld", (long long)i);
        x = block(b, p, &s, x, &past);
        tt_scope_pop(b, layer);
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
    {0},
};

static const tt_model_preset presets[] = {
    {"llama-160m", "layers=12 width=768 heads=12 kv_heads=12 ff=3072"},
    {"llama-1b", "layers=16 width=2048 heads=32 kv_heads=8 ff=8192 "
                 "vocab=128256 theta=500000 tied=true"},
    {0},
};

const tt_model_def tt_model_llama = {
    .name = "llama",
    .doc = "Llama-style GPT: RMS norm, rotary positions, SwiGLU, grouped "
           "queries.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_TOKENS,
    .can_decode = true,
    .build = build,
};
