// offload - what is not needed for a while lies in the host's memory, which is larger
// (ZeRO-Offload, vDNN).
//
//   before   m -> adamw -> m'                      m is on the device all the time
//   after    m -> reload -> adamw -> offload -> m' m is on the host; groups of such
//                                                  come and go while others are in use
//   before   forward: f -> a ...  backward: a -> gradient
//   after    forward: f -> a -> offload   backward: reload -> a' -> gradient
//
//   same     every bit: copies
//   memory   of the device, a few groups of a twentieth each of what is offloaded
//   sent     over the link between both, each way once a step (states) or a
//            micro-batch (activations), beside the steps (plan/offload.c)
//   needs    comes last

#include "pass/offload.h"

#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"
#include "pass/recompute.h"

typedef struct work {
    tt__rewrite r;
    tt__cargos states, values;
    int32_t *root;     // per old value: the one whose memory it is
    tt_val *host;      // per old value: its copy on the host, or none
    tt_val *again;     // per old value: what came back, or none
    int32_t loaded[2]; // groups that were brought back: of states, of values
} work;

static tt_status move(work *w, const tt_op_def *op, tt_val from, int32_t old,
                      tt_val *to)
{
    *to = tt_call(&w->r.b, op, NULL, &from, 1, NULL);
    TT_TRY(w->r.b.status);
    tt__copy_places(&w->r.b, w->r.old, old, *to);
    return TT_OK;
}

// Brings groups back up to `group`, in front of a node; each value in the stage that reads
// it first.
static tt_status bring(work *w, const tt__cargos *c, int32_t *loaded,
                       int32_t group, const tt_node *node)
{
    const tt_phase phase = node->phase == TT_UPDATE ? TT_UPDATE : TT_BACKWARD;
    if (group < *loaded)
        return TT_OK;
    for (int32_t i = 0; i < c->n; i++) {
        const tt__cargo *x = &c->cargo[i];
        if (x->group < *loaded || x->group > group)
            continue;
        const tt_node *user = &w->r.old->node[x->user];
        TT_TRY(tt__copy_aim(&w->r.b, phase, user->stage, user->origin));
        TT_TRY(move(w, &tt_op_reload, w->host[x->value], x->value,
                    &w->again[x->value]));
    }
    *loaded = group + 1;
    return TT_OK;
}

// Whoever first needs a group has the next one on its way too.
static tt_status bring_for(work *w, const tt__cargos *c, int32_t *loaded,
                           int32_t n)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->cargo[i].user == n)
            return bring(w, c, loaded, c->cargo[i].group + 1,
                         &w->r.old->node[n]);
    return TT_OK;
}

// ---- reading -------------------------------------------------------------

// A value as the backward pass reads it: what came back, or a view of that.
static tt_status read_back(work *w, tt_val v, const tt_node *reader,
                           tt_val *val_out)
{
    const int32_t root = w->root[v.id];
    *val_out = w->r.kept[v.id];
    if (w->values.of[root] == 0)
        return TT_OK;
    if (!tt_is(w->again[v.id])) {
        const tt_node *view = &w->r.old->node[w->r.old->value[v.id].node];
        tt_val in[2] = {TT_NONE, TT_NONE}, out[TT_MAX_OUT];
        TT_TRY(read_back(w, view->in[0], reader, &in[0]));
        if (view->n_in > 1) // for its shape
            in[1] = w->r.kept[view->in[1].id];
        TT_TRY(tt__copy_aim(&w->r.b, TT_BACKWARD, reader->stage, view->origin));
        (void)tt_call(&w->r.b, view->op, view->params, in, view->n_in, out);
        TT_TRY(w->r.b.status);
        for (int i = 0; i < view->n_out; i++) {
            w->again[view->out[i].id] = out[i];
            tt__copy_places(&w->r.b, w->r.old, view->out[i].id, out[i]);
        }
    }
    *val_out = w->again[v.id];
    return TT_OK;
}

static tt_status read_inputs(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        const tt_val v = node->in[i];
        tt_val now = tt_is(v) ? w->r.kept[v.id] : TT_NONE;
        if (tt_is(v) && tt__reads(node, i) && w->states.of[v.id] != 0)
            now = w->again[v.id];
        else if (tt_is(v) && tt__reads(node, i) && tt__is_backward(node))
            TT_TRY(read_back(w, v, node, &now));
        w->r.in[i] = now;
    }
    return TT_OK;
}

// ---- writing -------------------------------------------------------------

static tt_status write_outputs(work *w, const tt_node *node, const tt_val *out)
{
    for (int i = 0; i < node->n_out; i++) {
        const int32_t v = node->out[i].id;
        const tt_val state = w->r.old->value[v].updates;
        w->r.kept[v] = out[i];
        tt__copy_places(&w->r.b, w->r.old, v, out[i]);
        if (tt_is(state) && w->states.of[state.id] == 0)
            tt_update(&w->r.b, w->r.kept[state.id], out[i]);
        if (w->values.of[v] != 0)
            TT_TRY(move(w, &tt_op_offload, out[i], v, &w->host[v]));
    }
    return w->r.b.status;
}

// Stores the new versions of a group's states, after the last user of the group.
static tt_status store_states(work *w, int32_t n)
{
    const tt__cargos *c = &w->states;
    int32_t group = -1;
    for (int32_t i = 0; i < c->n; i++)
        if (c->cargo[i].user == n &&
            (i + 1 == c->n || c->cargo[i + 1].group != c->cargo[i].group))
            group = c->cargo[i].group;
    for (int32_t i = 0; i < c->n; i++) {
        const tt__cargo *x = &c->cargo[i];
        const tt_node *user = &w->r.old->node[x->user];
        if (x->group != group)
            continue;
        TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, user->stage, user->origin));
        for (int o = 0; o < user->n_out; o++) {
            const int32_t v = user->out[o].id;
            tt_val stored;
            if (w->r.old->value[v].updates.id != x->value)
                continue;
            TT_TRY(move(w, &tt_op_offload, w->r.kept[v], v, &stored));
            tt_update(&w->r.b, w->r.kept[x->value], stored);
        }
    }
    return w->r.b.status;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    tt_val out[TT_MAX_OUT];
    TT_TRY(bring_for(w, &w->states, &w->loaded[0], n));
    TT_TRY(bring_for(w, &w->values, &w->loaded[1], n));
    TT_TRY(read_inputs(w, node));
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    (void)tt_call(&w->r.b, node->op, node->params, w->r.in, node->n_in, out);
    TT_TRY(w->r.b.status);
    TT_TRY(write_outputs(w, node, out));
    return store_states(w, n);
}

// ---- the pass ------------------------------------------------------------

static void find_roots(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->root[v] = v;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_out; i++)
            if ((g->node[n].op->flags & (TT_OP_VIEW | TT_OP_ALIAS)) != 0 &&
                g->node[n].n_in <= 2)
                w->root[g->node[n].out[i].id] = w->root[g->node[n].in[0].id];
}

static tt_status rewrite(work *w, const tt_offload_params *p)
{
    const tt_graph *old = w->r.old;
    TT_TRY(w->r.b.status);
    find_roots(w);
    if (p->optimiser)
        tt__cargo_states(old, &w->states);
    if (p->activations)
        tt__cargo_activations(old, w->root, &w->values);
    // Leaves first, in their order: some are read earlier than they were.
    TT_TRY(tt__rewrite_leaves(&w->r));
    for (int32_t v = 0; v < old->n_values; v++)
        if (old->value[v].node < 0)
            w->host[v] = w->r.kept[v];
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const int64_t n = in->n_values;
    work w = {0};
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    tt__cargos *const c[] = {&w.states, &w.values};
    for (int i = 0; i < 2; i++) {
        c[i]->cargo = tt__rewrite_array(&w.r, n, sizeof *c[i]->cargo);
        c[i]->of = tt__rewrite_array(&w.r, n, sizeof *c[i]->of);
    }
    w.root = tt__rewrite_array(&w.r, n, sizeof *w.root);
    w.host = tt__rewrite_vals(&w.r, n);
    w.again = tt__rewrite_vals(&w.r, n);
    return tt__rewrite_end(&w.r, rewrite(&w, params), out);
}

static const tt_opt options[] = {
    {"optimiser", "true", "the optimiser's state", TT_OPT_BOOL,
     offsetof(tt_offload_params, optimiser)},
    {"activations", "true", "what the backward pass reads of the forward pass",
     TT_OPT_BOOL, offsetof(tt_offload_params, activations)},
    {0},
};

static const char *const samples[] = {"", NULL};

const tt_pass_def tt_pass_offload = {
    .name = "offload",
    .doc = "What is not needed for a while lies in the host's memory.",
    .options = options,
    .params_bytes = sizeof(tt_offload_params),
    .apply = apply,
    .samples = samples,
};
