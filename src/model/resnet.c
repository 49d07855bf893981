// resnet - ResNet-18/34/50/101 (v1.5: the stride is in the 3x3), torchvision's names.
//
//   basic        3x3, 3x3              plus the input
//   bottleneck   1x1, 3x3, 1x1 (x 4)   plus the input
//
// Batch norm, the residual sum and ReLU are one operator, since each of them alone
// would be a pass over memory: convolutional networks are bound by memory there.

#include "model/model.h"
#include "model/nn.h"

#include <stdio.h>

typedef struct params {
    int64_t depth, classes, channels, width;
} params;

typedef struct layout {
    int64_t depth;
    bool bottleneck;
    int blocks[4];
} layout;

static const layout *layout_of(int64_t depth)
{
    static const layout table[] = {
        {18, false, {2, 2, 2, 2}},
        {34, false, {3, 4, 6, 3}},
        {50, true, {3, 4, 6, 3}},
        {101, true, {3, 4, 23, 3}},
    };
    for (int i = 0; i < 4; i++)
        if (table[i].depth == depth)
            return &table[i];
    return NULL;
}

static tt_val conv(tt_builder *b, tt_val x, const char *name, int64_t filters,
                   int64_t kernel, int64_t stride)
{
    const tt_conv c = {.name = name,
                       .filters = filters,
                       .kernel = kernel,
                       .stride = stride,
                       .pad = kernel / 2};
    return tt_nn_conv(b, x, &c);
}

static tt_val basic(tt_builder *b, tt_val x, tt_val skip, int64_t width,
                    int64_t stride)
{
    x = conv(b, x, "conv1", width, 3, stride);
    x = tt_nn_batch_norm(b, x, "bn1", true, TT_NONE);
    x = conv(b, x, "conv2", width, 3, 1);
    return tt_nn_batch_norm(b, x, "bn2", true, skip);
}

static tt_val bottleneck(tt_builder *b, tt_val x, tt_val skip, int64_t width,
                         int64_t stride)
{
    x = conv(b, x, "conv1", width, 1, 1);
    x = tt_nn_batch_norm(b, x, "bn1", true, TT_NONE);
    x = conv(b, x, "conv2", width, 3, stride);
    x = tt_nn_batch_norm(b, x, "bn2", true, TT_NONE);
    x = conv(b, x, "conv3", 4 * width, 1, 1);
    return tt_nn_batch_norm(b, x, "bn3", true, skip);
}

static tt_val block(tt_builder *b, const layout *l, tt_val x, int64_t width,
                    int64_t stride)
{
    const int64_t filters = l->bottleneck ? 4 * width : width;
    tt_val skip = x;
    if (stride != 1 || tt_dim_of(b, x, 1) != filters) {
        skip = conv(b, x, "downsample.0", filters, 1, stride);
        skip = tt_nn_batch_norm(b, skip, "downsample.1", false, TT_NONE);
    }
    return l->bottleneck ? bottleneck(b, x, skip, width, stride)
                         : basic(b, x, skip, width, stride);
}

static tt_val body(tt_builder *b, const params *p, const layout *l, tt_val x)
{
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < l->blocks[s]; i++) {
            const int scope = tt_scope_push(b, "layer%d.%d", s + 1, i);
            x = block(b, l, x, p->width << s, s > 0 && i == 0 ? 2 : 1);
            tt_scope_pop(b, scope);
        }
    return x;
}

static tt_val head(tt_builder *b, const params *p, tt_val x)
{
    char in[32], out[32];
    x = tt_nn_flatten(b, tt_nn_adaptive_pool(b, x, 1));
    const int64_t inputs = tt_dim_of(b, x, 1);
    snprintf(in, sizeof in, "in:%lld", (long long)inputs);
    snprintf(out, sizeof out, "classes:%lld", (long long)p->classes);
    const tt_dense d = {.name = "fc",
                        .in = in,
                        .out = out,
                        .is_transposed = true,
                        .has_bias = true,
                        .init = tt_init_fan_in(inputs),
                        .bias_init = tt_init_fan_in(inputs)};
    return tt_nn_dense(b, x, &d);
}

static tt_status build(tt_builder *b, const void *params_, tt_model_io *io)
{
    const params *p = params_;
    const layout *l = layout_of(p->depth);
    if (l == NULL)
        return tt_fail(TT_ERR_ARG,
                       "model.depth=%lld: a ResNet has depth 18, 34, 50 or 101",
                       (long long)p->depth);
    if (io->image == 0)
        io->image = 224;
    const tt_val pixels =
        tt_nn_pixels(b, io->batch, p->channels, io->image, &io->labels);
    tt_val x = conv(b, pixels, "conv1", p->width, 7, 2);
    x = tt_nn_batch_norm(b, x, "bn1", true, TT_NONE);
    x = tt_nn_max_pool(b, x, 3, 2, 1);
    io->logits = head(b, p, body(b, p, l, x));
    return tt_builder_status(b);
}

static const tt_opt options[] = {
    {"depth", "50", "layers with weights: 18, 34, 50, 101", TT_OPT_I64,
     offsetof(params, depth), NULL, 1, 1000},
    {"classes", "1000", "classes", TT_OPT_I64, offsetof(params, classes), NULL,
     2, 1 << 24},
    {"channels", "3", "channels of the image", TT_OPT_I64,
     offsetof(params, channels), NULL, 1, 4096},
    {"width", "64", "filters of the first stage", TT_OPT_I64,
     offsetof(params, width), NULL, 1, 4096},
    {0},
};

static const tt_model_preset presets[] = {
    {"resnet18", "depth=18"},
    {"resnet34", "depth=34"},
    {"resnet50", "depth=50"},
    {"resnet101", "depth=101"},
    {0},
};

// Small ones, for the laws.
static const tt_model_sample samples[] = {
    {"depth=18 width=2 classes=5", .image = 32, .needs_batch = true},
    {"depth=50 width=2 classes=5", .image = 32, .needs_batch = true},
    {0},
};

const tt_model_def tt_model_resnet = {
    .name = "resnet",
    .doc = "ResNet with basic or bottleneck blocks.",
    .options = options,
    .params_bytes = sizeof(params),
    .presets = presets,
    .task = TT_TASK_IMAGES,
    .layout = "filters:tensor channels:tensor",
    .samples = samples,
    .build = build,
};
