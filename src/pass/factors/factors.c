// factors - replicas send the two factors of a fully connected layer's gradient, where
// these are fewer bytes.
//
// The problem. The gradient of a weight [k, n] is x' dy, summed over the rows of x [rows, k]
// and dy [rows, n]. A layer with large k and n and few rows has a gradient that is far larger
// than what it was made of.
//
// The idea. Replicas gather each other's rows, and each computes the product of all rows.
// It is the sum over all replicas already.
//
//   before   x, dy  S(batch)/data -> dw P(sum) -> offer P -- all_reduce, reduce_scatter -> sum
//   after    x, dy  -- all_gather -> R -> dw R -> offer R ---------- nothing, take ------> sum
//
//   sent     a rank sends (p - 1) times its rows, rows (k + n) numbers, for each micro-batch;
//            a ring sends 2 (p - 1) / p k n numbers once in a step (half of that with ZeRO).
//            The fewer are sent
//   price    each replica computes the product of all rows: p times the flops of dw
//   which    gradients that are one such product, and not terms along other axes, too.
//            All others are summed as they are
//   exact    but for the order of sums
//   needs    pass partition before
//   source   Xie et al. 2014 (sufficient factor broadcasting); Zhang et al. 2017 (Poseidon)

#include "pass/factors/factors.h"

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

enum { X, DY, W };

typedef struct work {
    tt__rewrite r;
    const tt_factors_params *params;
    int axis;          // of the replicas; -1: there is none
    int32_t *readers;  // per old value: how many
    bool *is_factored; // per old value: gradients that are whole now
} work;

static const tt_type *type_of(const work *w, tt_val v)
{
    return &w->r.old->value[v.id].type;
}

static double bytes_of(const tt_mesh *mesh, const tt_type *type)
{
    tt_local local;
    tt_local_of(type, mesh, 0, &local);
    return (double)tt_shape_count(&local.shape) *
           (double)tt_dtype_bytes(type->dtype);
}

// ---- which gradients -----------------------------------------------------

static bool is_split(const work *w, tt_val v)
{
    const tt_place *place = &type_of(w, v)->place[w->axis];
    return place->kind == TT_SPLIT && !place->zigzag && place->rotate == 0 &&
           place->window.out == 0;
}

// Along other axes nothing is a term: then the sum along this one is the last.
static bool is_term_here_only(const work *w, const tt_type *type)
{
    for (int a = 0; a < w->r.old->mesh.n_axes; a++)
        if ((type->place[a].kind == TT_PARTIAL) != (a == w->axis))
            return false;
    return type->place[w->axis].reduce == TT_SUM;
}

// A reduce-scatter sends half as much as an all-reduce.
static bool pays(const work *w, const tt_node *product, const tt_node *sum)
{
    const tt_mesh *mesh = &w->r.old->mesh;
    const double p = mesh->axis[w->axis].size;
    const double rows = bytes_of(mesh, type_of(w, product->in[X])) +
                        bytes_of(mesh, type_of(w, product->in[DY]));
    return (double)w->params->micro_batches * (p - 1) * rows <
           (sum->op == &tt_op_all_reduce ? 2 : 1) * (p - 1) / p *
               bytes_of(mesh, type_of(w, product->out[0]));
}

// The product that an offer hands over; NULL: its gradient is sent as it is.
static const tt_node *product_of(const work *w, const tt_node *offer)
{
    const tt_graph *g = w->r.old;
    if (offer->op != &tt_op_offer || offer->n_in != 2 ||
        g->value[offer->in[1].id].node < 0 || w->readers[offer->in[1].id] != 1)
        return NULL;
    const tt_node *product = &g->node[g->value[offer->in[1].id].node];
    return product->op == &tt_op_matmul_grad_w &&
                   is_term_here_only(w, type_of(w, product->out[0])) &&
                   is_split(w, product->in[X]) && is_split(w, product->in[DY])
               ? product
               : NULL;
}

static bool is_sum(const work *w, const tt_node *node)
{
    return (node->op == &tt_op_all_reduce ||
            node->op == &tt_op_reduce_scatter) &&
           node->phase == TT_UPDATE &&
           ((const tt_comm_params *)node->params)->axis == w->axis;
}

static void count_readers(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (tt_is(g->node[n].in[i]))
                w->readers[g->node[n].in[i].id]++;
    for (int32_t o = 0; o < g->n_outputs; o++)
        w->readers[g->output[o].val.id]++;
}

// Marks the product and the offer of each gradient that is summed along the axis and read
// by nobody else before.
static void find(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *sum = &g->node[n];
        if (!is_sum(w, sum) || w->readers[sum->in[0].id] != 1 ||
            g->value[sum->in[0].id].node < 0)
            continue;
        const tt_node *offer = &g->node[g->value[sum->in[0].id].node];
        const tt_node *product = product_of(w, offer);
        if (product != NULL && pays(w, product, sum))
            w->is_factored[offer->out[0].id] =
                w->is_factored[product->out[0].id] = true;
    }
}

// ---- the graph -----------------------------------------------------------

// All rows of all replicas.
static tt_status gather_rows(work *w, const tt_node *product)
{
    tt_builder *b = &w->r.b;
    TT_TRY(tt__copy_aim(b, product->phase, product->stage, product->origin));
    tt__rewrite_inputs(&w->r, product->in, product->n_in);
    w->r.in[X] = tt_all_gather(b, w->r.in[X], w->axis);
    w->r.in[DY] = tt_all_gather(b, w->r.in[DY], w->axis);
    return b->status;
}

// What was summed is whole: all of it is read, or the rank's part.
static tt_status skip_sum(work *w, const tt_node *sum)
{
    const tt_comm_params *p = sum->params;
    const tt_val whole = w->r.kept[sum->in[0].id];
    TT_TRY(tt__copy_aim(&w->r.b, sum->phase, sum->stage, sum->origin));
    w->r.kept[sum->out[0].id] =
        sum->op == &tt_op_all_reduce
            ? whole
            : tt_take(&w->r.b, whole, w->axis, p->factor);
    return w->r.b.status;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_graph *g = w->r.old;
    const tt_node *node = &g->node[n];
    if (is_sum(w, node) && w->is_factored[node->in[0].id])
        return skip_sum(w, node);
    const bool is_factored = w->is_factored[node->out[0].id];
    if (is_factored && node->op == &tt_op_matmul_grad_w)
        TT_TRY(gather_rows(w, node));
    else
        tt__rewrite_inputs(&w->r, node->in, node->n_in);
    TT_TRY(tt__copy_node(&w->r.b, g, node, w->r.in, node->n_in, w->r.kept));
    if (is_factored)
        tt_place_set(&w->r.b, w->r.kept[node->out[0].id], w->axis,
                     tt_place_replicate());
    return w->r.b.status;
}

static int find_axis(const tt_mesh *mesh)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->axis[a].name, "data") == 0)
            return a;
    return -1;
}

static tt_status rewrite(work *w)
{
    w->axis = find_axis(&w->r.old->mesh);
    w->readers =
        tt__rewrite_array(&w->r, w->r.old->n_values, sizeof *w->readers);
    w->is_factored =
        tt__rewrite_array(&w->r, w->r.old->n_values, sizeof *w->is_factored);
    TT_TRY(w->r.b.status);
    if (w->axis >= 0) {
        count_readers(w);
        find(w);
    }
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    work w = {.params = params};
    tt_status status = tt__rewrite_begin(&w.r, in, 0);
    if (status == TT_OK)
        status = rewrite(&w);
    return tt__rewrite_end(&w.r, status, out);
}

const tt_pass_def tt_pass_factors = {
    .name = "factors",
    .doc = "Send factors of fully connected layers' gradients, where fewer.",
    .params_bytes = sizeof(tt_factors_params),
    .apply = apply,
    .tested_by = "tests/train/codes/test_sent_factors.c",
};
