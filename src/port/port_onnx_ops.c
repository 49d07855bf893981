// port_onnx_ops - each operator of image models as one or several ONNX nodes.

#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/matmul.h"
#include "ops/nn/attention.h"
#include "ops/nn/batch_norm.h"
#include "ops/nn/conv.h"
#include "ops/nn/norm.h"
#include "ops/nn/pool.h"
#include "ops/shape/move.h"
#include "port/port_onnx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const tt_shape *shape_in(const tt_port_onnx_work *w, const tt_node *node,
                                int i)
{
    return &w->graph->value[node->in[i].id].type.shape;
}

static const tt_shape *shape_out(const tt_port_onnx_work *w,
                                 const tt_node *node)
{
    return &w->graph->value[node->out[0].id].type.shape;
}

static tt_status refuse(const tt_node *node, const char *what)
{
    return tt_fail(TT_ERR_UNSUPPORTED, "%s: ONNX has no form for %s",
                   node->origin, what);
}

static tt_status constant(tt_port_onnx_work *w, const char *name, double value)
{
    float *data = tt_arena_alloc(w->o.arena, sizeof *data);
    if (data == NULL)
        return TT_ERR_NOMEM;
    *data = (float)value;
    return tt_onnx_add(&w->o, &(tt_onnx_tensor){name, TT_ONNX_F32, 0, NULL,
                                                data, sizeof *data});
}

// out = type(a, value)
static tt_status with_constant(tt_port_onnx_work *w, const char *type,
                               const char *a, double value, const char *out)
{
    const char *name = tt_port_onnx_fresh(w);
    if (name == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(constant(w, name, value));
    tt_port_onnx_emit(w, type, a, name, out, NULL);
    return TT_OK;
}

// ---- activations ---------------------------------------------------------

// 0.5 x (1 + erf(x / sqrt 2)), or its form with tanh.
static tt_status gelu(tt_port_onnx_work *w, const char *x, bool is_erf,
                      const char *out)
{
    const char *t[6];
    for (int i = 0; i < 6; i++)
        if ((t[i] = tt_port_onnx_fresh(w)) == NULL)
            return TT_ERR_NOMEM;
    if (is_erf) {
        TT_TRY(with_constant(w, "Mul", x, sqrt(0.5), t[0]));
        tt_port_onnx_emit(w, "Erf", t[0], NULL, t[3], NULL);
    } else { // tanh(sqrt(2 / pi) (x + 0.044715 x^3))
        tt_port_onnx_emit(w, "Mul", x, x, t[0], NULL);
        TT_TRY(with_constant(w, "Mul", t[0], 0.044715, t[1]));
        TT_TRY(with_constant(w, "Add", t[1], 1, t[2]));
        const char *u = tt_port_onnx_fresh(w), *v = tt_port_onnx_fresh(w);
        if (u == NULL || v == NULL)
            return TT_ERR_NOMEM;
        tt_port_onnx_emit(w, "Mul", t[2], x, u, NULL);
        TT_TRY(with_constant(w, "Mul", u, 0.79788456080286536, v));
        tt_port_onnx_emit(w, "Tanh", v, NULL, t[3], NULL);
    }
    TT_TRY(with_constant(w, "Add", t[3], 1, t[4]));
    tt_port_onnx_emit(w, "Mul", t[4], x, t[5], NULL);
    return with_constant(w, "Mul", t[5], 0.5, out);
}

static tt_status silu(tt_port_onnx_work *w, const char *x, const char *out)
{
    const char *s = tt_port_onnx_fresh(w);
    if (s == NULL)
        return TT_ERR_NOMEM;
    tt_port_onnx_emit(w, "Sigmoid", x, NULL, s, NULL);
    tt_port_onnx_emit(w, "Mul", x, s, out, NULL);
    return TT_OK;
}

static tt_status activate(tt_port_onnx_work *w, int activation, const char *x,
                          const char *out)
{
    switch ((tt_activation)activation) {
    case TT_ACT_RELU:
        tt_port_onnx_emit(w, "Relu", x, NULL, out, NULL);
        return TT_OK;
    case TT_ACT_TANH:
        tt_port_onnx_emit(w, "Tanh", x, NULL, out, NULL);
        return TT_OK;
    case TT_ACT_SIGMOID:
        tt_port_onnx_emit(w, "Sigmoid", x, NULL, out, NULL);
        return TT_OK;
    case TT_ACT_SILU:
        return silu(w, x, out);
    case TT_ACT_GELU_TANH:
        return gelu(w, x, false, out);
    case TT_ACT_GELU_ERF:
        return gelu(w, x, true, out);
    default:
        return tt_fail(TT_ERR_STATE, "there is no activation %d", activation);
    }
}

static tt_status emit_relu(tt_port_onnx_work *w, const tt_node *node)
{
    return activate(w, TT_ACT_RELU, tt_port_onnx_in(w, node, 0),
                    tt_port_onnx_out(w, node));
}

static tt_status emit_gelu(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_gelu_params *p = node->params;
    return gelu(w, tt_port_onnx_in(w, node, 0), p->form == TT_GELU_ERF,
                tt_port_onnx_out(w, node));
}

static tt_status emit_tanh(tt_port_onnx_work *w, const tt_node *node)
{
    return activate(w, TT_ACT_TANH, tt_port_onnx_in(w, node, 0),
                    tt_port_onnx_out(w, node));
}

// ---- windows -------------------------------------------------------------

static void put_slide(const tt_slide_params *s, const int64_t *kernel, int n,
                      tt_str *a)
{
    int64_t stride[3], pad[6];
    for (int i = 0; i < n; i++) {
        stride[i] = tt_slide_entry(&s->stride, i, kernel[i]);
        pad[i] = pad[n + i] = tt_slide_entry(&s->pad, i, 0);
    }
    tt_onnx_ints(a, "kernel_shape", kernel, n);
    tt_onnx_ints(a, "strides", stride, n);
    tt_onnx_ints(a, "pads", pad, 2L * n);
}

static void put_dilation(const tt_slide_params *s, int n, tt_str *a)
{
    int64_t dilation[3];
    for (int i = 0; i < n; i++)
        dilation[i] = tt_slide_entry(&s->dilation, i, 1);
    tt_onnx_ints(a, "dilations", dilation, n);
}

static tt_status emit_conv(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_conv_params *p = node->params;
    const tt_shape *weights = shape_in(w, node, 1);
    const int n = weights->ndim - 2;
    int64_t kernel[3] = {0};
    tt_str a = {0};
    for (int i = 0; i < n; i++)
        kernel[i] = tt_shape_dim(weights, 2 + i);
    put_slide(&p->slide, kernel, n, &a);
    put_dilation(&p->slide, n, &a);
    tt_onnx_int(&a, "group", p->groups);
    const char *in[] = {tt_port_onnx_in(w, node, 0),
                        tt_port_onnx_in(w, node, 1),
                        tt_port_onnx_in(w, node, 2), NULL};
    const char *out = tt_port_onnx_out(w, node);
    tt_onnx_node(&w->o, "Conv", in, &out, 1, &a);
    tt_str_fini(&a);
    return TT_OK;
}

static void put_pool(const tt_port_onnx_work *w, const tt_node *node, tt_str *a)
{
    const tt_pool_params *p = node->params;
    const int n = shape_in(w, node, 0)->ndim - 2;
    int64_t kernel[3] = {0};
    for (int i = 0; i < n; i++)
        kernel[i] = tt_slide_entry(&p->slide.kernel, i, 1);
    put_slide(&p->slide, kernel, n, a);
}

static tt_status emit_max_pool(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_pool_params *p = node->params;
    tt_str a = {0};
    put_pool(w, node, &a);
    put_dilation(&p->slide, shape_in(w, node, 0)->ndim - 2, &a);
    tt_port_onnx_emit(w, "MaxPool", tt_port_onnx_in(w, node, 0), NULL,
                      tt_port_onnx_out(w, node), &a);
    tt_str_fini(&a);
    return TT_OK;
}

static tt_status emit_avg_pool(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_pool_params *p = node->params;
    tt_str a = {0};
    put_pool(w, node, &a);
    tt_onnx_int(&a, "count_include_pad", p->count_pad);
    tt_port_onnx_emit(w, "AveragePool", tt_port_onnx_in(w, node, 0), NULL,
                      tt_port_onnx_out(w, node), &a);
    tt_str_fini(&a);
    return TT_OK;
}

// Adaptive pooling has no ONNX operator for windows of different lengths. A mean
// over windows is linear, so it is a product with a matrix: one from the left for
// rows, one from the right for columns. This makes the matrix of one dimension.
static const char *window_matrix(tt_port_onnx_work *w, int64_t in, int64_t out,
                                 bool is_turned)
{
    const int64_t bytes = in * out * (int64_t)sizeof(float);
    const char *name = tt_port_onnx_fresh(w);
    float *data = tt_arena_alloc(w->o.arena, bytes);
    int64_t *dims = tt_arena_alloc(w->o.arena, 2 * (int64_t)sizeof *dims);
    if (name == NULL || data == NULL || dims == NULL)
        return NULL;
    for (int64_t i = 0; i < out; i++) {
        const int64_t lo = tt_adaptive_lo(i, in, out);
        const int64_t hi = tt_adaptive_hi(i, in, out);
        for (int64_t k = lo; k < hi; k++)
            data[is_turned ? k * out + i : i * in + k] =
                1.0F / (float)(hi - lo);
    }
    dims[0] = is_turned ? in : out;
    dims[1] = is_turned ? out : in;
    const tt_onnx_tensor t = {name, TT_ONNX_F32, 2, dims, data, bytes};
    return tt_onnx_add(&w->o, &t) == TT_OK ? name : NULL;
}

static tt_status emit_adaptive(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_shape *x = shape_in(w, node, 0), *y = shape_out(w, node);
    const char *in = tt_port_onnx_in(w, node, 0),
               *out = tt_port_onnx_out(w, node);
    if (x->ndim != 4)
        return refuse(node, "adaptive pooling in other than two dimensions");
    if (tt_shape_dim(y, 2) == 1 && tt_shape_dim(y, 3) == 1) {
        tt_port_onnx_emit(w, "GlobalAveragePool", in, NULL, out, NULL);
        return TT_OK;
    }
    const char *between = tt_port_onnx_fresh(w);
    const char *rows =
        window_matrix(w, tt_shape_dim(x, 2), tt_shape_dim(y, 2), false);
    const char *cols =
        window_matrix(w, tt_shape_dim(x, 3), tt_shape_dim(y, 3), true);
    if (between == NULL || rows == NULL || cols == NULL)
        return TT_ERR_NOMEM;
    tt_port_onnx_emit(w, "MatMul", rows, in, between, NULL);
    tt_port_onnx_emit(w, "MatMul", between, cols, out, NULL);
    return TT_OK;
}

// ---- norms ---------------------------------------------------------------

static tt_status emit_batch_norm(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_batch_norm_params *p = node->params;
    const char *residual = node->n_in > 5 ? tt_port_onnx_in(w, node, 5) : NULL;
    const bool has_relu = p->activation == TT_BATCH_NORM_RELU;
    const char *out = tt_port_onnx_out(w, node);
    const char *norm =
        residual != NULL || has_relu ? tt_port_onnx_fresh(w) : out;
    const char *sum =
        residual != NULL && has_relu ? tt_port_onnx_fresh(w) : out;
    tt_str a = {0};
    if (norm == NULL || sum == NULL)
        return TT_ERR_NOMEM;
    const char *in[] = {
        tt_port_onnx_in(w, node, 0), tt_port_onnx_in(w, node, 1),
        tt_port_onnx_in(w, node, 2), tt_port_onnx_in(w, node, 3),
        tt_port_onnx_in(w, node, 4), NULL};
    tt_onnx_float(&a, "epsilon", p->eps);
    tt_onnx_node(&w->o, "BatchNormalization", in, &norm, 1, &a);
    tt_str_fini(&a);
    if (residual != NULL)
        tt_port_onnx_emit(w, "Add", norm, residual, sum, NULL);
    if (has_relu)
        tt_port_onnx_emit(w, "Relu", residual != NULL ? sum : norm, NULL, out,
                          NULL);
    return TT_OK;
}

static tt_status emit_layer_norm(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_norm_params *p = node->params;
    const char *in[] = {
        tt_port_onnx_in(w, node, 0), tt_port_onnx_in(w, node, 1),
        node->n_in > 2 ? tt_port_onnx_in(w, node, 2) : NULL, NULL};
    const char *out = tt_port_onnx_out(w, node);
    tt_str a = {0};
    tt_onnx_int(&a, "axis", -1);
    tt_onnx_float(&a, "epsilon", p->eps);
    tt_onnx_node(&w->o, "LayerNormalization", in, &out, 1, &a);
    tt_str_fini(&a);
    return TT_OK;
}

// ---- products ------------------------------------------------------------

static tt_status transpose_last(tt_port_onnx_work *w, const char *x, int ndim,
                                const char *out)
{
    int64_t perm[TT_MAX_DIMS];
    tt_str a = {0};
    for (int d = 0; d < ndim; d++)
        perm[d] = d;
    perm[ndim - 1] = ndim - 2;
    perm[ndim - 2] = ndim - 1;
    tt_onnx_ints(&a, "perm", perm, ndim);
    tt_port_onnx_emit(w, "Transpose", x, NULL, out, &a);
    tt_str_fini(&a);
    return TT_OK;
}

// An operand of MatMul. ONNX's MatMul cannot transpose, so that is a node of its
// own.
static const char *turned(tt_port_onnx_work *w, const tt_node *node, int i,
                          bool is_turned)
{
    const char *x = tt_port_onnx_in(w, node, i);
    const char *out = is_turned ? tt_port_onnx_fresh(w) : x;
    if (is_turned && out != NULL)
        (void)transpose_last(w, x, shape_in(w, node, i)->ndim, out);
    return out;
}

static tt_status emit_matmul(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_matmul_params *p = node->params;
    const char *bias = node->n_in > 2 ? tt_port_onnx_in(w, node, 2) : NULL;
    const char *a = turned(w, node, 0, p->transpose_a);
    const char *b = turned(w, node, 1, p->transpose_b);
    const bool acts = p->activation != TT_ACT_NONE;
    const char *end = acts ? tt_port_onnx_fresh(w) : tt_port_onnx_out(w, node);
    const char *product = bias != NULL ? tt_port_onnx_fresh(w) : end;
    if (a == NULL || b == NULL || product == NULL || end == NULL)
        return TT_ERR_NOMEM;
    tt_port_onnx_emit(w, "MatMul", a, b, product, NULL);
    if (bias != NULL)
        tt_port_onnx_emit(w, "Add", product, bias, end, NULL);
    return acts ? activate(w, p->activation, end, tt_port_onnx_out(w, node))
                : TT_OK;
}

// softmax(scale q k') v. Values are [batch, seq, heads, size] here; ONNX multiplies
// the last two dimensions, so heads go to the front and keys are transposed on the
// way.
static tt_status emit_attention(tt_port_onnx_work *w, const tt_node *node)
{
    static const int64_t heads_first[] = {0, 2, 1, 3}, keys[] = {0, 2, 3, 1};
    const tt_attention_params *p = node->params;
    const tt_shape *q = shape_in(w, node, 0), *k = shape_in(w, node, 1);
    const char *t[7];
    tt_str a = {0};
    if (p->causal || tt_shape_dim(q, 2) != tt_shape_dim(k, 2))
        return refuse(node, "causal or grouped attention");
    for (int i = 0; i < 7; i++)
        if ((t[i] = tt_port_onnx_fresh(w)) == NULL)
            return TT_ERR_NOMEM;
    for (int i = 0; i < 3; i++) {
        tt_onnx_ints(&a, "perm", i == 1 ? keys : heads_first, 4);
        tt_port_onnx_emit(w, "Transpose", tt_port_onnx_in(w, node, i), NULL,
                          t[i], &a);
    }
    tt_port_onnx_emit(w, "MatMul", t[0], t[1], t[3], NULL);
    TT_TRY(with_constant(w, "Mul", t[3],
                         tt_attention_scale(p, tt_shape_dim(q, 3)), t[4]));
    tt_onnx_int(&a, "axis", -1);
    tt_port_onnx_emit(w, "Softmax", t[4], NULL, t[5], &a);
    tt_port_onnx_emit(w, "MatMul", t[5], t[2], t[6], NULL);
    tt_onnx_ints(&a, "perm", heads_first, 4);
    tt_port_onnx_emit(w, "Transpose", t[6], NULL, tt_port_onnx_out(w, node),
                      &a);
    tt_str_fini(&a);
    return TT_OK;
}

// ---- movement ------------------------------------------------------------

static bool is_batch(const tt_shape *shape)
{
    return shape->ndim > 0 &&
           strcmp(shape->factor[shape->first[0]].name, "batch") == 0;
}

// The target shape of a Reshape. 0 keeps the batch dimension, whatever it is.
static tt_status emit_reshape(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_shape *x = shape_in(w, node, 0), *y = shape_out(w, node);
    int64_t dims[TT_MAX_DIMS];
    for (int d = 0; d < y->ndim; d++)
        dims[d] = tt_shape_dim(y, d);
    if (is_batch(x) && is_batch(y))
        dims[0] = 0;
    const char *fresh = tt_port_onnx_fresh(w);
    const char *shape =
        fresh == NULL ? NULL : tt_onnx_ints_tensor(&w->o, fresh, dims, y->ndim);
    if (shape == NULL)
        return TT_ERR_NOMEM;
    tt_port_onnx_emit(w, "Reshape", tt_port_onnx_in(w, node, 0), shape,
                      tt_port_onnx_out(w, node), NULL);
    return TT_OK;
}

static tt_status emit_transpose(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_transpose_params *p = node->params;
    tt_str a = {0};
    tt_onnx_ints(&a, "perm", p->perm.v, p->perm.n);
    tt_port_onnx_emit(w, "Transpose", tt_port_onnx_in(w, node, 0), NULL,
                      tt_port_onnx_out(w, node), &a);
    tt_str_fini(&a);
    return TT_OK;
}

static tt_status emit_slice(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_slice_params *p = node->params;
    const int64_t value[] = {p->start, p->start + p->size, p->dim};
    const char *in[5] = {tt_port_onnx_in(w, node, 0)};
    const char *out = tt_port_onnx_out(w, node);
    for (int i = 0; i < 3; i++) {
        const char *fresh = tt_port_onnx_fresh(w);
        in[i + 1] = fresh == NULL
                        ? NULL
                        : tt_onnx_ints_tensor(&w->o, fresh, &value[i], 1);
        if (in[i + 1] == NULL)
            return TT_ERR_NOMEM;
    }
    tt_onnx_node(&w->o, "Slice", in, &out, 1, NULL);
    return TT_OK;
}

static tt_status emit_concat(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_concat_params *p = node->params;
    const char *in[TT_MAX_OUT + 1] = {0};
    const char *out = tt_port_onnx_out(w, node);
    tt_str a = {0};
    if (node->n_in > TT_MAX_OUT)
        return refuse(node, "so many parts");
    for (int i = 0; i < node->n_in; i++)
        in[i] = tt_port_onnx_in(w, node, i);
    tt_onnx_int(&a, "axis", p->dim);
    tt_onnx_node(&w->o, "Concat", in, &out, 1, &a);
    tt_str_fini(&a);
    return TT_OK;
}

// Parts along the slowest factor of a dimension are contiguous, one after the
// other.
static tt_status emit_split(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_split_params *p = node->params;
    const tt_shape *x = shape_in(w, node, 0);
    const char *in[] = {tt_port_onnx_in(w, node, 0), NULL};
    const char *out[TT_MAX_OUT];
    tt_str a = {0};
    int dim = -1;
    for (int d = 0; d < x->ndim; d++)
        if (strcmp(x->factor[x->first[d]].name, p->factor) == 0)
            dim = d;
    if (dim < 0)
        return refuse(node, "parts that are not contiguous");
    for (int i = 0; i < node->n_out; i++)
        out[i] = w->name[node->out[i].id];
    tt_onnx_int(&a, "axis", dim);
    tt_onnx_node(&w->o, "Split", in, out, node->n_out, &a);
    tt_str_fini(&a);
    return TT_OK;
}

static tt_status emit_broadcast(tt_port_onnx_work *w, const tt_node *node)
{
    const tt_broadcast_params *p = node->params;
    const char *shape = tt_port_onnx_fresh(w);
    if (p->dims.n > 0)
        return refuse(node, "a broadcast into the middle");
    if (shape == NULL)
        return TT_ERR_NOMEM;
    tt_port_onnx_emit(w, "Shape", tt_port_onnx_in(w, node, 1), NULL, shape,
                      NULL);
    tt_port_onnx_emit(w, "Expand", tt_port_onnx_in(w, node, 0), shape,
                      tt_port_onnx_out(w, node), NULL);
    return TT_OK;
}

static tt_status emit_add(tt_port_onnx_work *w, const tt_node *node)
{
    tt_port_onnx_emit(w, "Add", tt_port_onnx_in(w, node, 0),
                      tt_port_onnx_in(w, node, 1), tt_port_onnx_out(w, node),
                      NULL);
    return TT_OK;
}

static tt_status emit_mul(tt_port_onnx_work *w, const tt_node *node)
{
    tt_port_onnx_emit(w, "Mul", tt_port_onnx_in(w, node, 0),
                      tt_port_onnx_in(w, node, 1), tt_port_onnx_out(w, node),
                      NULL);
    return TT_OK;
}

// The same elements under another name of ours: no node.
static tt_status emit_same(tt_port_onnx_work *w, const tt_node *node)
{
    w->name[node->out[0].id] = tt_port_onnx_in(w, node, 0);
    return TT_OK;
}

static const struct {
    const char *op;
    tt_port_onnx_emit_fn *emit;
} emitters[] = {
    {"adaptive_avg_pool", emit_adaptive},
    {"add", emit_add},
    {"attention", emit_attention},
    {"avg_pool", emit_avg_pool},
    {"batch_norm", emit_batch_norm},
    {"broadcast", emit_broadcast},
    {"concat", emit_concat},
    {"conv", emit_conv},
    {"fetch", emit_same},
    {"gelu", emit_gelu},
    {"layer_norm", emit_layer_norm},
    {"match", emit_same},
    {"matmul", emit_matmul},
    {"max_pool", emit_max_pool},
    {"mul", emit_mul},
    {"relabel", emit_same},
    {"relu", emit_relu},
    {"reshape", emit_reshape},
    {"slice", emit_slice},
    {"split", emit_split},
    {"tanh", emit_tanh},
    {"transpose", emit_transpose},
};

tt_port_onnx_emit_fn *tt_port_onnx_emit_of(const char *op)
{
    for (int i = 0; i < (int)(sizeof emitters / sizeof *emitters); i++)
        if (strcmp(emitters[i].op, op) == 0)
            return emitters[i].emit;
    return NULL;
}
