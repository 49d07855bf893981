// matmul - y = activation(a * b + bias).
//
//   a [lead..., m, k]   b [k, n], shared by all of lead, or [lead..., k, n]
//   y [lead..., m, n]   z, the value before the activation, when there is one
//
// transpose_a: a is [lead..., k, m], only when b is not shared or lead is empty;
// transpose_b: b is [..., n, k]. flops count the product, 2mnk; bias and
// activation count as work. Depth is the logarithm of k.
//
// How a product is split along a mesh axis (tensor parallelism):
//
//   rows      lead or m     a and y are split, b is whole
//   columns   n             b, bias and y are split, a is whole ("column parallel")
//   inner     k             a and b are split; each rank has a term of y ("row
//                           parallel"). The bias must be a term too, or every rank
//                           would add it. An activation must wait for the sum, so
//                           then expand_inner puts an all-reduce in between

#include "ops/matmul.h"

#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

// The dims that play m, k and n, which depend on the transposes.
typedef struct parts {
    int a_m, a_k, b_k, b_n;
    bool is_batched;
} parts;

static parts parts_of(const tt_matmul_params *p, const tt_shape *a,
                      const tt_shape *b)
{
    const int na = a->ndim;
    const int nb = b->ndim;
    return (parts){
        .a_m = p->transpose_a ? na - 1 : na - 2,
        .a_k = p->transpose_a ? na - 2 : na - 1,
        .b_k = p->transpose_b ? nb - 1 : nb - 2,
        .b_n = p->transpose_b ? nb - 2 : nb - 1,
        .is_batched = nb > 2,
    };
}

tt_matmul_dims tt_matmul_dims_of(const tt_matmul_params *p, const tt_shape *a,
                                 const tt_shape *b)
{
    const parts at = parts_of(p, a, b);
    tt_matmul_dims d = {
        .batch = 1,
        .m = tt_shape_dim(a, at.a_m),
        .n = tt_shape_dim(b, at.b_n),
        .k = tt_shape_dim(a, at.a_k),
    };
    for (int i = 0; i < a->ndim - 2; i++)
        *(at.is_batched ? &d.batch : &d.m) *= tt_shape_dim(a, i);
    return d;
}

static tt_status check_lead(const tt_matmul_params *p, const tt_shape *a,
                            const tt_shape *b)
{
    if (a->ndim < 2 || b->ndim < 2)
        return tt_fail(
            TT_ERR_ARG,
            "matmul: a and b need two dimensions or more, not %d and "
            "%d",
            (int)a->ndim, (int)b->ndim);
    if (b->ndim == 2) {
        if (p->transpose_a && a->ndim > 2)
            return tt_fail(
                TT_ERR_ARG,
                "matmul: transpose_a with leading dimensions needs a "
                "b that has them too");
        return TT_OK;
    }
    if (b->ndim != a->ndim)
        return tt_fail(
            TT_ERR_ARG,
            "matmul: b must have 2 or %d dimensions as a has, not %d",
            (int)a->ndim, (int)b->ndim);
    for (int d = 0; d < a->ndim - 2; d++)
        if (tt_shape_dim(a, d) != tt_shape_dim(b, d))
            return tt_fail(TT_ERR_ARG,
                           "matmul: leading extents differ: a has %lld, b has "
                           "%lld in dimension %d",
                           (long long)tt_shape_dim(a, d),
                           (long long)tt_shape_dim(b, d), d);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const tt_matmul_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "matmul", 2, 3));
    TT_TRY(tt_infer_float(io, "matmul", 0));
    const tt_dtype dtype = io->in[0].dtype;
    const tt_shape *a = &io->in[0].shape;
    const tt_shape *b = &io->in[1].shape;
    TT_TRY(tt__expect_dtype(io, "matmul", 1, dtype, "b"));
    TT_TRY(check_lead(p, a, b));
    const parts at = parts_of(p, a, b);
    if (tt_shape_dim(a, at.a_k) != tt_shape_dim(b, at.b_k))
        return tt_fail(TT_ERR_ARG,
                       "matmul: inner extents differ: a has k=%lld, b has %lld",
                       (long long)tt_shape_dim(a, at.a_k),
                       (long long)tt_shape_dim(b, at.b_k));
    if (tt_io_has(io, 2)) {
        TT_TRY(tt__expect_weight(io, "matmul", 2, dtype, "bias"));
        TT_TRY(tt__expect_vector(io, "matmul", 2, tt_shape_dim(b, at.b_n),
                                 "bias"));
    }
    io->n_out = p->activation == TT_ACT_NONE ? 1 : 2;
    tt_shape *y = &io->out[0].shape;
    io->out[0].dtype = p->wide ? tt_dtype_master(dtype) : dtype;
    for (int d = 0; d < a->ndim - 2; d++)
        TT_TRY(tt_shape_push_dim(y, a, d));
    TT_TRY(tt_shape_push_dim(y, a, at.a_m));
    TT_TRY(tt_shape_push_dim(y, b, at.b_n));
    TT_TRY(tt__expect_legal("matmul", y));
    io->out[1] = io->out[0];
    return TT_OK;
}

tt_val tt_matmul_activate(tt_builder *b, const tt_matmul_params *params,
                          tt_val z)
{
    static const tt_op_def *const op[] = {
        [TT_ACT_RELU] = &tt_op_relu,     [TT_ACT_GELU_TANH] = &tt_op_gelu,
        [TT_ACT_GELU_ERF] = &tt_op_gelu, [TT_ACT_SILU] = &tt_op_silu,
        [TT_ACT_TANH] = &tt_op_tanh,     [TT_ACT_SIGMOID] = &tt_op_sigmoid,
    };
    const tt_gelu_params gelu = {
        params->activation == TT_ACT_GELU_ERF ? TT_GELU_ERF : TT_GELU_TANH};
    if (params->activation == TT_ACT_NONE)
        return z;
    return tt_call(b, op[params->activation], &gelu, &z, 1, NULL);
}

// The gradient of z, the value before the activation: through y, plus what arrives at z
// itself.
static tt_val grad_z(tt_builder *b, const tt_node *node, const tt_val *dout)
{
    const tt_matmul_params *p = node->params;
    if (p->activation == TT_ACT_NONE)
        return dout[0];
    if (!tt_is(dout[0]))
        return dout[1];
    const tt_val by_y[] = {node->out[0], dout[0]};
    const tt_val by_z[] = {node->out[1], dout[0]};
    tt_gelu_params gelu = {TT_GELU_TANH};
    tt_val dz = TT_NONE;
    if (p->activation == TT_ACT_RELU)
        dz = tt_call(b, &tt_op_relu_grad, NULL, by_y, 2, NULL);
    else if (p->activation == TT_ACT_TANH)
        dz = tt_call(b, &tt_op_tanh_grad, NULL, by_y, 2, NULL);
    else if (p->activation == TT_ACT_SIGMOID)
        dz = tt_call(b, &tt_op_sigmoid_grad, NULL, by_y, 2, NULL);
    else if (p->activation == TT_ACT_SILU)
        dz = tt_call(b, &tt_op_silu_grad, NULL, by_z, 2, NULL);
    else {
        if (p->activation == TT_ACT_GELU_ERF)
            gelu.form = TT_GELU_ERF;
        dz = tt_call(b, &tt_op_gelu_grad, &gelu, by_z, 2, NULL);
    }
    return tt_is(dout[1]) ? tt_add(b, dz, dout[1]) : dz;
}

static tt_val product(tt_builder *b, tt_val x, tt_val y, bool transpose_x,
                      bool transpose_y)
{
    return tt_matmul(
        b, x, y, TT_NONE,
        &(tt_matmul_params){transpose_x, transpose_y, TT_ACT_NONE});
}

static tt_val grad_b(tt_builder *b, const tt_node *node, tt_val dz)
{
    const tt_matmul_params *p = node->params;
    const tt_val a = node->in[0];
    const tt_val w = node->in[1];
    if (tt_type_of(b, w)->shape.ndim > 2 || p->transpose_a)
        return p->transpose_b ? product(b, dz, a, true, p->transpose_a)
                              : product(b, a, dz, !p->transpose_a, false);
    const tt_val dw = tt_call(b, &tt_op_matmul_grad_w,
                              &(tt_matmul_grad_w_params){p->transpose_b},
                              (const tt_val[]){a, dz, w}, 3, NULL);
    // A weight's gradient stays wide; an activation's has the type of all others.
    const int32_t source = tt_graph_value(b->graph, w)->node;
    if (source >= 0 && b->graph->node[source].op == &tt_op_fetch)
        return dw;
    return tt_cast(b, dw, tt_type_of(b, w)->dtype);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_matmul_params *p = node->params;
    const tt_val w = node->in[1];
    const tt_val dz = grad_z(b, node, dout);
    TT_TRY(tt_builder_status(b));
    if (need[0])
        din[0] = p->transpose_a ? product(b, w, dz, p->transpose_b, true)
                                : product(b, dz, w, false, !p->transpose_b);
    if (need[1])
        din[1] = grad_b(b, node, dz);
    if (node->n_in > 2 && tt_is(node->in[2]) && need[2])
        din[2] = tt_call(b, &tt_op_bias_grad, NULL,
                         (const tt_val[]){dz, node->in[2]}, 2, NULL);
    return tt_builder_status(b);
}

// The placement of a product along another axis, from those of its operands. That axis
// does not split the inner dimension.
static tt_place place_of_product(const tt_type *a, const tt_type *w,
                                 const tt_type *z, const parts *at, int axis)
{
    const tt_place *rows = &a->place[axis], *columns = &w->place[axis];
    const char *name = NULL;
    if (rows->kind == TT_SPLIT &&
        tt_shape_dim_of(&a->shape, rows->factor) != at->a_k)
        name = a->shape.factor[rows->factor].name;
    if (columns->kind == TT_SPLIT &&
        tt_shape_dim_of(&w->shape, columns->factor) == at->b_n)
        name = w->shape.factor[columns->factor].name;
    return name == NULL ? tt_place_replicate()
                        : tt_place_split(tt_shape_find(&z->shape, name));
}

// The inner split with an activation: product, all-reduce, activation.
static tt_status expand_inner(tt_builder *b, const tt_node *node,
                              const tt_sig *sig, int axis, const tt_val *in,
                              tt_val *out)
{
    const tt_matmul_params *p = node->params;
    tt_matmul_params plain = *p;
    const tt_val bias = node->n_in > 2 ? in[2] : TT_NONE;
    plain.activation = TT_ACT_NONE;
    (void)sig; // says that the bias is one of the terms
    const tt_val terms = tt_matmul(b, in[0], in[1], bias, &plain);
    TT_TRY(tt_builder_status(b));
    const tt_type *x = tt_type_of(b, in[0]), *w = tt_type_of(b, in[1]);
    const parts at = parts_of(p, &x->shape, &w->shape);
    for (int a = 0; a < b->graph->mesh.n_axes; a++)
        tt_place_set(
            b, terms, a,
            a == axis ? tt_place_partial(TT_SUM)
                      : place_of_product(x, w, tt_type_of(b, terms), &at, a));
    const tt_val sum = tt_all_reduce(b, terms, axis, TT_SUM);
    out[1] = tt_cast(b, sum, x->dtype);
    if (out[1].id != sum.id)
        tt_place_like(b, out[1], sum, -1);
    out[0] = tt_matmul_activate(b, p, out[1]);
    tt_place_like(b, out[0], out[1], -1);
    return tt_builder_status(b);
}

static char digit(int dim)
{
    return (char)('0' + dim);
}

// See the table at the top of this file.
static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_matmul_params *p = io->params;
    const parts at = parts_of(p, &io->in[0].shape, &io->in[1].shape);
    const int m = io->out[0].shape.ndim - 2;
    const tt__split lead = {0, at.is_batched ? "==." : "=..", "==", NULL};
    for (int d = 0; d < m; d++)
        tt__shard_dim(io, axis_size, d, &lead, sigs);
    const char to_m[] = {digit(m), digit(m), '\0'};
    const tt__split rows = {0, "=..", to_m, NULL};
    tt__shard_dim(io, axis_size, at.a_m, &rows, sigs);
    const tt__split columns = {1, ".=0", "zz", NULL};
    tt__shard_dim(io, axis_size, at.b_n, &columns, sigs);
    const bool is_plain = p->activation == TT_ACT_NONE;
    const char both[] = {'=', digit(at.b_k), '+', '\0'};
    const tt__split inner = {0, both, is_plain ? "+" : "..",
                             is_plain ? NULL : expand_inner};
    const int before = sigs->n;
    tt__shard_dim(io, axis_size, at.a_k, &inner, sigs);
    for (int s = before; s < sigs->n && !is_plain; s++)
        sigs->sig[s].sent_bytes =
            2 * (axis_size - 1.0) / axis_size * tt_cost_bytes(&io->out[0]);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_matmul_params *p = io->params;
    const tt_matmul_dims d =
        tt_matmul_dims_of(p, &io->in[0].shape, &io->in[1].shape);
    const double y = (double)d.batch * (double)d.m * (double)d.n;
    const int epilogue = (tt_io_has(io, 2) ? 1 : 0) + (p->activation ? 1 : 0);
    tt_cost_io(io, 0, cost_out);
    cost_out->flops = 2 * y * (double)d.k;
    cost_out->work = y * ((double)d.k + epilogue);
    cost_out->depth = tt_cost_log2((double)d.k) + epilogue;
}

tt_val tt_matmul(tt_builder *b, tt_val x, tt_val w, tt_val bias,
                 const tt_matmul_params *params)
{
    const tt_val in[] = {x, w, bias};
    return tt_call(b, &tt_op_matmul, params, in, tt_is(bias) ? 3 : 2, NULL);
}

static const tt_opt options[] = {
    {"transpose_a", "false", "a is [..., k, m]", TT_OPT_BOOL,
     offsetof(tt_matmul_params, transpose_a), NULL, 0, 0},
    {"transpose_b", "false", "b is [..., n, k]", TT_OPT_BOOL,
     offsetof(tt_matmul_params, transpose_b), NULL, 0, 0},
    {"activation", "none", "applied after the bias", TT_OPT_CHOICE,
     offsetof(tt_matmul_params, activation),
     "none|relu|gelu_tanh|gelu_erf|silu|tanh|sigmoid", 0, 0},
    {"wide", "false", "y is f32 where a and b are of 16 bits", TT_OPT_BOOL,
     offsetof(tt_matmul_params, wide), NULL, 0, 0},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f m:3 k:5", "f k:5 n:4"}, 120},
    {"transpose_b=true activation=gelu_tanh",
     {"f batch:2 seq:3 embed:4", "f heads:2.head:3 embed:4",
      "f heads:2.head:3"},
     288},
    {"activation=gelu_erf",
     {"f batch:4 heads:2.head:3", "f heads:2.head:3 ff:4", "f ff:4"},
     192},
    {"transpose_a=true transpose_b=true", {"f k:5 m:3", "f n:4 k:5"}, 120},
    {"",
     {"f batch:2 heads:3 seq:4 head:2", "f batch:2 heads:3 head:2 kv:5"},
     480},
    {"transpose_b=true", {"f lead:4 m:3 k:2", "f lead:4 n:3 k:2"}, 144},
    {"transpose_a=true", {"f lead:2 k:4 m:3", "f lead:2 k:4 n:3"}, 144},
    {"transpose_a=true activation=relu", {"f! k:5 m:3", "f! k:5 n:4"}, 120},
    {"activation=silu", {"f m:3 k:2", "f k:2 n:3", "f n:3"}, 36},
    {"activation=tanh", {"f m:3 k:2", "f k:2 n:3", "f n:3"}, 36},
    {"activation=sigmoid", {"f m:3 k:2", "f k:2 n:3"}, 36},
    {"transpose_b=true wide=true",
     {"f batch:2 seq:3 embed:4", "f out:5 embed:4", "f out:5"},
     240},
    {"wide=true", {"f experts:2 slot:3 ff:4", "f experts:2 ff:4 embed:5"}, 240},
    // Extents that are even, which some kernels ask for.
    {"", {"f m:8 k:32", "f k:32 n:24"}, 12288},
    {"transpose_b=true activation=gelu_tanh",
     {"f m:8 k:32", "f n:24 k:32", "f n:24"},
     12288},
    // More rows or columns than one tile of these kernels.
    {"activation=gelu_tanh", {"f m:130 k:8", "f k:8 n:8", "f n:8"}, 16640},
    {"activation=gelu_tanh", {"f m:3 k:8", "f k:8 n:264"}, 12672},
    // One extent is odd: the last row, column or term is done separately.
    {"transpose_b=true", {"f m:3 k:8", "f n:5 k:8"}, 240},
    {"", {"f m:3 k:5", "f k:5 n:8"}, 240},
    {0},
};

const tt_op_def tt_op_matmul = {
    .name = "matmul",
    .doc = "Matrix product, with bias and activation.",
    .options = options,
    .params_bytes = sizeof(tt_matmul_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
