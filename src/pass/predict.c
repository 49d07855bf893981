// predict - forward and backward read weights as they will be some updates later.
//
// The problem. Where a pipe is not emptied before an update, a micro-batch meets weights
// that will have changed when its gradient is applied. Keeping old weights costs memory.
//
// The idea (SpecTrain, Chen et al. 2018). Momentum tells where weights go. So every read of
// a weight becomes a read of
//
//   w - ahead * lr * v        v: the momentum, w -= lr * v is the update
//
// where `ahead`, a scalar, is the number of updates to look ahead. The host sets it before
// each row of the schedule, so it may differ between forward and backward.
//
//   before   w -> fetch -> f(x, w) -> ...     and gradients of f read the same w
//   after    w, v -> w' -> f(x, w')           in forward
//            w, v -> w" -> grad f(x, w")      made anew in backward, as `ahead` differs
//
// What is made of weights alone (a part of one, turned around) is made of the new ones. A
// weight without momentum (frozen) is read as it is.
//
//   cost    two passes over a layer's weights, forward and backward; nothing is kept

#include "ops/arith.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "ops/shape/move.h"
#include "pass/copy.h"
#include "pass/pass.h"
#include "pass/recompute.h"

typedef struct work {
    tt__rewrite r;
    const tt_node **update; // per old value: the node that updates the weight
    bool *is_weight;        // per old value: made of weights alone
    tt_val *ahead[2]; // per old value: as it is read forward, backward; or none
} work;

static void find_updates(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == &tt_op_momentum)
            w->update[g->node[n].in[TT_OPTIM_W].id] = &g->node[n];
}

static void find_weights(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        bool is_weight = node->n_in > 0 && node->phase == TT_FORWARD;
        for (int i = 0; i < node->n_in && node->op != &tt_op_fetch; i++)
            is_weight &= !tt_is(node->in[i]) || w->is_weight[node->in[i].id];
        for (int i = 0; i < node->n_out; i++)
            w->is_weight[node->out[i].id] = is_weight;
    }
}

// ---- one weight ----------------------------------------------------------

// The rate of a weight is lr, or lr times a factor of its own.
static tt_val rate_of(work *w, const tt_node *update)
{
    const tt_graph *g = w->r.old;
    const tt_val rate = update->in[TT_OPTIM_LR];
    const int32_t made = g->value[rate.id].node;
    if (made < 0)
        return w->r.kept[rate.id];
    const tt_scale_params *p = g->node[made].params;
    return tt_scale(&w->r.b, w->r.kept[g->node[made].in[0].id], p->by);
}

// w - ahead * lr * v, in the precision that is read.
static tt_val carry_on(work *w, const tt_node *update, tt_dtype dtype)
{
    tt_builder *b = &w->r.b;
    const tt_val weight = w->r.kept[update->in[TT_OPTIM_W].id];
    const tt_val momentum = w->r.kept[update->in[TT_OPTIM_STATE].id];
    const tt_val rate = rate_of(w, update);
    const tt_dtype master = tt_type_of(b, weight)->dtype;
    const tt_val ahead = tt_scalar(
        b, "ahead", b->status == TT_OK ? tt_type_of(b, rate)->dtype : master);
    const tt_val by = tt_scale(b, tt_mul(b, rate, ahead), -1);
    const tt_val to = tt_add(b, weight, tt_mul(b, momentum, by));
    return dtype == master ? to : tt_cast(b, to, dtype);
}

static tt_status fetch_ahead(work *w, const tt_node *node, int way)
{
    const tt_graph *g = w->r.old;
    const tt_value *source = &g->value[node->in[0].id];
    const int32_t param =
        source->role == TT_ROLE_WORK ? source->init.of.id : node->in[0].id;
    const int32_t out = node->out[0].id;
    w->ahead[way][out] =
        w->update[param] != NULL
            ? carry_on(w, w->update[param], g->value[out].type.dtype)
            : w->r.kept[out];
    return w->r.b.status;
}

// The value as a node of this phase reads it; made where its first reader is.
static tt_status read_ahead(work *w, tt_val v, int way, const tt_node *reader)
{
    enum { MOST_IN = 16 };
    const tt_node *node = &w->r.old->node[w->r.old->value[v.id].node];
    tt_val in[MOST_IN], out[TT_MAX_OUT];
    if (tt_is(w->ahead[way][v.id]))
        return TT_OK;
    if (node->n_in > MOST_IN)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: %d weights are joined before they are read, which "
                       "cannot be predicted",
                       node->origin, node->n_in);
    for (int i = 0; i < node->n_in && node->op != &tt_op_fetch; i++) {
        in[i] = TT_NONE;
        if (!tt_is(node->in[i]))
            continue;
        TT_TRY(read_ahead(w, node->in[i], way, reader));
        in[i] = w->ahead[way][node->in[i].id];
    }
    TT_TRY(tt__copy_aim(&w->r.b, way == 0 ? TT_FORWARD : TT_BACKWARD,
                        reader->stage, node->origin));
    if (node->op == &tt_op_fetch)
        return fetch_ahead(w, node, way);
    (void)tt_call(&w->r.b, node->op, node->params, in, node->n_in, out);
    for (int i = 0; i < node->n_out; i++)
        w->ahead[way][node->out[i].id] = out[i];
    return w->r.b.status;
}

// ---- the new graph -------------------------------------------------------

static bool is_carried(const work *w, const tt_node *node, int i)
{
    return node->phase != TT_UPDATE && tt__reads(node, i) &&
           w->is_weight[node->in[i].id];
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    const int way = node->phase == TT_FORWARD ? 0 : 1;
    const bool is_own = w->is_weight[node->out[0].id]; // read by read_ahead
    for (int i = 0; i < node->n_in && !is_own; i++)
        if (is_carried(w, node, i))
            TT_TRY(read_ahead(w, node->in[i], way, node));
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    for (int i = 0; i < node->n_in && !is_own; i++)
        if (is_carried(w, node, i))
            w->r.in[i] = w->ahead[way][node->in[i].id];
    return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                         w->r.kept);
}

static tt_status rewrite(work *w)
{
    TT_TRY(w->r.b.status);
    find_updates(w);
    find_weights(w);
    TT_TRY(
        tt__rewrite_leaves(&w->r)); // momenta stand behind what reads them now
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    work w = {0};
    (void)params;
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    w.update = tt__rewrite_array(&w.r, in->n_values, sizeof *w.update);
    w.is_weight = tt__rewrite_array(&w.r, in->n_values, sizeof *w.is_weight);
    w.ahead[0] = tt__rewrite_vals(&w.r, in->n_values);
    w.ahead[1] = tt__rewrite_vals(&w.r, in->n_values);
    return tt__rewrite_end(&w.r, rewrite(&w), out);
}

static const tt_opt options[] = {{0}};

const tt_pass_def tt_pass_predict = {
    .name = "predict",
    .doc = "Weights are read as they will be some updates later, by their "
           "momentum.",
    .options = options,
    .apply = apply,
    .tested_by = "tests/pipe/test_endless.c",
};
