// fuse_patterns - which nodes become one. A pattern begins at a node with the operator
// that it names. Values between the nodes of a pattern have no other readers.

#include "ops/act/activation.h"
#include "ops/codec/fp8.h"
#include "ops/fused/fused.h"
#include "ops/matmul.h"
#include "ops/nn/loss.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/rows.h"
#include "pass/fuse.h"

#include <stddef.h>

static const tt_node *node_at(const tt__matcher *m, int32_t n)
{
    return &m->g->node[n];
}

static bool is_free(const tt__matcher *m, int32_t n, const tt_op_def *op)
{
    return n >= 0 && !m->is_taken[n] && node_at(m, n)->op == op;
}

// A free node of this operator after `first` that reads the first n inputs of `like`;
// -1: none.
static int32_t find_reader(const tt__matcher *m, const tt_op_def *op,
                           const tt_val *in, int n)
{
    for (int32_t i = m->reads[in[n - 1].id].first;
         i >= 0 && i <= m->reads[in[n - 1].id].last; i++) {
        const tt_node *node = node_at(m, i);
        bool is_same = is_free(m, i, op) && node->n_in >= n;
        for (int k = 0; k < n && is_same; k++)
            is_same = node->in[k].id == in[k].id;
        if (is_same)
            return i;
    }
    return -1;
}

static bool same_type(const tt_graph *g, tt_val a, tt_val b)
{
    const tt_type *x = &g->value[a.id].type, *y = &g->value[b.id].type;
    return x->dtype == y->dtype && tt_shape_same_dims(&x->shape, &y->shape);
}

// The addition that is the only reader of v, and what it adds; -1: none.
static int32_t find_addition(const tt__matcher *m, tt_val v, tt_val *other_out)
{
    const int32_t n = m->reads[v.id].first;
    if (m->reads[v.id].n != 1 || !is_free(m, n, &tt_op_add))
        return -1;
    const tt_node *add = node_at(m, n);
    *other_out = add->in[add->in[0].id == v.id ? 1 : 0];
    return add->in[0].id != add->in[1].id && same_type(m->g, *other_out, v) &&
                   same_type(m->g, add->out[0], v)
               ? n
               : -1;
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// ---- norms ---------------------------------------------------------------

// A gradient of a bias that is the sum over the rows of v; -1: none.
static int32_t find_sums(const tt__matcher *m, tt_val v)
{
    const int32_t n = find_reader(m, &tt_op_bias_grad, &v, 1);
    if (n < 0)
        return -1;
    const tt_shape column = tt__last_of(&m->g->value[v.id].type.shape);
    const tt_type *sums = &m->g->value[node_at(m, n)->out[0].id].type;
    return tt_shape_same_dims(&sums->shape, &column) ? n : -1;
}

static void match_norm(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    static const tt_norm_grad_params params[2][2] = {
        {{false, false}, {false, true}}, {{true, false}, {true, true}}};
    const bool has_mean = is_free(m, n, &tt_op_layer_norm_grad_x);
    if (!has_mean && !is_free(m, n, &tt_op_rms_norm_grad_x))
        return;
    const tt_node *x = node_at(m, n);
    const int32_t w = find_reader(
        m, has_mean ? &tt_op_layer_norm_grad_w : &tt_op_rms_norm_grad_w, x->in,
        2);
    if (w < 0)
        return;
    const tt_node *weights = node_at(m, w);
    tt_val plus = TT_NONE;
    const int32_t add = find_addition(m, x->out[0], &plus);
    const tt_val dx = add < 0 ? x->out[0] : node_at(m, add)->out[0];
    const int32_t sums = find_sums(m, dx);
    *group = (tt__fusion){
        .op = &tt_op_norm_grad,
        .params = &params[weights->n_out > 1][sums >= 0],
        .node = {n, w},
        .n_nodes = 2,
        .at = max_of(max_of(n, w), add),
        .in = {x->in[0], x->in[1], x->in[2], has_mean ? x->in[3] : TT_NONE,
               x->in[has_mean ? 4 : 3], add < 0 ? TT_NONE : plus},
        .n_in = add < 0 ? 5 : 6,
        .out = {dx, weights->out[0],
                weights->n_out > 1 ? weights->out[1] : TT_NONE},
        .n_out = weights->n_out + 1};
    if (add >= 0)
        group->node[group->n_nodes++] = add;
    if (sums >= 0) {
        group->node[group->n_nodes++] = sums;
        group->out[group->n_out++] = node_at(m, sums)->out[0];
    }
}

// ---- loss ----------------------------------------------------------------

// Whether v is 1, from a node that makes constants.
static bool is_one(const tt__matcher *m, tt_val v)
{
    const int32_t n = m->g->value[v.id].node;
    if (n < 0 || node_at(m, n)->op != &tt_op_fill)
        return false;
    const tt_fill_params *p = node_at(m, n)->params;
    return p->value == 1;
}

// If v = 1 * s: s. If v is 1: TT_NONE. Else v itself.
static tt_val factor_of(const tt__matcher *m, tt_val v)
{
    if (is_one(m, v))
        return TT_NONE;
    const int32_t n = m->g->value[v.id].node;
    if (n < 0 || node_at(m, n)->op != &tt_op_mul)
        return v;
    const tt_node *product = node_at(m, n);
    for (int i = 0; i < 2; i++)
        if (is_one(m, product->in[i]) && same_type(m->g, product->in[1 - i], v))
            return product->in[1 - i];
    return v;
}

static void match_loss(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    enum { SUM, COUNT, LSE };
    if (!is_free(m, n, &tt_op_cross_entropy))
        return;
    const tt_node *forward = node_at(m, n);
    const int32_t back =
        find_reader(m, &tt_op_cross_entropy_grad, forward->in, 2);
    const int32_t hits = find_reader(m, &tt_op_correct, forward->in, 2);
    if (back < 0 || hits < 0)
        return;
    const tt_node *grad = node_at(m, back);
    if (grad->in[2].id != forward->out[LSE].id ||
        m->reads[forward->out[LSE].id].n != 1)
        return;
    const tt_val factor = factor_of(m, grad->in[3]);
    *group =
        (tt__fusion){.op = &tt_op_cross_entropy_step,
                     .params = forward->params,
                     .node = {n, hits, back},
                     .n_nodes = 3,
                     .at = n,
                     .in = {forward->in[0], forward->in[1], factor},
                     .n_in = tt_is(factor) ? 3 : 2,
                     .out = {grad->out[0], forward->out[SUM],
                             forward->out[COUNT], node_at(m, hits)->out[0]},
                     .n_out = 4};
}

// ---- products ------------------------------------------------------------

// The plain product with a shared right side that makes v for one reader; NULL: none.
static const tt_node *product_of(const tt__matcher *m, tt_val v)
{
    const int32_t n = m->g->value[v.id].node;
    if (m->reads[v.id].n != 1 || !is_free(m, n, &tt_op_matmul))
        return NULL;
    const tt_node *node = node_at(m, n);
    const tt_matmul_params *p = node->params;
    const tt_type *b = &m->g->value[node->in[1].id].type;
    return p->activation == TT_ACT_NONE && !p->transpose_a && b->shape.ndim == 2
               ? node
               : NULL;
}

static int32_t index_of(const tt__matcher *m, const tt_node *node)
{
    return node == NULL ? -1 : (int32_t)(node - m->g->node);
}

static void match_add(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_add))
        return;
    const tt_node *add = node_at(m, n);
    const int32_t a = index_of(m, product_of(m, add->in[0]));
    const int32_t b = index_of(m, product_of(m, add->in[1]));
    const int32_t last = max_of(a, b);
    if (last < 0 || !same_type(m->g, add->in[0], add->in[1]))
        return;
    const tt_node *product = node_at(m, last);
    if (product->phase != add->phase)
        return;
    *group = (tt__fusion){.op = &tt_op_matmul_add,
                          .params = product->params,
                          .node = {last, n},
                          .n_nodes = 2,
                          .at = n,
                          .in = {product->in[0], product->in[1],
                                 product->n_in > 2 ? product->in[2] : TT_NONE,
                                 add->in[last == a ? 1 : 0]},
                          .n_in = 4,
                          .out = {add->out[0]},
                          .n_out = 1};
}

// The same of a product in 8 bits.
static void match_add_fp8(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    tt_val plus = TT_NONE;
    if (!is_free(m, n, &tt_op_matmul_fp8))
        return;
    const tt_node *product = node_at(m, n);
    const int32_t add = find_addition(m, product->out[0], &plus);
    if (add < 0 || product->n_in > TT_M8_LIKE ||
        m->g->value[product->out[0].id].type.dtype != TT_BF16 ||
        node_at(m, add)->phase != product->phase)
        return;
    const bool has_bias = product->n_in > TT_M8_BIAS;
    *group = (tt__fusion){.op = &tt_op_matmul_fp8,
                          .params = product->params,
                          .node = {n, add},
                          .n_nodes = 2,
                          .at = add,
                          .in = {product->in[TT_M8_A], product->in[TT_M8_B],
                                 product->in[TT_M8_UNITS],
                                 has_bias ? product->in[TT_M8_BIAS] : TT_NONE,
                                 TT_NONE, plus},
                          .n_in = TT_M8_N,
                          .out = {node_at(m, add)->out[0]},
                          .n_out = 1};
}

static void match_gelu(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_gelu_grad))
        return;
    const tt_node *grad = node_at(m, n);
    const tt_gelu_params *p = grad->params;
    const tt_node *product = product_of(m, grad->in[1]);
    if (p->form != TT_GELU_TANH || product == NULL ||
        (product->n_in > 2 && tt_is(product->in[2])) ||
        product->phase != grad->phase)
        return;
    *group = (tt__fusion){.op = &tt_op_matmul_gelu_grad,
                          .params = product->params,
                          .node = {index_of(m, product), n},
                          .n_nodes = 2,
                          .at = n,
                          .in = {product->in[0], product->in[1], grad->in[0]},
                          .n_in = 3,
                          .out = {grad->out[0]},
                          .n_out = 1};
}

static void match_bias(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_matmul_grad_w))
        return;
    const tt_node *weight = node_at(m, n);
    const int32_t b = find_reader(m, &tt_op_bias_grad, &weight->in[1], 1);
    if (b < 0)
        return;
    const tt_node *bias = node_at(m, b);
    *group = (tt__fusion){.op = &tt_op_matmul_grad_both,
                          .params = weight->params,
                          .node = {n, b},
                          .n_nodes = 2,
                          .at = max_of(n, b),
                          .in = {weight->in[0], weight->in[1],
                                 weight->n_in > 2 ? weight->in[2] : TT_NONE,
                                 bias->n_in > 1 ? bias->in[1] : TT_NONE},
                          .n_in = 4,
                          .out = {weight->out[0], bias->out[0]},
                          .n_out = 2};
}

// A gradient that is packed and summed over its rows, and the gradient of GELU before it
// where nobody else reads what that makes.
static void match_pack(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_fp8_pack))
        return;
    const tt_node *pack = node_at(m, n);
    const tt_fp8_pack_params *p = pack->params;
    const tt_val x = pack->in[TT_Q_X];
    const int32_t b = find_reader(m, &tt_op_bias_grad, &x, 1);
    if (b < 0 || p->is_gelu)
        return;
    const tt_node *bias = node_at(m, b);
    const int32_t g = m->g->value[x.id].node;
    const bool has_gelu =
        m->reads[x.id].n == 2 && is_free(m, g, &tt_op_gelu_grad) &&
        ((const tt_gelu_params *)node_at(m, g)->params)->form == TT_GELU_TANH &&
        node_at(m, g)->phase == pack->phase;
    *group = (tt__fusion){.op = &tt_op_fp8_pack_grad,
                          .params = p,
                          .node = {n, b, g},
                          .n_nodes = has_gelu ? 3 : 2,
                          .at = n,
                          .in = {has_gelu ? node_at(m, g)->in[1] : x,
                                 pack->in[TT_Q_UNITS],
                                 has_gelu ? node_at(m, g)->in[0] : TT_NONE,
                                 bias->n_in > 1 ? bias->in[1] : TT_NONE},
                          .n_in = TT_QG_N,
                          .out = {bias->out[0], pack->out[TT_Q_ROWS],
                                  pack->out[TT_Q_TURNED], pack->out[TT_Q_PEAK]},
                          .n_out = TT_QG_N_OUT};
}

// ---- convolutions --------------------------------------------------------

static void match_relu(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_conv))
        return;
    const tt_node *conv = node_at(m, n);
    const int32_t next = m->reads[conv->out[0].id].first;
    if (m->reads[conv->out[0].id].n != 1 || !is_free(m, next, &tt_op_relu) ||
        node_at(m, next)->phase != conv->phase)
        return;
    *group = (tt__fusion){.op = &tt_op_conv_relu,
                          .params = conv->params,
                          .node = {n, next},
                          .n_nodes = 2,
                          .at = next,
                          .in = {conv->in[0], conv->in[1],
                                 conv->n_in > 2 ? conv->in[2] : TT_NONE},
                          .n_in = conv->n_in,
                          .out = {node_at(m, next)->out[0]},
                          .n_out = 1};
}

static void match_images(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_conv_grad_x))
        return;
    const tt_node *grad = node_at(m, n);
    tt_val plus = TT_NONE;
    const int32_t add = find_addition(m, grad->out[0], &plus);
    if (add < 0 || node_at(m, add)->phase != grad->phase)
        return;
    *group = (tt__fusion){.op = &tt_op_conv_grad_x_add,
                          .params = grad->params,
                          .node = {n, add},
                          .n_nodes = 2,
                          .at = add,
                          .in = {plus, grad->in[0], grad->in[1], grad->in[2]},
                          .n_in = 4,
                          .out = {node_at(m, add)->out[0]},
                          .n_out = 1};
}

static void match_masks(const tt__matcher *m, int32_t n, tt__fusion *group)
{
    if (!is_free(m, n, &tt_op_relu_grad))
        return;
    const tt_node *relu = node_at(m, n);
    const int32_t b = find_reader(m, &tt_op_conv_grad_b, &relu->out[0], 1);
    if (b < 0)
        return;
    const tt_node *bias = node_at(m, b);
    *group = (tt__fusion){.op = &tt_op_relu_grad_bias,
                          .node = {n, b},
                          .n_nodes = 2,
                          .at = n,
                          .in = {relu->in[0], relu->in[1],
                                 bias->n_in > 1 ? bias->in[1] : TT_NONE},
                          .n_in = 1 + bias->n_in,
                          .out = {relu->out[0], bias->out[0]},
                          .n_out = 2};
}

const tt__pattern tt__patterns[] = {
    {&tt_op_norm_grad, match_norm},
    {&tt_op_cross_entropy_step, match_loss},
    {&tt_op_matmul_gelu_grad, match_gelu},
    {&tt_op_matmul_add, match_add},
    {&tt_op_matmul_add, match_add_fp8},
    {&tt_op_matmul_grad_both, match_bias},
    {&tt_op_fp8_pack_grad, match_pack},
    {&tt_op_conv_relu, match_relu},
    {&tt_op_conv_grad_x_add, match_images},
    {&tt_op_relu_grad_bias, match_masks},
    {NULL, NULL},
};
