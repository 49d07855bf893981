// nn - layers: a few operators with their weights, named as the ecosystem does.

#ifndef TT_MODEL_NN_H
#define TT_MODEL_NN_H

#include "model/model.h"

static inline tt_init tt_init_normal(double deviation)
{
    return (tt_init){.kind = TT_INIT_NORMAL, .a = deviation, .of = {-1}};
}
static inline tt_init tt_init_const(double value)
{
    return (tt_init){.kind = TT_INIT_CONST, .a = value, .of = {-1}};
}
// PyTorch's default for linear and convolution: +-1/sqrt(inputs).
tt_init tt_init_fan_in(int64_t inputs);

typedef struct tt_dense {
    const char *name;     // "mlp.c_fc"
    const char *in, *out; // shape text: "embed:768", "qkv:3.heads:12.head:64"
    bool is_transposed;   // stored [out, in], as nn.Linear does
    bool has_bias;
    tt_init init; // of the weight; biases: bias_init
    tt_init bias_init;
    const char *activation; // NULL: none
} tt_dense;
tt_val tt_nn_dense(tt_builder *b, tt_val x, const tt_dense *d);

// The weight name.part: a vector with the extent and factors of dim `dim`.
tt_val tt__channel_param(tt_builder *b, const char *name, const char *part,
                         tt_init init, const tt_shape *shape, int dim);

// y = layer_norm(x) with weights name.weight and name.bias.
tt_val tt_nn_layer_norm(tt_builder *b, tt_val x, const char *name, double eps);
tt_val tt_nn_rms_norm(tt_builder *b, tt_val x, const char *name, double eps);

// A layer of experts (ops/nn/moe.h): weights name.router.weight, name.experts.*; gated
// ones are SwiGLU with Mixtral's names and (out, in) matrices.
typedef struct tt_moe {
    const char *name;
    int64_t experts, choices, width, ff;
    double
        capacity; // slots of an expert, relative to an equal share; 0: one for
                  // every token
    bool is_gated;
    tt_init init, out_init;
} tt_moe;
tt_val tt_nn_moe(tt_builder *b, tt_val x, const tt_moe *m, tt_val *balance_out);

typedef struct tt_conv {
    const char *name;
    int64_t filters, kernel, stride, pad;
    bool has_bias;
} tt_conv;
tt_val tt_nn_conv(tt_builder *b, tt_val x, const tt_conv *c);

// Batch norm with its four vectors and its counter of batches, over groups of
// b->norm_group samples; residual may be TT_NONE.
tt_val tt_nn_batch_norm(tt_builder *b, tt_val x, const char *name, bool relu,
                        tt_val residual);

tt_val tt_nn_relu(tt_builder *b, tt_val x);
tt_val tt_nn_add(tt_builder *b, tt_val x, tt_val y);
tt_val tt_nn_max_pool(tt_builder *b, tt_val x, int64_t kernel, int64_t stride,
                      int64_t pad);
tt_val tt_nn_adaptive_pool(tt_builder *b, tt_val x, int64_t size);
tt_val tt_nn_flatten(tt_builder *b, tt_val x); // [batch, everything else]

// What a decoder remembers; context 0: nothing, it does not decode.
typedef struct tt_past {
    tt_val position; // TT_NONE: none
    int64_t context;
} tt_past;
// Settles io->context for a model whose own is `longest`.
tt_past tt_nn_past(tt_builder *b, tt_model_io *io, int64_t longest);

// Causal self-attention [batch, seq, heads, head]; when decoding, over keys and
// values in states k_cache and v_cache.
tt_val tt_nn_causal_attention(tt_builder *b, const tt_val qkv[3],
                              const tt_past *past);

// Self-attention on a packed projection [batch, seq, qkv.heads.head]:
// [batch, seq, heads.head]. Causal unless `past` is NULL.
tt_val tt_nn_packed_attention(tt_builder *b, tt_val qkv, const tt_past *past);

// The inputs "x" and "y" of the two tasks; without labels when y_out is NULL.
tt_val tt_nn_tokens(tt_builder *b, int64_t batch, int64_t seq, tt_val *y_out);
tt_val tt_nn_pixels(tt_builder *b, int64_t batch, int64_t channels,
                    int64_t size, tt_val *y_out);

#endif
