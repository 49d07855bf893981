// exchange - replicas send codes of their gradients, not the gradients.
//
// The problem. Along the axis of the replicas every gradient is a sum of terms, and the
// partition pass has put a collective where the update reads it. All bytes of all
// gradients are sent in every step.
//
// The idea. Each such collective is replaced: the replica encodes its term, codes are
// joined, and each replica decodes the sum (codec/codec.h).
//
//   before   g  P(sum)/data  -- all_reduce --------------------------------> sum
//
//   after    g -> own -> encode -> code O/data -> all_reduce, or stack and all_gather
//            residual, state -^                    -> decode -> sum
//
// A code is added (numbers, a plain all-reduce) or gathered, as the codec says
// (pass/coded.h). What replicas keep for themselves is a state with a first dim
// `replica`, split along the axis; so checkpoints, slices and other numbers of ranks
// need nothing new.
//
//   layouts    a gradient that other axes cut is encoded as the rank holds it. One that is
//              terms along other axes too is summed there first
//   ZeRO       parts of the sum are taken from the decoded whole. Gradients stay whole
//              until then (own_gradients of the partition pass)
//   order      all tensors are encoded before the first is decoded. Lowering moves
//              encoding into backward (plan/early.c)
//   needs      pass partition before; pass blocks may follow: then a rank has several
//              replicas

#include "pass/exchange.h"

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "pass/coded.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

// One gradient on its way.
typedef struct gradient {
    int32_t old; // the terms, in the old graph
    tt__coded coded;
    tt_val sum; // of all replicas
} gradient;

typedef struct work {
    tt__rewrite r;
    const tt_exchange_params *params;
    tt__coded_by by;
    int32_t *gradient_of; // old value -> index; -1: is not exchanged
    gradient *gradient;
    int32_t n_gradients;
    bool is_sent;
} work;

// ---- which collectives ---------------------------------------------------

static const tt_node *producer(const tt_graph *g, int32_t v)
{
    return g->value[v].node < 0 ? NULL : &g->node[g->value[v].node];
}

// The offer that made a value, maybe on the way through collectives; NULL: none.
static const tt_node *offer_of(const tt_graph *g, int32_t v)
{
    const tt_node *node = producer(g, v);
    while (node != NULL &&
           (node->op->flags & (TT_OP_COLLECTIVE | TT_OP_ALIAS)) != 0)
        node = producer(g, node->in[0].id);
    return node != NULL && node->op == &tt_op_offer ? node : NULL;
}

static bool is_sum(const tt_node *node)
{
    return node->op == &tt_op_all_reduce || node->op == &tt_op_reduce_scatter;
}

static bool is_exchange(const work *w, const tt_node *node)
{
    if (!is_sum(node) || !tt_is(node->in[0]) ||
        ((const tt_comm_params *)node->params)->axis != w->by.axis)
        return false;
    const int32_t v = node->in[0].id;
    return w->r.old->value[v].type.place[w->by.axis].kind == TT_PARTIAL &&
           offer_of(w->r.old, v) != NULL;
}

static tt_status find_gradients(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->gradient_of[v] = -1;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        if (!is_exchange(w, node) || w->gradient_of[node->in[0].id] >= 0)
            continue;
        if (node->phase != TT_UPDATE)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: its gradient is summed over replicas before "
                           "the update, where no codec can be",
                           node->origin);
        w->gradient_of[node->in[0].id] = w->n_gradients;
        w->gradient[w->n_gradients++].old = node->in[0].id;
    }
    return TT_OK;
}

// ---- sending -------------------------------------------------------------

// The weight whose gradient it is: the name of states, and the key of random numbers.
static const char *name_of(const work *w, const gradient *g)
{
    const tt_node *offer = offer_of(w->r.old, g->old);
    int32_t v = offer->in[0].id;
    for (const tt_node *n = producer(w->r.old, v);
         n != NULL && (n->op->flags & (TT_OP_ALIAS | TT_OP_COLLECTIVE)) != 0;
         n = producer(w->r.old, v))
        v = n->in[0].id;
    if (w->r.old->value[v].role == TT_ROLE_WORK)
        v = w->r.old->value[v].init.of.id;
    return w->r.old->value[v].name;
}

static tt_status aim(work *w, const gradient *g)
{
    TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, 0, name_of(w, g)));
    return TT_OK;
}

// What the update does to a gradient before it is summed over replicas (a sum over the
// stages that have the weight): it is done now.
static tt_status copy_path(work *w, int32_t v)
{
    if (tt_is(w->r.kept[v]))
        return TT_OK;
    const tt_node *node = producer(w->r.old, v);
    TT_TRY(copy_path(w, node->in[0].id));
    return tt__copy_node(&w->r.b, w->r.old, node, &w->r.kept[node->in[0].id], 1,
                         w->r.kept);
}

static tt_status begin(work *w, gradient *g)
{
    const int n_axes = w->r.b.graph->mesh.n_axes;
    TT_TRY(copy_path(w, g->old));
    TT_TRY(aim(w, g));
    tt_val x = w->r.kept[g->old];
    for (int a = 0; a < n_axes && tt_is(x); a++)
        if (a != w->by.axis &&
            tt_type_of(&w->r.b, x)->place[a].kind == TT_PARTIAL)
            x = tt_all_reduce(&w->r.b, x, a, TT_SUM);
    TT_TRY(w->r.b.status);
    const tt_type like = *tt_type_of(&w->r.b, x);
    return tt__coded_begin(&w->by, &g->coded, x, &like, name_of(w, g));
}

static tt_status send_all(work *w)
{
    for (int32_t i = 0; i < w->n_gradients; i++)
        TT_TRY(begin(w, &w->gradient[i]));
    for (int32_t i = 0; i < w->n_gradients; i++) {
        TT_TRY(aim(w, &w->gradient[i]));
        TT_TRY(tt__coded_again(&w->by, &w->gradient[i].coded));
    }
    for (int32_t i = 0; i < w->n_gradients; i++) {
        gradient *g = &w->gradient[i];
        TT_TRY(aim(w, g));
        TT_TRY(tt__coded_end(&w->by, &g->coded, &g->sum));
    }
    w->is_sent = true;
    return TT_OK;
}

// ---- the graph -----------------------------------------------------------

// Whether a sum along another axis has been taken already.
static bool is_done(const work *w, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    return is_sum(node) && tt_is(node->in[0]) &&
           w->r.old->value[node->in[0].id].type.place[p->axis].kind ==
               TT_PARTIAL &&
           tt_type_of(&w->r.b, w->r.kept[node->in[0].id])
                   ->place[p->axis]
                   .kind == TT_REPLICATE;
}

// What readers of a sum read instead.
static tt_val sum_of(work *w, const tt_node *node, tt_val sum)
{
    const tt_comm_params *p = node->params;
    return node->op == &tt_op_all_reduce
               ? sum
               : tt_take(&w->r.b, sum, (int)p->axis, p->factor);
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    if (node->phase == TT_UPDATE && !w->is_sent)
        TT_TRY(send_all(w));
    if (tt_is(w->r.kept[node->out[0].id]))
        return TT_OK; // copy_path did it
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    const bool is_coded = is_exchange(w, node);
    if (!is_coded && !is_done(w, node))
        return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                             w->r.kept);
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    w->r.kept[node->out[0].id] =
        sum_of(w, node,
               is_coded ? w->gradient[w->gradient_of[node->in[0].id]].sum
                        : w->r.in[0]);
    return w->r.b.status;
}

static tt_status find_axis(work *w)
{
    const tt_mesh *mesh = &w->r.old->mesh;
    const char *name = w->params->axis == NULL ? "data" : w->params->axis;
    for (w->by.axis = 0; w->by.axis < mesh->n_axes; w->by.axis++)
        if (strcmp(mesh->axis[w->by.axis].name, name) == 0) {
            w->by.replicas = mesh->axis[w->by.axis].size;
            return TT_OK;
        }
    return tt_fail(TT_ERR_ARG, "the mesh has no axis %s", name);
}

static tt_status allocate(work *w)
{
    const tt_graph *g = w->r.old;
    int64_t sums = 1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        sums += is_sum(&g->node[n]);
    w->gradient_of =
        tt__rewrite_array(&w->r, g->n_values, sizeof *w->gradient_of);
    w->gradient = tt__rewrite_array(&w->r, sums, sizeof *w->gradient);
    return w->r.b.status;
}

// Leaves come first: codecs read scalars that may come late.
static tt_status rewrite(work *w)
{
    TT_TRY(find_axis(w));
    TT_TRY(allocate(w));
    TT_TRY(find_gradients(w));
    TT_TRY(tt__rewrite_leaves(&w->r));
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    work w = {.params = params};
    tt_status status = tt__rewrite_begin(&w.r, in, 0);
    w.by = (tt__coded_by){.b = &w.r.b,
                          .codec = w.params->codec,
                          .params = w.params->codec_params,
                          .feedback = w.params->feedback,
                          .sparse = w.params->sparse,
                          .ranks = w.params->ranks};
    if (status == TT_OK)
        status = rewrite(&w);
    return tt__rewrite_end(&w.r, status, out);
}

const tt_pass_def tt_pass_exchange = {
    .name = "exchange",
    .doc = "Send codes of gradients instead of gradients.",
    .params_bytes = sizeof(tt_exchange_params),
    .apply = apply,
    .tested_by = "tests/train/test_exchange.c",
};
