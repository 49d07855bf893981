// grad - walks the nodes backwards and lets each operator emit its gradient.
//
//   forward    x --> f --> a --> g --> loss
//   backward   dx <- f' <- da <- g' <- 1          nodes of phase backward
//                    |           |
//                    v           v
//                   dw_f        dw_g              nodes of phase weight_grad
//                    |           |
//                  offer       offer              one per weight: its gradient
//
// Why the seed is 1. The loss is a sum over samples, and a count comes with it. Sums over
// micro-batches and ranks are then plain additions: nobody needs to know how many
// micro-batches, ranks or ignored labels there are. The update divides once, by the
// global count (ops/optim/clip.c).
//
// A value's gradient is the sum of what its users send back. A param's terms are
// not added here: they go to one `offer`, which sums them in the gradient's own
// buffer, so tied weights and accumulation cost nothing.
//
// Phases: what an operator emits for an input that is a weight, or is made from
// weights alone, is a weight gradient; the rest is on the backward chain. Lowering may
// then move weight gradients, which only the update needs (plan/wait.c).

#include "graph/grad.h"

#include "base/alloc.h"

#include <string.h>

typedef struct term {
    int32_t param;
    tt_val grad;
} term;

typedef struct state {
    tt_builder *b;
    int32_t n_values; // before the backward pass
    bool *needs;      // per value: depends on what is differentiated
    bool *is_weight;  // per value: made from params alone
    tt_val *grad;     // per value: gradient so far
    int32_t *fetches; // per value: reads of a param still to come
    term *terms;
    int32_t n_terms;
    tt_val *dout, *din;
    bool *need;
} state;

// The param that a fetch reads, through its work copy; -1: not a fetch.
static int32_t fetched_param(const tt_builder *b, const tt_node *node)
{
    if (node->op != b->ops->fetch)
        return -1;
    const tt_value *source = &b->graph->value[node->in[0].id];
    if (source->role == TT_ROLE_PARAM)
        return node->in[0].id;
    return source->role == TT_ROLE_WORK ? source->init.of.id : -1;
}

static void mark_needs(state *s, int32_t n_nodes)
{
    const tt_graph *g = s->b->graph;
    for (int32_t n = 0; n < n_nodes; n++) {
        const tt_node *node = &g->node[n];
        bool any = false, weights = true;
        for (int i = 0; i < node->n_in; i++) {
            const bool is_read = i >= 32 || !(node->op->shape_only >> i & 1);
            any |= is_read && tt_is(node->in[i]) && s->needs[node->in[i].id];
            weights &= !tt_is(node->in[i]) || s->is_weight[node->in[i].id];
        }
        for (int i = 0; i < node->n_out; i++) {
            const int32_t out = node->out[i].id;
            s->needs[out] |= any && tt_dtype_is_float(g->value[out].type.dtype);
            s->is_weight[out] = weights;
        }
    }
}

static tt_val sum(state *s, tt_val a, tt_val b)
{
    if (!tt_is(a) || !tt_is(b))
        return tt_is(a) ? a : b;
    return tt_call(s->b, s->b->ops->add, NULL, (tt_val[]){a, b}, 2, NULL);
}

static tt_val offer_terms(tt_builder *b, const tt_val *in, int n)
{
    b->phase = TT_WEIGHT_GRAD;
    return tt_call(b, b->ops->offer, NULL, in, n, NULL);
}

// Each term by itself over all micro-batches, in the stage where it was made; then the
// terms.
static tt_val offer_each(tt_builder *b, const tt_val *in, int n)
{
    const int32_t stage = b->stage;
    tt_val grad = TT_NONE;
    for (int i = 1; i < n; i++) {
        b->stage = b->graph->node[b->graph->value[in[i].id].node].stage;
        const tt_val one = offer_terms(b, (tt_val[]){in[0], in[i]}, 2);
        b->phase = TT_UPDATE;
        grad = i == 1 ? one
                      : tt_call(b, b->ops->add, NULL, (tt_val[]){grad, one}, 2,
                                NULL);
    }
    b->stage = stage;
    return grad;
}

// All reads of the param were seen: its gradient is complete.
static tt_status offer(state *s, int32_t param)
{
    tt_builder *b = s->b;
    tt_val in[16] = {{param}};
    int n = 1;
    for (int32_t t = 0; t < s->n_terms; t++)
        if (s->terms[t].param == param && n < 16)
            in[n++] = s->terms[t].grad;
    if (n == 1)
        return TT_OK;
    if (n == 16)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s is used more than 14 times",
                       b->graph->value[param].name);
    const tt_val grad = n > 2 && b->adds_terms_last ? offer_each(b, in, n)
                                                    : offer_terms(b, in, n);
    TT_TRY(b->status);
    b->graph->value[param].grad = grad;
    return TT_OK;
}

static tt_status backward_fetch(state *s, const tt_node *node, int32_t param)
{
    const tt_val grad = s->grad[node->out[0].id];
    s->fetches[param]--;
    if (tt_is(grad))
        s->terms[s->n_terms++] = (term){param, grad};
    if (s->fetches[param] == 0 && s->needs[param])
        return offer(s, param);
    return TT_OK;
}

// A layer's weights may use other names and factors for a dim than its input. The
// gradient of a value has the names of the value.
static tt_val named_like(state *s, tt_val v, tt_val grad)
{
    const tt_shape *want = &s->b->graph->value[v.id].type.shape;
    const tt_shape *have = &s->b->graph->value[grad.id].type.shape;
    if (tt_shape_equal(want, have))
        return grad;
    return tt_call(s->b, s->b->ops->match, NULL, (tt_val[]){grad, v}, 2, NULL);
}

// Terms of a fetched weight are kept separate for its offer; all others are added.
static void receive(state *s, tt_val v, tt_val grad)
{
    const tt_graph *g = s->b->graph;
    const int32_t producer = g->value[v.id].node;
    const int32_t param =
        producer < 0 ? -1 : fetched_param(s->b, &g->node[producer]);
    s->b->phase = s->is_weight[v.id] ? TT_WEIGHT_GRAD : TT_BACKWARD;
    grad = named_like(s, v, grad);
    if (param >= 0 && tt_is(s->grad[v.id]))
        s->terms[s->n_terms++] = (term){param, grad};
    else
        s->grad[v.id] = sum(s, s->grad[v.id], grad);
}

// Whether a value emitted since node `first` is needed on the backward chain.
static bool on_chain(const state *s, const tt_node *node, int32_t first,
                     tt_val v)
{
    const tt_graph *g = s->b->graph;
    for (int i = 0; i < node->n_in; i++)
        if (s->din[i].id == v.id && tt_is(v) && s->need[i] &&
            !s->is_weight[node->in[i].id])
            return true;
    for (int32_t n = first; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i].id == v.id && g->node[n].phase == TT_BACKWARD)
                return true;
    return false;
}

static void mark_phases(state *s, const tt_node *node, int32_t first)
{
    tt_graph *g = s->b->graph;
    for (int32_t n = first; n < g->n_nodes; n++)
        g->node[n].phase = TT_WEIGHT_GRAD;
    for (int32_t n = g->n_nodes - 1; n >= first; n--)
        for (int i = 0; i < g->node[n].n_out; i++)
            if (on_chain(s, node, n + 1, g->node[n].out[i]))
                g->node[n].phase = TT_BACKWARD;
}

static tt_status backward_node(state *s, int32_t n)
{
    tt_builder *b = s->b;
    const tt_node node = b->graph->node[n]; // a copy: the array may move
    const int32_t param = fetched_param(b, &node);
    if (param >= 0)
        return backward_fetch(s, &node, param);
    bool any_out = false, any_in = false;
    for (int i = 0; i < node.n_out; i++) {
        s->dout[i] = s->grad[node.out[i].id];
        any_out |= tt_is(s->dout[i]);
    }
    for (int i = 0; i < node.n_in; i++) {
        s->need[i] = tt_is(node.in[i]) && s->needs[node.in[i].id] &&
                     (i >= 32 || !(node.op->shape_only >> i & 1));
        any_in |= s->need[i];
        s->din[i] = TT_NONE;
    }
    if (!any_out || !any_in)
        return TT_OK;
    if (node.op->grad == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s: %s has no gradient",
                       node.origin, node.op->name);
    b->origin = node.origin;
    b->stage = node.stage;
    const int32_t first = b->graph->n_nodes;
    TT_TRY(node.op->grad(b, &node, s->dout, s->need, s->din));
    mark_phases(s, &node, first);
    for (int i = 0; i < node.n_in && b->status == TT_OK; i++)
        if (s->need[i] && tt_is(s->din[i]))
            receive(s, node.in[i], s->din[i]);
    return b->status;
}

static tt_status walk(state *s, int32_t n_nodes)
{
    tt_builder *b = s->b;
    const char *origin = b->origin;
    const tt_phase phase = b->phase;
    const int32_t stage = b->stage;
    tt_status status = b->status;
    b->phase = TT_BACKWARD;
    for (int32_t n = n_nodes - 1; n >= 0 && status == TT_OK; n--)
        status = backward_node(s, n);
    b->origin = origin;
    b->phase = phase;
    b->stage = stage;
    return status;
}

static void count_fetches(state *s, int32_t n_nodes)
{
    for (int32_t n = 0; n < n_nodes; n++) {
        const int32_t param = fetched_param(s->b, &s->b->graph->node[n]);
        if (param >= 0)
            s->fetches[param]++;
    }
}

static void fini(state *s)
{
    tt_free(s->needs);
    tt_free(s->is_weight);
    tt_free(s->grad);
    tt_free(s->fetches);
    tt_free(s->terms);
    tt_free(s->dout);
    tt_free(s->din);
    tt_free(s->need);
}

static tt_status init(state *s, tt_builder *b)
{
    const tt_graph *g = b->graph;
    int64_t n_in = 1, n_edges = 1;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        n_edges += g->node[n].n_in;
        n_in = g->node[n].n_in > n_in ? g->node[n].n_in : n_in;
    }
    const int64_t n = g->n_values;
    *s = (state){.b = b, .n_values = g->n_values};
    s->needs = tt_alloc(n);
    s->is_weight = tt_alloc(n);
    s->grad = tt_alloc((int64_t)sizeof(tt_val) * n);
    s->fetches = tt_alloc((int64_t)sizeof(int32_t) * n);
    s->terms = tt_alloc((int64_t)sizeof(term) * n_edges);
    s->dout = tt_alloc((int64_t)sizeof(tt_val) * TT_MAX_OUT);
    s->din = tt_alloc((int64_t)sizeof(tt_val) * n_in);
    s->need = tt_alloc(n_in);
    if (!s->needs || !s->is_weight || !s->grad || !s->fetches || !s->terms ||
        !s->dout || !s->din || !s->need) {
        fini(s);
        return tt_fail(TT_ERR_NOMEM, "no memory for differentiation");
    }
    for (int64_t i = 0; i < n; i++)
        s->grad[i] = TT_NONE;
    count_fetches(s, g->n_nodes);
    return TT_OK;
}

tt_status tt_grad(tt_builder *b, tt_val loss,
                  bool (*is_frozen)(const char *name, void *user), void *user)
{
    state s;
    TT_TRY(b->status);
    TT_TRY(init(&s, b));
    const int32_t n_nodes = b->graph->n_nodes;
    for (int32_t i = 0; i < s.n_values; i++) {
        const tt_value *value = &b->graph->value[i];
        const int32_t of = value->role == TT_ROLE_WORK ? value->init.of.id : i;
        s.needs[i] =
            (value->role == TT_ROLE_PARAM || value->role == TT_ROLE_WORK) &&
            !(is_frozen != NULL && is_frozen(b->graph->value[of].name, user));
        s.is_weight[i] =
            value->role == TT_ROLE_PARAM || value->role == TT_ROLE_WORK;
    }
    mark_needs(&s, n_nodes);
    const tt_phase phase = b->phase;
    b->phase = TT_BACKWARD;
    s.grad[loss.id] = tt_call(b, b->ops->ones_like, NULL, &loss, 1, NULL);
    b->phase = phase;
    const tt_status status = walk(&s, n_nodes);
    fini(&s);
    if (status != TT_OK)
        tt_builder_fail(b, status);
    return status;
}

tt_status tt_grad_values(tt_builder *b, const tt_grad_of *from,
                         const tt_val *wrt, int n_wrt, tt_val *grad_out)
{
    state s;
    TT_TRY(b->status);
    TT_TRY(init(&s, b));
    const int32_t n_nodes = b->graph->n_nodes;
    for (int i = 0; i < n_wrt; i++)
        s.needs[wrt[i].id] = true;
    mark_needs(&s, n_nodes);
    for (int i = 0; i < from->n_of; i++) {
        tt_val *grad = &s.grad[from->of[i].id];
        *grad = sum(&s, *grad, from->seed[i]);
    }
    const tt_status status = walk(&s, n_nodes);
    for (int i = 0; i < n_wrt && status == TT_OK; i++)
        grad_out[i] = s.grad[wrt[i].id];
    fini(&s);
    if (status != TT_OK)
        tt_builder_fail(b, status);
    return status;
}
