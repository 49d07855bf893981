// recompute - values that the backward pass reads are computed again there
// instead of being kept since the forward pass (Chen et al. 2016).
//
//   before   x -> f -> a -> g -> y ...      a is kept until the gradient of g
//   after    x -> f -> a -> g -> y ...      a dies in the forward pass;
//            x -> f -> a'                   its copy is made from x, which is kept,
//                                           right before the first gradient that
//                                           reads it
//
//   selective   < 2% more FLOPs; full: about a third more (see recompute_pick.c)
//   same bits   copies have the origin of what they repeat, so random numbers
//               repeat too; running statistics move once, in the forward pass, and
//               copies read what they were before: a stage of a pipeline may run
//               other micro-batches forward in between
//   sent        nothing twice, and weights that ZeRO holds in parts are gathered
//               in the backward pass once, for copies and gradients of a layer
//   needs       a graph with a backward pass; on a mesh, pass partition before
//
// Values of the forward pass keep their ids.

#include "pass/recompute.h"

#include "ops/arith.h"
#include "ops/matmul.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

typedef struct params {
    int mode; // tt__recompute_mode
} params;

typedef struct work {
    tt__rewrite r;
    bool *is_dropped; // per old value
    tt_val *again;    // per old value: its copy in the backward pass, or none
    bool *moves;      // per old value: a state that the forward pass changes
    tt_val *before; // per old value: what such a state was, for copies, or none
    int32_t *gather;  // per old value: the old node for which it was gathered
                      // last in the backward pass, or -1
    tt_val *gathered; // likewise: and what came of it
    bool *is_needed;  // per old node: to be repeated now
    bool is_settled;  // updates of the forward pass were declared
} work;

// ---- copies --------------------------------------------------------------

static bool is_missing(const work *w, tt_val v)
{
    return w->is_dropped[v.id] && !tt_is(w->again[v.id]);
}

// Marks what must be repeated to have v, walking down from its producer; returns
// the first node.
static int32_t mark_needed(work *w, int32_t last)
{
    int32_t first = last;
    w->is_needed[last] = true;
    for (int32_t n = last; n >= first; n--) {
        const tt_node *node = &w->r.old->node[n];
        if (!w->is_needed[n] || tt__is_activation(node, w->is_dropped))
            continue;
        for (int i = 0; i < node->n_in; i++) {
            if (!tt__reads(node, i) || !is_missing(w, node->in[i]))
                continue;
            const int32_t from = w->r.old->value[node->in[i].id].node;
            w->is_needed[from] = true;
            first = from < first ? from : first;
        }
    }
    return first;
}

static void read_again(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        w->r.in[i] = TT_NONE;
        if (!tt_is(node->in[i]))
            continue;
        const int32_t v = node->in[i].id;
        const bool is_read = tt__reads(node, i);
        w->r.in[i] = is_read && w->is_dropped[v] ? w->again[v] : w->r.kept[v];
        if (is_read && tt_is(w->before[v]))
            w->r.in[i] = w->before[v];
    }
}

// A weight that was gathered for another node of the layer in the backward pass,
// or TT_NONE.
static tt_val gathered_before(const work *w, const tt_node *node)
{
    const int32_t of = node->in[0].id;
    if (!tt__is_weight_gather(w->r.old, node) || w->gather[of] < 0)
        return TT_NONE;
    const tt_node *last = &w->r.old->node[w->gather[of]];
    return strcmp(last->origin, node->origin) == 0 ? w->gathered[of] : TT_NONE;
}

static void remember_gather(work *w, const tt_node *node, tt_val val)
{
    const int32_t of = node->in[0].id;
    if (!tt__is_weight_gather(w->r.old, node))
        return;
    w->gather[of] = (int32_t)(node - w->r.old->node);
    w->gathered[of] = val;
}

// The stage of a copy. A rank may have several, one after another without a transfer:
// then the first gradient that reads the copy may be of a later one, whose backward pass
// comes first.
static int32_t copy_stage(const work *w, const tt_node *node,
                          const tt_node *reader)
{
    const tt_mesh *mesh = &w->r.old->mesh;
    const int pipe = tt_mesh_pipe(mesh);
    if (pipe < 0)
        return node->stage;
    const int size = mesh->axis[pipe].size;
    const bool is_same = tt_mesh_stage_coord(size, node->stage) ==
                         tt_mesh_stage_coord(size, reader->stage);
    return is_same && reader->stage > node->stage ? reader->stage : node->stage;
}

static tt_status repeat(work *w, const tt_node *node, const tt_node *reader)
{
    tt_val out[TT_MAX_OUT];
    const bool is_activation = tt__is_activation(node, w->is_dropped);
    TT_TRY(tt__copy_aim(&w->r.b, TT_BACKWARD, copy_stage(w, node, reader),
                        node->origin));
    out[0] = gathered_before(w, node);
    if (tt_is(out[0])) {
        w->again[node->out[0].id] = out[0];
        return TT_OK;
    }
    if (is_activation) {
        const tt_val z = w->r.kept[node->out[1].id];
        out[0] = tt_matmul_activate(&w->r.b, node->params, z);
    } else {
        read_again(w, node);
        (void)tt_call(&w->r.b, node->op, node->params, w->r.in, node->n_in,
                      out);
    }
    TT_TRY(w->r.b.status);
    for (int i = 0; i < (is_activation ? 1 : node->n_out); i++) {
        w->again[node->out[i].id] = out[i];
        tt__copy_places(&w->r.b, w->r.old, node->out[i].id, out[i]);
    }
    remember_gather(w, node, out[0]);
    return TT_OK;
}

static tt_status require(work *w, tt_val v, const tt_node *reader)
{
    if (!is_missing(w, v))
        return TT_OK;
    const int32_t last = w->r.old->value[v.id].node;
    for (int32_t n = mark_needed(w, last); n <= last; n++) {
        if (!w->is_needed[n])
            continue;
        w->is_needed[n] = false;
        TT_TRY(repeat(w, &w->r.old->node[n], reader));
    }
    return TT_OK;
}

// ---- the new graph -------------------------------------------------------

static tt_val state_of(const tt_graph *g, int32_t v)
{
    const tt_value *value = &g->value[v];
    return tt_is(value->updates) && g->node[value->node].phase != TT_UPDATE
               ? value->updates
               : TT_NONE;
}

static void find_moving(work *w)
{
    for (int32_t v = 0; v < w->r.old->n_values; v++) {
        const tt_val state = state_of(w->r.old, v);
        if (tt_is(state))
            w->moves[state.id] = true;
    }
}

static void settle_updates(work *w)
{
    w->is_settled = true;
    for (int32_t v = 0; v < w->r.old->n_values; v++) {
        const tt_val state = state_of(w->r.old, v);
        if (tt_is(state))
            tt_update(&w->r.b, w->r.kept[state.id], w->r.kept[v]);
    }
}

static bool may_repeat(const work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++)
        if (w->is_dropped[node->out[i].id])
            return node->phase == TT_FORWARD;
    return false;
}

// Keeps what states are now, for the copy of a node that reads them.
static tt_status keep_before(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in && may_repeat(w, node); i++) {
        const int32_t v = node->in[i].id;
        if (!tt_is(node->in[i]) || !tt__reads(node, i) || !w->moves[v] ||
            tt_is(w->before[v]))
            continue;
        TT_TRY(tt__copy_aim(&w->r.b, TT_FORWARD, node->stage, node->origin));
        w->before[v] = tt_scale(&w->r.b, w->r.kept[v], 1);
        TT_TRY(w->r.b.status);
        tt__copy_places(&w->r.b, w->r.old, v, w->before[v]);
    }
    return TT_OK;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    tt_val out[TT_MAX_OUT];
    if (node->phase == TT_UPDATE && !w->is_settled)
        settle_updates(w);
    TT_TRY(keep_before(w, node));
    for (int i = 0; i < node->n_in && tt__is_backward(node); i++)
        if (tt__reads(node, i))
            TT_TRY(require(w, node->in[i], node));
    for (int i = 0; i < node->n_in; i++) {
        w->r.in[i] = TT_NONE;
        if (!tt_is(node->in[i]))
            continue;
        const int32_t v = node->in[i].id;
        w->r.in[i] =
            tt__is_backward(node) && tt__reads(node, i) && w->is_dropped[v]
                ? w->again[v]
                : w->r.kept[v];
    }
    const bool can_reuse = node->phase == TT_BACKWARD;
    out[0] = can_reuse ? gathered_before(w, node) : TT_NONE;
    if (tt_is(out[0])) {
        w->r.kept[node->out[0].id] = out[0];
        return TT_OK;
    }
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    (void)tt_call(&w->r.b, node->op, node->params, w->r.in, node->n_in, out);
    TT_TRY(w->r.b.status);
    if (can_reuse)
        remember_gather(w, node, out[0]);
    for (int i = 0; i < node->n_out; i++) {
        const tt_value *value = &w->r.old->value[node->out[i].id];
        w->r.kept[node->out[i].id] = out[i];
        tt__copy_places(&w->r.b, w->r.old, node->out[i].id, out[i]);
        if (node->phase == TT_UPDATE && tt_is(value->updates))
            tt_update(&w->r.b, w->r.kept[value->updates.id], out[i]);
    }
    return TT_OK;
}

static tt_status rewrite(work *w, tt__recompute_mode mode)
{
    TT_TRY(w->r.b.status);
    for (int32_t v = 0; v < w->r.old->n_values; v++)
        w->gather[v] = -1;
    find_moving(w);
    TT_TRY(tt__recompute_pick(w->r.old, mode, w->is_dropped));
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    if (!w->is_settled)
        settle_updates(w);
    TT_TRY(w->r.b.status);
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params_, tt_graph **out)
{
    const params *p = params_;
    const int64_t values = in->n_values;
    work w = {0};
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    w.is_dropped = tt__rewrite_array(&w.r, values, sizeof *w.is_dropped);
    w.moves = tt__rewrite_array(&w.r, values, sizeof *w.moves);
    w.before = tt__rewrite_vals(&w.r, values);
    w.again = tt__rewrite_vals(&w.r, values);
    w.gather = tt__rewrite_array(&w.r, values, sizeof *w.gather);
    w.gathered = tt__rewrite_vals(&w.r, values);
    w.is_needed = tt__rewrite_array(&w.r, in->n_nodes, sizeof *w.is_needed);
    return tt__rewrite_end(&w.r, rewrite(&w, (tt__recompute_mode)p->mode), out);
}

static const tt_opt options[] = {
    {"mode", "full", "what is computed again", TT_OPT_CHOICE,
     offsetof(params, mode), "none|selective|full"},
    {0},
};

static const char *const samples[] = {"mode=full", "mode=selective", NULL};

const tt_pass_def tt_pass_recompute = {
    .name = "recompute",
    .doc = "Compute activations again instead of keeping them.",
    .options = options,
    .params_bytes = sizeof(params),
    .apply = apply,
    .samples = samples,
};
