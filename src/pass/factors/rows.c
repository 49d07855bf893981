// rows - the two factors of a fully connected layer's gradient can be read, where they are
// fewer bytes than the gradient.
//
// The problem. The gradient of a weight [k, n] is x' dy, summed over the rows of x [rows, k]
// and dy [rows, n]. A worker that sends x and dy to a server sends fewer bytes, if rows are
// few. But they die in backward, and a gradient is a sum over micro-batches.
//
// The idea. x and dy become outputs: they live until the micro-batch ends. Who reads them
// after each one has the factors of the sum: the rows of all, one after another.
//
//   before   x, dy -> dw = x' dy -> offer
//   after    the same; outputs NAME.rows.0 = x, NAME.rows.1 = dy
//
//   same     every bit
//   which    gradients that are one such product, where rows (k + n) numbers of all
//            micro-batches are fewer bytes than the gradient's
//   memory   rows (k + n) numbers of each such layer, until its micro-batch ends
//   source   Chilimbi et al. 2014 (Project Adam)

#include "pass/factors/rows.h"

#include "ops/matmul.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

static void name_of(char name[NAME_BYTES], const char *state, int factor)
{
    snprintf(name, NAME_BYTES, "%s.rows.%d", state, factor);
}

tt_val tt_rows_find(const tt_graph *graph, const char *state, int factor)
{
    char name[NAME_BYTES];
    name_of(name, state, factor);
    return tt_graph_output_find(graph, name);
}

static int64_t bytes_of(const tt_graph *g, tt_val v)
{
    const tt_type *type = &g->value[v.id].type;
    return tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
}

// The product that a gradient is in each micro-batch; NULL: it is something else.
static const tt_node *product_of(const tt_graph *g, tt_val grad)
{
    if (!tt_is(grad) || g->value[grad.id].node < 0)
        return NULL;
    const tt_node *offer = &g->node[g->value[grad.id].node];
    if (offer->op != &tt_op_offer || offer->n_in != 2 ||
        g->value[offer->in[1].id].node < 0)
        return NULL;
    const tt_node *product = &g->node[g->value[offer->in[1].id].node];
    return product->op == &tt_op_matmul_grad_w && product->phase != TT_UPDATE
               ? product
               : NULL;
}

static bool pays(const tt_graph *g, const tt_node *product, int64_t micros)
{
    return micros *
               (bytes_of(g, product->in[0]) + bytes_of(g, product->in[1])) <
           bytes_of(g, product->out[0]);
}

static void keep(tt__rewrite *r, const char *state, const tt_node *product)
{
    const tt_matmul_grad_w_params *p = product->params;
    char name[NAME_BYTES];
    for (int k = 0; k < TT_ROWS_FACTORS; k++) {
        const int factor = p->transposed ? 1 - k : k; // dw' is dy' x
        name_of(name, state, k);
        tt_output(&r->b, name, r->kept[product->in[factor].id]);
    }
}

static tt_status do_node(void *pass, int32_t n)
{
    tt__rewrite *r = pass;
    const tt_node *node = &r->old->node[n];
    tt__rewrite_inputs(r, node->in, node->n_in);
    return tt__copy_node(&r->b, r->old, node, r->in, node->n_in, r->kept);
}

static tt_status rewrite(tt__rewrite *r, const tt_rows_params *params)
{
    const tt_graph *g = r->old;
    TT_TRY(tt__rewrite_nodes(r, r, do_node));
    TT_TRY(tt__copy_ends(&r->b, g, r->kept));
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_node *product = product_of(g, g->value[v].grad);
        if (tt_role_is_state(g->value[v].role) && product != NULL &&
            pays(g, product, params->micro_batches))
            keep(r, g->value[v].name, product);
    }
    return r->b.status;
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    tt__rewrite r;
    tt_status status = tt__rewrite_begin(&r, in, 0);
    if (status == TT_OK)
        status = rewrite(&r, params);
    return tt__rewrite_end(&r, status, out);
}

const tt_pass_def tt_pass_rows = {
    .name = "rows",
    .doc = "Keep factors of fully connected layers' gradients, where fewer.",
    .params_bytes = sizeof(tt_rows_params),
    .apply = apply,
    .tested_by = "tests/train/codes/test_pushed_factors.c",
};
