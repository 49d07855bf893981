// mlp - flattened pixels, hidden layers with ReLU, a linear classifier. Names as
// nn.Sequential gives them: layers.0, layers.2, ...

#include "model/model.h"
#include "model/nn.h"

#include <stdio.h>

typedef struct params {
    int64_t layers, width, classes, channels;
} params;

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    if (io->image == 0)
        io->image = 28;
    const tt_val pixels =
        tt_nn_pixels(b, io->batch, p->channels, io->image, &io->labels);
    tt_val x = tt_nn_flatten(b, pixels);
    for (int64_t i = 0; i <= p->layers; i++) {
        const bool is_last = i == p->layers;
        const int64_t inputs = tt_dim_of(b, x, 1);
        char name[32], in[64], out[64];
        snprintf(name, sizeof name, "layers.%lld", (long long)(2 * i));
        snprintf(in, sizeof in, "in:%lld", (long long)inputs);
        snprintf(out, sizeof out, is_last ? "classes:%lld" : "ff:%lld",
                 (long long)(is_last ? p->classes : p->width));
        const tt_dense d = {.name = name,
                            .in = in,
                            .out = out,
                            .is_transposed = true,
                            .has_bias = true,
                            .init = tt_init_fan_in(inputs),
                            .bias_init = tt_init_fan_in(inputs),
                            .activation = is_last ? NULL : "relu"};
        x = tt_nn_dense(b, x, &d);
    }
    io->logits = x;
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"layers", "2", "hidden layers", TT_OPT_I64, offsetof(params, layers), NULL,
     0, 1000},
    {"width", "256", "units in a hidden layer", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 1 << 24},
    {"classes", "10", "classes", TT_OPT_I64, offsetof(params, classes), NULL, 2,
     1 << 24},
    {"channels", "1", "channels of the image", TT_OPT_I64,
     offsetof(params, channels), NULL, 1, 4096},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"layers=2 width=12 classes=5", .image = 6, .tensor = "ff:tensor"},
    {0},
};

const tt_model_def tt_model_mlp = {
    .name = "mlp",
    .doc = "Multi-layer perceptron on pixels.",
    .options = options,
    .params_bytes = sizeof(params),
    .task = TT_TASK_IMAGES,
    .samples = samples,
    .build = build,
};
