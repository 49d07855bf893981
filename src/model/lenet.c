// lenet - LeNet-5 with ReLU and max pooling, as PyTorch tutorials have it: conv1,
// conv2, fc1, fc2, fc3.

#include "model/model.h"
#include "model/nn.h"

#include <stdio.h>

typedef struct params {
    int64_t classes, channels;
} params;

static tt_val stage(tt_builder *b, tt_val x, const char *name, int64_t filters,
                    int64_t pad)
{
    const tt_conv conv = {.name = name,
                          .filters = filters,
                          .kernel = 5,
                          .stride = 1,
                          .pad = pad,
                          .has_bias = true};
    x = tt_nn_relu(b, tt_nn_conv(b, x, &conv));
    return tt_nn_max_pool(b, x, 2, 2, 0);
}

static tt_val dense(tt_builder *b, tt_val x, const char *name, int64_t units,
                    const char *activation)
{
    char in[32], out[32];
    const int64_t inputs = tt_dim_of(b, x, 1);
    snprintf(in, sizeof in, "in:%lld", (long long)inputs);
    snprintf(out, sizeof out, "%s:%lld", activation ? "ff" : "classes",
             (long long)units);
    const tt_dense d = {.name = name,
                        .in = in,
                        .out = out,
                        .is_transposed = true,
                        .has_bias = true,
                        .init = tt_init_fan_in(inputs),
                        .bias_init = tt_init_fan_in(inputs),
                        .activation = activation};
    return tt_nn_dense(b, x, &d);
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    if (io->image == 0)
        io->image = 28;
    const tt_val pixels =
        tt_nn_pixels(b, io->batch, p->channels, io->image, &io->labels);
    tt_val x = stage(b, pixels, "conv1", 6, 2);
    x = stage(b, x, "conv2", 16, 0);
    x = tt_nn_flatten(b, x);
    x = dense(b, x, "fc1", 120, "relu");
    x = dense(b, x, "fc2", 84, "relu");
    io->logits = dense(b, x, "fc3", p->classes, NULL);
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"classes", "10", "classes", TT_OPT_I64, offsetof(params, classes), NULL, 2,
     1 << 24},
    {"channels", "1", "channels of the image", TT_OPT_I64,
     offsetof(params, channels), NULL, 1, 4096},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"classes=5", .image = 12},
    {0},
};

const tt_model_def tt_model_lenet = {
    .name = "lenet",
    .doc = "LeNet-5: two convolutions and three linear layers.",
    .options = options,
    .params_bytes = sizeof(params),
    .task = TT_TASK_IMAGES,
    .layout = "filters:tensor channels:tensor",
    .samples = samples,
    .build = build,
};
