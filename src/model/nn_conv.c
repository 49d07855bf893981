// nn_conv - layers of convolutional networks. Weights start as torchvision's do: with
// a bias (VGG, LeNet) by PyTorch's default, without one (what batch norm follows) by
// He's normal distribution.

#include "model/nn.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

tt_val tt_nn_conv(tt_builder *b, tt_val x, const tt_conv *c)
{
    char name[96];
    const int64_t channels = tt_dim_of(b, x, 1);
    const int64_t inputs = channels * c->kernel * c->kernel;
    snprintf(name, sizeof name, "%s.weight", c->name);
    // He initialisation for what a ReLU follows (torchvision: fan_out, normal).
    const tt_init init =
        c->has_bias ? tt_init_fan_in(inputs)
                    : tt_init_normal(sqrt(
                          2.0 / (double)(c->filters * c->kernel * c->kernel)));
    const tt_val w = tt_param(
        b, name, init, "filters:%lld channels:%lld kernel_h:%lld kernel_w:%lld",
        (long long)c->filters, (long long)channels, (long long)c->kernel,
        (long long)c->kernel);
    tt_val bias = TT_NONE;
    if (c->has_bias) {
        snprintf(name, sizeof name, "%s.bias", c->name);
        bias = tt_param(b, name, tt_init_fan_in(inputs), "filters:%lld",
                        (long long)c->filters);
    }
    return tt_callf(b, &tt_op_conv, (tt_val[]){x, w, bias}, 3,
                    "stride=%lld,%lld pad=%lld,%lld", (long long)c->stride,
                    (long long)c->stride, (long long)c->pad, (long long)c->pad);
}

tt_val tt_nn_max_pool(tt_builder *b, tt_val x, int64_t kernel, int64_t stride,
                      int64_t pad)
{
    return tt_callf(b, &tt_op_max_pool, &x, 1,
                    "kernel=%lld,%lld stride=%lld,%lld pad=%lld,%lld",
                    (long long)kernel, (long long)kernel, (long long)stride,
                    (long long)stride, (long long)pad, (long long)pad);
}

tt_val tt_nn_adaptive_pool(tt_builder *b, tt_val x, int64_t size)
{
    return tt_callf(b, &tt_op_adaptive_avg_pool, &x, 1, "out=%lld,%lld",
                    (long long)size, (long long)size);
}

static tt_val statistics(tt_builder *b, const char *name, const char *part,
                         double init, int64_t channels)
{
    char full[96];
    tt_shape shape = {0};
    snprintf(full, sizeof full, "%s.%s", name, part);
    (void)tt_shape_push(&shape, "channels", channels);
    return tt_state(b, TT_ROLE_BUFFER, full, b->master, &shape,
                    tt_init_const(init));
}

static void count_batch(tt_builder *b, const char *name)
{
    char full[96];
    const tt_shape scalar = {0};
    snprintf(full, sizeof full, "%s.num_batches_tracked", name);
    const tt_val seen =
        tt_state(b, TT_ROLE_BUFFER, full, TT_I64, &scalar, tt_init_const(0));
    if (b->is_training)
        tt_update(b, seen, tt_call(b, &tt_op_count, NULL, &seen, 1, NULL));
}

tt_val tt_nn_batch_norm(tt_builder *b, tt_val x, const char *name, bool relu,
                        tt_val residual)
{
    tt_val out[TT_MAX_OUT];
    const tt_shape shape = tt_type_of(b, x)->shape;
    const int64_t channels = tt_dim_of(b, x, 1);
    const tt_val gamma =
        tt__channel_param(b, name, "weight", tt_init_const(1), &shape, 1);
    const tt_val beta =
        tt__channel_param(b, name, "bias", tt_init_const(0), &shape, 1);
    const tt_val mean = statistics(b, name, "running_mean", 0, channels);
    const tt_val var = statistics(b, name, "running_var", 1, channels);
    const bool is_all = b->norm_group == tt_dim_of(b, x, 0);
    const long long group = b->is_training && !is_all ? b->norm_group : 0;
    const tt_val y = tt_callf(
        b, &tt_op_batch_norm, (tt_val[]){x, gamma, beta, mean, var, residual},
        6, "training=%s activation=%s group=%lld",
        b->is_training ? "true" : "false", relu ? "relu" : "none", group);
    tt_outputs_of(b, y, out);
    if (b->is_training) {
        tt_update(b, mean, out[3]);
        tt_update(b, var, out[4]);
    }
    count_batch(b, name);
    return y;
}
