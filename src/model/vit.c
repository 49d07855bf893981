// vit - vision transformer: patches by a strided convolution, a class token,
// learned positions, pre-norm blocks with exact GELU. torchvision's names.
//
// A convolution whose stride is its kernel cuts the image into patches and projects
// each of them, which makes [batch, embed, rows, columns]. Rows and columns become one
// dimension, `seq`, and from there on this is a transformer without a causal mask. The
// class is read from the extra first token.

#include "model/model.h"
#include "model/nn.h"
#include "ops/act/activation.h"
#include "ops/ops.h"
#include "ops/shape/relabel.h"

#include <math.h>
#include <stdio.h>

typedef struct params {
    int64_t layers, width, heads, ff, patch, classes, channels;
    double dropout;
} params;

// [batch, embed, height, width] -> [batch, seq, embed] with the class token.
static tt_val tokens(tt_builder *b, const params *p, tt_val x)
{
    const tt_conv conv = {.name = "conv_proj",
                          .filters = p->width,
                          .kernel = p->patch,
                          .stride = p->patch,
                          .has_bias = true};
    x = tt_nn_conv(b, x, &conv);
    x = tt_callf(b, &tt_op_reshape, &x, 1, "dims=1,1,2");
    x = tt_callf(b, &tt_op_transpose, &x, 1, "perm=0,2,1");
    x = tt_relabel(b, x, 1, "seq");
    x = tt_relabel(b, x, 2, "embed");
    const tt_val token =
        tt_param(b, "class_token", tt_init_const(0),
                 "token_batch:1 token:1 embed:%lld", (long long)p->width);
    const tt_val first =
        tt_callf(b, &tt_op_slice, &x, 1, "dim=1 start=0 size=1");
    const tt_val spread =
        tt_call(b, &tt_op_broadcast, NULL, (tt_val[]){token, first}, 2, NULL);
    return tt_callf(b, &tt_op_concat, (tt_val[]){spread, x}, 2, "dim=1");
}

static tt_val dense(tt_builder *b, tt_val x, const tt_dense *shape)
{
    tt_dense d = *shape;
    const double inputs = (double)tt_dim_of(b, x, 2);
    d.is_transposed = true;
    d.has_bias = true;
    d.init = tt_init_normal(1 / sqrt(inputs));
    d.bias_init = tt_init_const(0);
    return tt_nn_dense(b, x, &d);
}

static tt_val attention(tt_builder *b, const params *p, tt_val x)
{
    char embed[32], heads[64], packed[96];
    snprintf(embed, sizeof embed, "embed:%lld", (long long)p->width);
    snprintf(heads, sizeof heads, "heads:%lld.head:%lld", (long long)p->heads,
             (long long)(p->width / p->heads));
    snprintf(packed, sizeof packed, "qkv:3.%s", heads);
    // in_proj_weight and in_proj_bias carry an underscore, not a dot.
    const tt_val w = tt_param(b, "self_attention.in_proj_weight",
                              tt_init_normal(1 / sqrt((double)p->width)),
                              "%s %s", packed, embed);
    const tt_val bias = tt_param(b, "self_attention.in_proj_bias",
                                 tt_init_const(0), "%s", packed);
    const tt_val qkv = tt_callf(b, &tt_op_matmul, (tt_val[]){x, w, bias}, 3,
                                "transpose_b=true");
    const tt_val o = tt_nn_packed_attention(b, qkv, NULL);
    x = dense(b, o,
              &(tt_dense){.name = "self_attention.out_proj",
                          .in = heads,
                          .out = embed});
    return tt_dropout(b, x, p->dropout);
}

static tt_val mlp(tt_builder *b, const params *p, tt_val x)
{
    char embed[32], ff[32];
    snprintf(embed, sizeof embed, "embed:%lld", (long long)p->width);
    snprintf(ff, sizeof ff, "ff:%lld", (long long)p->ff);
    x = dense(
        b, x,
        &(tt_dense){
            .name = "mlp.0", .in = embed, .out = ff, .activation = "gelu_erf"});
    x = tt_dropout(b, x, p->dropout);
    x = dense(b, x, &(tt_dense){.name = "mlp.3", .in = ff, .out = embed});
    return tt_dropout(b, x, p->dropout);
}

static tt_val encoder(tt_builder *b, const params *p, tt_val x)
{
    const int top = tt_scope_push(b, "encoder");
    const tt_val positions =
        tt_param(b, "pos_embedding", tt_init_normal(0.02),
                 "position_batch:1 positions:%lld embed:%lld",
                 (long long)tt_dim_of(b, x, 1), (long long)p->width);
    x = tt_dropout(b, tt_nn_add(b, x, positions), p->dropout);
    for (int64_t i = 0; i < p->layers; i++) {
        const int layer =
            tt_scope_push(b, "layers.encoder_layer_%lld", (long long)i);
        const tt_val a = tt_nn_layer_norm(b, x, "ln_1", 1e-6);
        x = tt_nn_add(b, x, attention(b, p, a));
        const tt_val m = tt_nn_layer_norm(b, x, "ln_2", 1e-6);
        x = tt_nn_add(b, x, mlp(b, p, m));
        tt_scope_pop(b, layer);
    }
    x = tt_nn_layer_norm(b, x, "ln", 1e-6);
    tt_scope_pop(b, top);
    return x;
}

static tt_status check(const params *p, const tt_model_io *io)
{
    if (io->image % p->patch != 0)
        return tt_fail(TT_ERR_ARG,
                       "image=%lld is not a multiple of model.patch=%lld",
                       (long long)io->image, (long long)p->patch);
    if (p->width % p->heads != 0)
        return tt_fail(TT_ERR_ARG,
                       "model.width=%lld is not a multiple of model.heads=%lld",
                       (long long)p->width, (long long)p->heads);
    return TT_OK;
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    char in[32], out[32];
    if (io->image == 0)
        io->image = 224;
    TT_TRY(check(p, io));
    const tt_val pixels =
        tt_nn_pixels(b, io->batch, p->channels, io->image, &io->labels);
    tt_val x = encoder(b, p, tokens(b, p, pixels));
    x = tt_callf(b, &tt_op_slice, &x, 1, "dim=1 start=0 size=1");
    x = tt_nn_flatten(b, x);
    snprintf(in, sizeof in, "embed:%lld", (long long)p->width);
    snprintf(out, sizeof out, "classes:%lld", (long long)p->classes);
    const tt_dense head = {.name = "heads.head",
                           .in = in,
                           .out = out,
                           .is_transposed = true,
                           .has_bias = true,
                           .init = tt_init_const(0),
                           .bias_init = tt_init_const(0)};
    io->logits = tt_nn_dense(b, x, &head);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"layers", "12", "transformer blocks", TT_OPT_I64, offsetof(params, layers),
     NULL, 1, 1000},
    {"width", "768", "width of the residual stream", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 1 << 20},
    {"heads", "12", "attention heads", TT_OPT_I64, offsetof(params, heads),
     NULL, 1, 1 << 16},
    {"ff", "3072", "width of the MLP", TT_OPT_I64, offsetof(params, ff), NULL,
     1, 1 << 24},
    {"patch", "16", "height and width of a patch", TT_OPT_I64,
     offsetof(params, patch), NULL, 1, 4096},
    {"classes", "1000", "classes", TT_OPT_I64, offsetof(params, classes), NULL,
     2, 1 << 24},
    {"channels", "3", "channels of the image", TT_OPT_I64,
     offsetof(params, channels), NULL, 1, 4096},
    {"dropout", "0", "probability of dropping", TT_OPT_F64,
     offsetof(params, dropout), NULL, 0, 0.999},
    {0},
};

static const tt_model_preset presets[] = {
    {"vit-b16", "layers=12 width=768 heads=12 ff=3072"},
    {"vit-s16", "layers=12 width=384 heads=6 ff=1536"},
    {"vit-ti16", "layers=12 width=192 heads=3 ff=768"},
    {"vit-b", "layers=12 width=768 heads=12 ff=3072"},
    {"vit-s", "layers=12 width=384 heads=6 ff=1536"},
    {"vit-ti", "layers=12 width=192 heads=3 ff=768"},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"layers=2 width=8 heads=2 ff=12 patch=4 classes=6", .image = 8,
     .tensor = "heads:tensor ff:tensor classes:tensor"},
    {0},
};

const tt_model_def tt_model_vit = {
    .name = "vit",
    .doc = "Vision transformer.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_IMAGES,
    .samples = samples,
    .build = build,
};
