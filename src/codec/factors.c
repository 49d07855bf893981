// factors - of a fully connected layer's gradient the two factors of which it is the
// product, where they are fewer bytes.
//
// The gradient of a weight [k, n] is x' dy, summed over the rows of x [rows, k] and dy
// [rows, n]. The rows of all replicas one after another give the product of all: nothing
// is lost. A ring moves 2 (p - 1) / p of the gradient's bytes per replica, a gather
// (p - 1) of the factors'; the fewer are sent. All other gradients are sent as they are.
//
// Gradients of a step are sums over micro-batches by the time that they are exchanged, and a
// sum has no factors. So a job sends factors where the gradient is made (pass/factors/), and
// a worker of a server keeps them there.
//
//   bytes   4 rows (k + n), or those of the tensor
//   source  Xie et al. 2014 (sufficient factor broadcasting); Zhang et al. 2017 (Poseidon)

#include "codec/codec.h"
#include "ops/matmul.h"
#include "ops/ops.h"

enum { X, DY, W };

// The node that computed the gradient as a product; NULL: something else did.
static const tt_node *product_of(const tt_builder *b, tt_val v)
{
    const tt_graph *g = b->graph;
    while (tt_is(v) && g->value[v.id].node >= 0) {
        const tt_node *node = &g->node[g->value[v.id].node];
        if (node->op == &tt_op_matmul_grad_w)
            return node;
        if (node->op != &tt_op_offer || node->n_in != 1)
            return NULL;
        v = node->in[0];
    }
    return NULL;
}

static double bytes_of(const tt_builder *b, tt_val v)
{
    const tt_type *type = tt_type_of(b, v);
    return (double)tt_shape_count(&type->shape) *
           (double)tt_dtype_bytes(type->dtype);
}

static bool pays(const tt_builder *b, const tt_coding *c, const tt_node *node)
{
    if (node == NULL)
        return false;
    const tt_shape *x = &tt_type_of(b, node->in[X])->shape;
    const tt_shape *dy = &tt_type_of(b, node->in[DY])->shape;
    return x->first[1] == 1 && dy->first[1] == 1 && // can be joined along dim 0
           (double)c->peers *
                   (bytes_of(b, node->in[X]) + bytes_of(b, node->in[DY])) <
               2 * bytes_of(b, c->x);
}

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    const tt_node *node = product_of(b, c->x);
    const bool is_factored = pays(b, c, node);
    c->code[0] = is_factored ? node->in[X] : c->x;
    c->code[1] = is_factored ? node->in[DY] : TT_NONE;
    c->n_codes = is_factored ? 2 : 1;
    c->join = is_factored ? TT_CODEC_GATHERED : TT_CODEC_ADDED;
    c->is_last = true;
    return b->status;
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    const tt_node *node = product_of(b, c->x);
    if (c->n_codes == 1) {
        *sum_out = joined[0];
        return b->status;
    }
    const tt_val in[] = {joined[X], joined[DY], c->x};
    const tt_matmul_grad_w_params params =
        *(const tt_matmul_grad_w_params *)node->params;
    *sum_out = tt_call(b, &tt_op_matmul_grad_w, &params, in, 3, NULL);
    return b->status;
}

const tt_codec_def tt_codec_factors = {
    .name = "factors",
    .doc =
        "Factors of fully connected layers' gradients, where they are fewer.",
    .is_unbiased = true,
    .is_lossless = true,
    .encode = encode,
    .decode = decode,
};
