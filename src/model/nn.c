// nn - layers from operators.
//
// A layer is a function that declares its weights and calls operators on a builder. The
// names of weights are those of the ecosystem's checkpoints, so that files load
// without a table of translations. After an error the builder returns scalars and
// every further call does nothing; the error is seen once, at the end
// (tt_builder_status).

#include "model/nn.h"

#include "ops/nn/cache.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

tt_init tt_init_fan_in(int64_t inputs)
{
    return (tt_init){
        .kind = TT_INIT_UNIFORM, .a = 1 / sqrt((double)inputs), .of = TT_NONE};
}

tt_val tt_nn_dense(tt_builder *b, tt_val x, const tt_dense *d)
{
    char name[96];
    snprintf(name, sizeof name, "%s.weight", d->name);
    const tt_val w =
        tt_param(b, name, d->init, "%s %s", d->is_transposed ? d->out : d->in,
                 d->is_transposed ? d->in : d->out);
    tt_val bias = TT_NONE;
    if (d->has_bias) {
        snprintf(name, sizeof name, "%s.bias", d->name);
        bias = tt_param(b, name, d->bias_init, "%s", d->out);
    }
    return tt_callf(b, &tt_op_matmul, (tt_val[]){x, w, bias}, 3,
                    "transpose_b=%s activation=%s",
                    d->is_transposed ? "true" : "false",
                    d->activation ? d->activation : "none");
}

tt_val tt__channel_param(tt_builder *b, const char *name, const char *part,
                         tt_init init, const tt_shape *shape, int dim)
{
    char full[96];
    tt_shape one = {0};
    tt_str text = {0};
    snprintf(full, sizeof full, "%s.%s", name, part);
    if (dim >= 0 && dim < shape->ndim) // a scalar after an error
        (void)tt_shape_push_dim(&one, shape, dim);
    tt_shape_print(&one, &text);
    const tt_val v = tt_str_status(&text) == TT_OK
                         ? tt_param(b, full, init, "%s", tt_str_text(&text))
                         : tt_builder_fail(b, tt_str_status(&text));
    tt_str_fini(&text);
    return v;
}

tt_val tt_nn_layer_norm(tt_builder *b, tt_val x, const char *name, double eps)
{
    const tt_shape shape = tt_type_of(b, x)->shape;
    const tt_val gamma = tt__channel_param(b, name, "weight", tt_init_const(1),
                                           &shape, shape.ndim - 1);
    const tt_val beta = tt__channel_param(b, name, "bias", tt_init_const(0),
                                          &shape, shape.ndim - 1);
    return tt_callf(b, &tt_op_layer_norm, (tt_val[]){x, gamma, beta}, 3,
                    "eps=%.17g", eps);
}

tt_val tt_nn_rms_norm(tt_builder *b, tt_val x, const char *name, double eps)
{
    const tt_shape shape = tt_type_of(b, x)->shape;
    const tt_val gamma = tt__channel_param(b, name, "weight", tt_init_const(1),
                                           &shape, shape.ndim - 1);
    return tt_callf(b, &tt_op_rms_norm, (tt_val[]){x, gamma}, 2, "eps=%.17g",
                    eps);
}

tt_val tt_nn_relu(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_relu, NULL, &x, 1, NULL);
}

tt_val tt_nn_add(tt_builder *b, tt_val x, tt_val y)
{
    return tt_call(b, &tt_op_add, NULL, (tt_val[]){x, y}, 2, NULL);
}

tt_val tt_nn_flatten(tt_builder *b, tt_val x)
{
    const tt_shape *shape = &tt_type_of(b, x)->shape;
    const int batch = shape->ndim > 0 ? shape->first[1] : 0;
    return tt_callf(b, &tt_op_reshape, &x, 1, "dims=%d,%d", batch,
                    shape->n_factors - batch);
}

tt_past tt_nn_past(tt_builder *b, tt_model_io *io, int64_t longest)
{
    if (!io->decodes)
        return (tt_past){TT_NONE, 0};
    if (io->context == 0 || io->context > longest)
        io->context = longest;
    return (tt_past){tt_scalar(b, "position", TT_I64), io->context};
}

// Appends the new entries [batch, seq, heads, head] to those in the state `name`.
static tt_val remember(tt_builder *b, const char *name, tt_val fresh,
                       const tt_past *past)
{
    const tt_type *type = tt_type_of(b, fresh);
    tt_shape shape = {0};
    if (type->shape.ndim != 4) // a scalar after an error
        return TT_NONE;
    (void)tt_shape_push_dim(&shape, &type->shape, 0);
    (void)tt_shape_push(&shape, "context", past->context);
    (void)tt_shape_push_dim(&shape, &type->shape, 2);
    (void)tt_shape_push_dim(&shape, &type->shape, 3);
    const tt_val cache = tt_state(b, TT_ROLE_BUFFER, name, type->dtype, &shape,
                                  tt_init_const(0));
    const tt_val all = tt_cache_write(b, cache, fresh, past->position);
    tt_update(b, cache, all);
    return all;
}

tt_val tt_nn_causal_attention(tt_builder *b, const tt_val qkv[3],
                              const tt_past *past)
{
    if (past->context == 0)
        return tt_callf(b, &tt_op_attention, qkv, 3, "causal=true");
    const tt_val all[] = {qkv[0], remember(b, "k_cache", qkv[1], past),
                          remember(b, "v_cache", qkv[2], past)};
    return tt_attention_cached(b, all, past->position);
}

tt_val tt_nn_packed_attention(tt_builder *b, tt_val qkv, const tt_past *past)
{
    tt_val part[TT_MAX_OUT];
    tt_outputs_of(b, tt_callf(b, &tt_op_split, &qkv, 1, "factor=qkv"), part);
    for (int i = 0; i < 3; i++)
        part[i] = tt_callf(b, &tt_op_reshape, &part[i], 1, "dims=1,1,1,1");
    const tt_val o =
        past == NULL ? tt_callf(b, &tt_op_attention, part, 3, "causal=false")
                     : tt_nn_causal_attention(b, part, past);
    return tt_callf(b, &tt_op_reshape, &o, 1, "dims=1,1,2");
}

tt_val tt_nn_tokens(tt_builder *b, int64_t batch, int64_t seq, tt_val *y_out)
{
    char shape[96];
    snprintf(shape, sizeof shape, "batch:%lld seq:%lld", (long long)batch,
             (long long)seq);
    const tt_val x = tt_input(b, "x", TT_I32, shape);
    if (y_out != NULL)
        *y_out = tt_input(b, "y", TT_I32, shape);
    return x;
}

tt_val tt_nn_pixels(tt_builder *b, int64_t batch, int64_t channels,
                    int64_t size, tt_val *y_out)
{
    char shape[128];
    snprintf(shape, sizeof shape,
             "batch:%lld channels:%lld height:%lld width:%lld",
             (long long)batch, (long long)channels, (long long)size,
             (long long)size);
    const tt_val x = tt_input(b, "x", b->dtype, shape);
    snprintf(shape, sizeof shape, "batch:%lld", (long long)batch);
    *y_out = tt_input(b, "y", TT_I32, shape);
    return x;
}
