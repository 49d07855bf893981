// blocks - several ranks of a mesh axis on each rank that there is.
//
// The problem. The same training on 1, 2 and 4 ranks gives results that differ in the
// last bits. Each kernel sums over another number of samples, and sums over ranks are
// cut in other places. `exact` mode promises the same bits.
//
// The idea. Do not make sums independent of their order: fix the order instead. The
// graph is partitioned for L ranks, whatever the number of ranks is. Then this pass
// gives each of the L / k ranks that are there the work of k.
//
//   for 4 ranks        r0        r1        r2        r3
//   on 2 ranks       [ b0        b1 ]    [ b2        b3 ]      k = 2 blocks each
//
//   sum, 4 ranks       ((g0  +  g1)   +   (g2  +  g3))         pairs of neighbours
//   sum, 2 ranks       (g0 + g1) here     (g2 + g3) here       nodes of this pass
//                             \_____ + _____/                  collective, same order
//
//   before   a graph for L ranks along the axis
//   after    the same for L / k ranks, each of which does the work of k: a node whose
//            operands are split or partial becomes k nodes, one per block; a sum over
//            L ranks becomes sums of pairs, of pairs of these, ..., and then a sum over
//            ranks, which continues in the same way (comm/coll/pairs.h)
//
//   bits     every kernel sees operands of the size that one of L ranks has. Nodes whose
//            results do not depend on how operands are cut run once on all of them:
//            the update, and what happens to weights that lie in parts
//   sent     as for L / k ranks without it
//   cost     smaller products, and an addition per gradient and block: docs/exact.md
//            has what was measured
//   needs    pass partition before; k a power of two for equal bits
//
// A block is a placement (block `part` of `parts`, graph/place.h), so coordinates of
// dropout and masks are right by themselves. Terms of gradients are added as soon as
// there are two, so few are alive at a time.

#include "pass/blocks.h"

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

static bool is_flagged(const tt_node *node, uint32_t flags)
{
    return (node->op->flags & flags) != 0;
}

static bool is_read(const tt_node *node, int i)
{
    return tt_is(node->in[i]) && (i >= 32 || !(node->op->shape_only >> i & 1));
}

static bool is_along(const tt__blocks *w, const tt_node *node)
{
    return is_flagged(node, TT_OP_COLLECTIVE) &&
           ((const tt_comm_params *)node->params)->axis == w->axis;
}

// ---- what is read how ----------------------------------------------------

static void find_readers(tt__blocks *w, int32_t *uses)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->is_added[v] = tt__blocks_place(w, v)->kind == TT_PARTIAL;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++) {
            const tt_node *node = &g->node[n];
            if (!is_read(node, i))
                continue;
            uses[node->in[i].id]++;
            w->is_added[node->in[i].id] &=
                is_along(w, node) && node->phase != TT_UPDATE;
            w->is_last[node->in[i].id] = node->op == &tt_op_offer;
        }
    for (int32_t o = 0; o < g->n_outputs; o++)
        uses[g->output[o].val.id] = 2;
    for (int32_t v = 0; v < g->n_values; v++)
        w->is_last[v] &= uses[v] == 1;
}

// ---- nodes ---------------------------------------------------------------

static bool has_whole(const tt__blocks *w, int32_t old)
{
    return tt_is(w->r.kept[old]) || tt_is(w->source[old]);
}

// Whether a node runs once per block.
static bool runs_in_blocks(const tt__blocks *w, const tt_node *node)
{
    const uint32_t any =
        TT_OP_ELEMENTWISE | TT_OP_ALIAS | TT_OP_ACCUMULATE | TT_OP_VIEW;
    bool is_placed = false, has_all = true;
    for (int i = 0; i < node->n_in && w->parts > 1; i++) {
        if (!is_read(node, i) ||
            tt__blocks_place(w, node->in[i].id)->kind == TT_REPLICATE)
            continue;
        const int32_t v = node->in[i].id;
        is_placed = true;
        has_all &= has_whole(w, v);
        if (tt__blocks_place(w, v)->kind == TT_PARTIAL && !has_whole(w, v))
            return true;
        if (tt__blocks_place(w, v)->kind == TT_OWN)
            return true;
    }
    for (int i = 0; i < node->n_out; i++) {
        is_placed |= tt__blocks_place(w, node->out[i].id)->kind != TT_REPLICATE;
        if (tt__blocks_place(w, node->out[i].id)->kind == TT_OWN &&
            w->parts > 1)
            return true;
    }
    return is_placed && node->phase != TT_UPDATE && w->parts > 1 &&
           !(has_all && is_flagged(node, any));
}

// For an input of which only the shape is read: a value placed like block j.
static tt_status read_shape(tt__blocks *w, int32_t v, int j, tt_val *val_out)
{
    if (tt__blocks_place(w, v)->kind == TT_SPLIT)
        return j < 0 ? tt__blocks_whole(w, v, val_out)
                     : tt__blocks_copy(w, v, j, val_out);
    *val_out = tt_is(w->r.kept[v]) ? w->r.kept[v] : *tt__blocks_copies(w, v);
    return TT_OK;
}

static tt_status read_inputs(tt__blocks *w, const tt_node *node, int j)
{
    for (int i = 0; i < node->n_in; i++) {
        const int32_t v = node->in[i].id;
        w->r.in[i] = TT_NONE;
        if (!tt_is(node->in[i]))
            continue;
        if (!is_read(node, i))
            TT_TRY(read_shape(w, v, j, &w->r.in[i]));
        else if (j < 0)
            TT_TRY(tt__blocks_whole(w, v, &w->r.in[i]));
        else
            TT_TRY(tt__blocks_copy(w, v, j, &w->r.in[i]));
    }
    return TT_OK;
}

static tt_status emit(tt__blocks *w, const tt_node *node, int j, tt_val *out)
{
    TT_TRY(read_inputs(w, node, j));
    (void)tt_call(&w->r.b, node->op, node->params, w->r.in, node->n_in, out);
    TT_TRY(w->r.b.status);
    for (int i = 0; i < node->n_out; i++)
        tt__blocks_put(w, out[i], node->out[i].id, j);
    return TT_OK;
}

static void settle_update(tt__blocks *w, int32_t old, tt_val new)
{
    const tt_val state = w->r.old->value[old].updates;
    if (tt_is(state))
        tt_update(&w->r.b, w->r.kept[state.id], new);
}

// The node runs once, on all blocks of the rank. The result of an offer is partial where
// its terms are.
static tt_status run_once(tt__blocks *w, const tt_node *node)
{
    tt_val out[TT_MAX_OUT];
    TT_TRY(emit(w, node, -1, out));
    for (int i = 0; i < node->n_out; i++) {
        const int32_t v = node->out[i].id;
        w->r.kept[v] = out[i];
        settle_update(w, v, out[i]);
    }
    if (node->op == &tt_op_offer && node->n_in == 2 &&
        w->is_term[node->in[1].id]) {
        w->is_term[node->out[0].id] = true;
        tt_place_set(&w->r.b, out[0], w->axis, tt_place_partial(TT_SUM));
    }
    return TT_OK;
}

static tt_status run_blocks(tt__blocks *w, const tt_node *node)
{
    tt_val out[TT_MAX_OUT];
    tt__pile pile[TT_MAX_OUT];
    for (int j = 0; j < w->parts; j++) {
        TT_TRY(emit(w, node, j, out));
        for (int i = 0; i < node->n_out; i++) {
            const int32_t v = node->out[i].id;
            if (w->is_added[v])
                w->r.kept[v] = tt__pile_add(w, v, &pile[i], j, out[i]);
            else
                tt__blocks_copies(w, v)[j] = out[i];
        }
    }
    // A result that is the same in all blocks is read from the last block: by then all
    // blocks have read the state that it may replace.
    for (int i = 0; i < node->n_out; i++) {
        const int32_t v = node->out[i].id;
        if (tt__blocks_place(w, v)->kind == TT_REPLICATE)
            w->r.kept[v] = out[i];
        if (tt_is(w->r.old->value[v].updates)) {
            tt_val new;
            TT_TRY(tt__blocks_whole(w, v, &new));
            settle_update(w, v, new);
        }
    }
    return w->r.b.status;
}

static tt_status do_node(tt__blocks *w, const tt_node *node)
{
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    if (is_along(w, node)) {
        TT_TRY(tt__blocks_collective(w, node));
        const int32_t v = node->out[0].id;
        if (!tt_is(w->r.old->value[v].updates))
            return TT_OK;
        tt_val new;
        TT_TRY(tt__blocks_whole(w, v, &new));
        settle_update(w, v, new);
        return w->r.b.status;
    }
    return runs_in_blocks(w, node) ? run_blocks(w, node) : run_once(w, node);
}

// ---- the graph -----------------------------------------------------------

static tt_status copy_leaf(tt__blocks *w, int32_t v)
{
    TT_TRY(tt__copy_leaf(&w->r.b, w->r.old, v, w->r.kept));
    tt__blocks_put(w, w->r.kept[v], v, -1);
    return TT_OK;
}

// Outputs, which the host reads.
static tt_status finish(tt__blocks *w)
{
    const tt_graph *old = w->r.old;
    tt_val val;
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_val grad = old->value[v].grad;
        if (!tt_is(grad))
            continue;
        TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, 0, old->value[v].name));
        TT_TRY(tt__blocks_whole(w, grad.id, &val));
        w->r.b.graph->value[w->r.kept[v].id].grad = val;
    }
    for (int32_t o = 0; o < old->n_outputs; o++) {
        const int32_t v = old->output[o].val.id;
        if (old->value[v].node >= 0) {
            const tt_node *node = &old->node[old->value[v].node];
            TT_TRY(
                tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
        }
        TT_TRY(tt__blocks_whole(w, v, &val));
        tt_output(&w->r.b, old->output[o].name, val);
    }
    return w->r.b.status;
}

static tt_status find_axis(tt__blocks *w, const tt_blocks_params *p)
{
    const char *name = p->axis == NULL ? "data" : p->axis;
    tt_mesh *mesh = &w->r.b.graph->mesh;
    for (w->axis = 0; w->axis < mesh->n_axes; w->axis++)
        if (strcmp(mesh->axis[w->axis].name, name) == 0)
            break;
    if (w->axis == mesh->n_axes)
        return tt_fail(TT_ERR_ARG, "the mesh has no axis %s", name);
    const int size = mesh->axis[w->axis].size;
    if (p->ranks < 1 || size % p->ranks != 0)
        return tt_fail(TT_ERR_ARG,
                       "%d blocks along %s cannot be shared by %lld ranks",
                       size, name, (long long)p->ranks);
    w->ranks = (int)p->ranks;
    w->parts = size / w->ranks;
    mesh->axis[w->axis].size = w->ranks;
    return TT_OK;
}

static tt_status rewrite(tt__blocks *w)
{
    const tt_graph *old = w->r.old;
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_value *value = &old->value[v];
        if (value->node < 0)
            TT_TRY(copy_leaf(w, v));
        else if (value->slot == 0)
            TT_TRY(do_node(w, &old->node[value->node]));
    }
    return finish(w);
}

static tt_status run(tt__blocks *w, const tt_blocks_params *p)
{
    const int64_t values = w->r.old->n_values;
    TT_TRY(find_axis(w, p));
    w->copy = tt__rewrite_vals(&w->r, values * w->parts);
    w->source = tt__rewrite_vals(&w->r, values);
    w->is_term = tt__rewrite_array(&w->r, values, sizeof *w->is_term);
    w->is_added = tt__rewrite_array(&w->r, values, sizeof *w->is_added);
    w->is_last = tt__rewrite_array(&w->r, values, sizeof *w->is_last);
    int32_t *uses = tt__rewrite_array(&w->r, values, sizeof *uses);
    TT_TRY(w->r.b.status);
    find_readers(w, uses);
    return rewrite(w);
}

static tt_status fold(const tt_graph *in, const tt_blocks_params *p,
                      tt_graph **out)
{
    tt__blocks w = {.at_once = p->at_once};
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    return tt__rewrite_end(&w.r, run(&w, p), out);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const tt_blocks_params *p = params;
    const tt_blocks_params first = {.axis = p->first_axis,
                                    .ranks = p->first_ranks};
    tt_graph *between = NULL;
    if (p->first_axis == NULL)
        return fold(in, p, out);
    TT_TRY(fold(in, &first, &between));
    const tt_status status = fold(between, p, out);
    tt_graph_destroy(between);
    return status;
}

static const tt_opt options[] = {
    {"axis", "data", "the axis", TT_OPT_STR, offsetof(tt_blocks_params, axis)},
    {"ranks", "1", "ranks that there are along it", TT_OPT_I64,
     offsetof(tt_blocks_params, ranks), .min = 1, .max = 65536},
    {"at_once", "false", "gradients are summed over ranks in the update",
     TT_OPT_BOOL, offsetof(tt_blocks_params, at_once)},
    {0},
};

const tt_pass_def tt_pass_blocks = {
    .name = "blocks",
    .doc = "Do the work of several ranks of an axis on each.",
    .options = options,
    .params_bytes = sizeof(tt_blocks_params),
    .apply = apply,
    .tested_by = "the law blocks",
};
