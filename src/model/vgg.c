// vgg - VGG-11/13/16/19 with and without batch norm; torchvision's names: the
// index in features counts convolutions, batch norms, ReLUs and pools. Layers without
// weights have an index too, so it must be counted along.

#include "model/model.h"
#include "model/nn.h"
#include "ops/act/activation.h"

#include <stdio.h>

typedef struct params {
    int64_t depth, classes, channels, width, hidden;
    bool batch_norm;
    double dropout;
} params;

// Convolutions in each of the five stages.
static const int *stages_of(int64_t depth)
{
    static const int table[][6] = {{11, 1, 1, 2, 2, 2},
                                   {13, 2, 2, 2, 2, 2},
                                   {16, 2, 2, 3, 3, 3},
                                   {19, 2, 2, 4, 4, 4}};
    for (int i = 0; i < 4; i++)
        if (table[i][0] == depth)
            return table[i] + 1;
    return NULL;
}

static tt_val convolution(tt_builder *b, const params *p, tt_val x,
                          int64_t filters, int *index)
{
    char name[32];
    snprintf(name, sizeof name, "features.%d", *index);
    const tt_conv conv = {.name = name,
                          .filters = filters,
                          .kernel = 3,
                          .stride = 1,
                          .pad = 1,
                          .has_bias = true};
    x = tt_nn_conv(b, x, &conv);
    *index += 2;
    if (!p->batch_norm)
        return tt_nn_relu(b, x);
    snprintf(name, sizeof name, "features.%d", *index - 1);
    *index += 1;
    return tt_nn_batch_norm(b, x, name, true, TT_NONE);
}

static tt_val features(tt_builder *b, const params *p, const int *stages,
                       tt_val x)
{
    int index = 0;
    for (int s = 0; s < 5; s++) {
        const int64_t filters = p->width << (s < 3 ? s : 3);
        for (int i = 0; i < stages[s]; i++)
            x = convolution(b, p, x, filters, &index);
        x = tt_nn_max_pool(b, x, 2, 2, 0);
        index++;
    }
    return x;
}

static tt_val classifier(tt_builder *b, const params *p, tt_val x)
{
    for (int i = 0; i < 3; i++) {
        const bool is_last = i == 2;
        const int64_t inputs = tt_dim_of(b, x, 1);
        char name[32], in[32], out[32];
        snprintf(name, sizeof name, "classifier.%d", 3 * i);
        snprintf(in, sizeof in, "in:%lld", (long long)inputs);
        snprintf(out, sizeof out, "%s:%lld", is_last ? "classes" : "ff",
                 (long long)(is_last ? p->classes : p->hidden));
        const tt_dense d = {.name = name,
                            .in = in,
                            .out = out,
                            .is_transposed = true,
                            .has_bias = true,
                            .init = tt_init_normal(0.01),
                            .bias_init = tt_init_const(0),
                            .activation = is_last ? NULL : "relu"};
        x = tt_nn_dense(b, x, &d);
        if (!is_last)
            x = tt_dropout(b, x, p->dropout);
    }
    return x;
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    const int *stages = stages_of(p->depth);
    if (stages == NULL)
        return tt_fail(TT_ERR_ARG,
                       "model.depth=%lld: a VGG has depth 11, 13, 16 or 19",
                       (long long)p->depth);
    if (io->image == 0)
        io->image = 224;
    if (io->image < 32)
        return tt_fail(TT_ERR_ARG,
                       "image=%lld is too small: VGG halves it five times, so "
                       "at least 32",
                       (long long)io->image);
    const tt_val pixels =
        tt_nn_pixels(b, io->batch, p->channels, io->image, &io->labels);
    tt_val x = features(b, p, stages, pixels);
    x = tt_nn_flatten(b, tt_nn_adaptive_pool(b, x, 7));
    io->logits = classifier(b, p, x);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"depth", "16", "layers with weights: 11, 13, 16, 19", TT_OPT_I64,
     offsetof(params, depth), NULL, 1, 1000},
    {"classes", "1000", "classes", TT_OPT_I64, offsetof(params, classes), NULL,
     2, 1 << 24},
    {"channels", "3", "channels of the image", TT_OPT_I64,
     offsetof(params, channels), NULL, 1, 4096},
    {"width", "64", "filters of the first stage", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 4096},
    {"hidden", "4096", "units of the classifier", TT_OPT_I64,
     offsetof(params, hidden), NULL, 1, 1 << 20},
    {"batch_norm", "false", "batch norm after each convolution", TT_OPT_BOOL,
     offsetof(params, batch_norm)},
    {"dropout", "0.5", "in the classifier", TT_OPT_F64,
     offsetof(params, dropout), NULL, 0, 0.999},
    {0},
};

static const tt_model_preset presets[] = {
    {"vgg11", "depth=11"},
    {"vgg13", "depth=13"},
    {"vgg16", "depth=16"},
    {"vgg19", "depth=19"},
    {"vgg11-bn", "depth=11 batch_norm=true"},
    {"vgg13-bn", "depth=13 batch_norm=true"},
    {"vgg16-bn", "depth=16 batch_norm=true"},
    {"vgg19-bn", "depth=19 batch_norm=true"},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"depth=11 width=2 hidden=6 classes=5 dropout=0", .image = 32},
    {"depth=11 width=2 hidden=6 classes=5 dropout=0 batch_norm=true",
     .image = 32, .needs_batch = true},
    {0},
};

const tt_model_def tt_model_vgg = {
    .name = "vgg",
    .doc = "VGG: 3x3 convolutions, five poolings, three linear layers.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_IMAGES,
    .layout = "filters:tensor channels:tensor",
    .samples = samples,
    .build = build,
};
