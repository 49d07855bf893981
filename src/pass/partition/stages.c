// stages - the axis of a pipeline: every node runs at one coordinate.
//
// The problem. A pipeline gives each rank some of the layers. Weights, activations,
// gradients, optimiser state and statistics of a layer then lie at one place; the loss
// lies at the last; the norm of all gradients, the loss scale and the step's verdicts are
// wanted everywhere; and a weight that two distant layers share must be kept at both.
//
// The idea. A node has a stage (its chunk of layers), and a stage has a coordinate of the
// axis. "It lies at coordinate c" is a placement, R@c. So nothing is searched here: a
// node's stage says where it runs, and its inputs are brought there.
//
//   forward     embed@0 --> h.0@0 --move 0>1--> h.1@1 --> head, loss@1
//   backward    dh.0@0 <--move 1>0-- dh.1@1 <-- dlogits@1
//   update      adam(w@0), adam(w@1)         each where its weight lies
//   norm        total(squares@0, squares@1)  terms of a sum, P: one all_reduce of a number
//
// Where values lie:
//
//   inputs, scalars of the host   everywhere: each rank feeds itself
//   weights                       at every coordinate that reads them (`tt__stages_mark`);
//                                 what is made of weights alone is made at each reader
//   optimiser state, averages     with their weight
//   gradient of a weight          terms where the weight is read; one all_reduce among
//                                 those coordinates where there are several
//   sums (TT_OP_SUMS)             terms wherever an input lies
//   the rest of the update        with the state that it reads; what joins several
//                                 coordinates is computed everywhere
//
//   cost    one move of each value that crosses a boundary, once per coordinate that reads
//           it; readers there share it, forward and backward

#include "ops/comm/comm.h"
#include "pass/partition/cut.h"

static uint64_t bit(int coord)
{
    return (uint64_t)1 << coord;
}

static uint64_t all_of(const tt__cut *c)
{
    return c->size == TT_MAX_AT ? ~(uint64_t)0 : bit(c->size) - 1;
}

static uint64_t home_of(const tt__cut *c, int32_t stage)
{
    return bit(tt_mesh_stage_coord(c->size, stage));
}

// ---- where weights lie ---------------------------------------------------

static bool is_made_of_weights(const tt__cut *c, const tt_node *node)
{
    return node->phase != TT_UPDATE && c->is_weight[node->out[0].id];
}

// Readers outside the update: at their stages, or, where what they make is made of
// weights alone, at the readers of that.
static void mark_readers(tt__cut *c)
{
    for (int32_t n = c->old->n_nodes - 1; n >= 0; n--) {
        const tt_node *node = &c->old->node[n];
        if (node->phase == TT_UPDATE)
            continue;
        uint64_t at = home_of(c, node->stage);
        if (is_made_of_weights(c, node)) {
            at = 0;
            for (int i = 0; i < node->n_out; i++)
                at |= c->at[node->out[i].id];
            at = at == 0 ? home_of(c, node->stage) : at;
            for (int i = 0; i < node->n_out; i++)
                c->at[node->out[i].id] = at;
        }
        for (int i = 0; i < node->n_in; i++)
            if (tt_is(node->in[i]))
                c->at[node->in[i].id] |= at;
    }
}

// A weight, its copies and the state of its update lie together.
static void mark_together(tt__cut *c)
{
    const tt_graph *g = c->old;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_init *init = &g->value[v].init;
        if (tt_role_is_state(g->value[v].role) && init->kind == TT_INIT_COPY)
            c->at[v] = c->at[init->of.id] |= c->at[v];
    }
    for (int32_t v = 0; v < g->n_values; v++) // copies made before another copy
        if (tt_role_is_state(g->value[v].role) &&
            g->value[v].init.kind == TT_INIT_COPY)
            c->at[v] = c->at[g->value[v].init.of.id];
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        uint64_t at = 0;
        for (int i = 0; i < node->n_in && node->phase == TT_UPDATE; i++)
            if (tt_is(node->in[i]) &&
                tt_role_is_state(g->value[node->in[i].id].role))
                at |= c->at[node->in[i].id];
        for (int i = 0; i < node->n_in && at != 0; i++)
            if (tt_is(node->in[i]) &&
                tt_role_is_state(g->value[node->in[i].id].role))
                c->at[node->in[i].id] |= at;
    }
}

void tt__stages_mark(tt__cut *c)
{
    mark_readers(c);
    mark_together(c);
}

static tt_place place_at(const tt__cut *c, uint64_t at)
{
    return tt_place_at(at == all_of(c) ? 0 : at);
}

tt_place tt__stages_leaf(const tt__cut *c, int32_t old)
{
    return tt_role_is_state(c->old->value[old].role) ? place_at(c, c->at[old])
                                                     : tt_place_replicate();
}

// ---- bringing values there -----------------------------------------------

static uint64_t holders(const tt__cut *c, tt_val val)
{
    const uint64_t at = tt__place_of(c, val)->at;
    return at == 0 ? all_of(c) : at;
}

static int first_of(uint64_t at)
{
    int coord = 0;
    while ((at >> coord & 1) == 0)
        coord++;
    return coord;
}

static bool is_single(uint64_t at)
{
    return (at & (at - 1)) == 0;
}

// A gradient leaves when it is made, also where only weight gradients read it: their rows
// may be much later, on the rank that sends it too.
static tt_val move_to(tt__cut *c, tt_val own, int coord)
{
    const tt_phase phase = c->b.phase;
    const int32_t from = c->b.graph->value[own.id].node;
    if (phase == TT_WEIGHT_GRAD && from >= 0 &&
        c->b.graph->node[from].phase != TT_WEIGHT_GRAD)
        c->b.phase = TT_BACKWARD;
    const tt_val val =
        tt_move_value(&c->b, own, c->axis, first_of(holders(c, own)), coord);
    c->b.phase = phase;
    return val;
}

tt_status tt__stages_convert(tt__cut *c, int32_t old, const tt_place *want,
                             tt_val *val_out)
{
    const uint64_t at = want->at == 0 ? all_of(c) : want->at;
    for (int32_t v = c->first[old]; v >= 0; v = c->versions[v].next) {
        const tt_val val = c->versions[v].val;
        *val_out = val;
        if (tt__place_of(c, val)->kind == TT_REPLICATE &&
            (at & ~holders(c, val)) == 0)
            return TT_OK;
    }
    const tt_val own = tt__original(c, old);
    const bool is_partial = tt__place_of(c, own)->kind == TT_PARTIAL;
    if (is_partial && holders(c, own) == at)
        *val_out = tt_all_reduce(&c->b, own, c->axis, TT_SUM);
    else if (!is_partial && is_single(at))
        *val_out = move_to(c, own, first_of(at));
    else
        *val_out = tt_all_reduce_everywhere(&c->b, own, c->axis);
    TT_TRY(c->b.status);
    return tt__version_add(c, old, *val_out);
}

// A term of a sum: copies are not counted several times.
static tt_val as_term(tt__cut *c, int32_t old)
{
    const tt_val val = tt__original(c, old);
    return tt__place_of(c, val)->kind == TT_REPLICATE &&
                   !is_single(holders(c, val))
               ? tt_keep_first(&c->b, val, c->axis)
               : val;
}

// ---- nodes ---------------------------------------------------------------

static bool is_state(const tt__cut *c, tt_val in)
{
    return tt_is(in) && tt_role_is_state(c->old->value[in.id].role);
}

// Where a node of the update runs: with the states that it reads; without, where all of
// its inputs lie; if these lie at different places, everywhere.
static uint64_t update_at(const tt__cut *c, const tt_node *node)
{
    uint64_t states = 0, first = 0;
    bool is_same = true;
    for (int i = 0; i < node->n_in; i++) {
        if (!tt_is(node->in[i]))
            continue;
        const uint64_t at = holders(c, tt__original(c, node->in[i].id));
        first = first == 0 ? at : first;
        is_same &= at == first;
        states |= is_state(c, node->in[i]) ? at : 0;
    }
    return states != 0 ? states : is_same ? first : all_of(c);
}

static uint64_t node_at(const tt__cut *c, const tt_node *node)
{
    if (node->phase == TT_UPDATE)
        return update_at(c, node);
    return is_made_of_weights(c, node) ? c->at[node->out[0].id]
                                       : home_of(c, node->stage);
}

static tt_status read_terms(tt__cut *c, const tt_node *node, uint64_t *at_out)
{
    *at_out = 0;
    for (int i = 0; i < node->n_in; i++) {
        c->val[i] = TT_NONE;
        if (!tt_is(node->in[i]))
            continue;
        c->val[i] = tt__is_shape_only(node, i) ? tt__original(c, node->in[i].id)
                                               : as_term(c, node->in[i].id);
        TT_TRY(c->b.status);
        if (!tt__is_shape_only(node, i))
            *at_out |= holders(c, c->val[i]);
    }
    return TT_OK;
}

// Whether a node adds up terms that stay where they are: all terms of a gradient; in the
// update, those that lie at different coordinates or are terms already.
static bool has_terms(const tt__cut *c, const tt_node *node)
{
    uint64_t first = 0;
    if ((node->op->flags & TT_OP_SUMS) == 0)
        return false;
    for (int i = 0; i < node->n_in; i++) {
        if (!tt_is(node->in[i]) || tt__is_shape_only(node, i))
            continue;
        const tt_val val = tt__original(c, node->in[i].id);
        const uint64_t at = holders(c, val);
        first = first == 0 ? at : first;
        if (at != first || tt__place_of(c, val)->kind == TT_PARTIAL)
            return true;
    }
    return node->phase != TT_UPDATE;
}

tt_status tt__stages_inputs(tt__cut *c, const tt_node *node, tt_sig *sig)
{
    uint64_t at = 0;
    *sig = (tt_sig){0};
    if (has_terms(c, node)) {
        TT_TRY(read_terms(c, node, &at));
        sig->out[0] = place_at(c, at);
        if (!is_single(at))
            sig->out[0].kind = TT_PARTIAL;
        return TT_OK;
    }
    const tt_place here = place_at(c, node_at(c, node));
    for (int i = 0; i < node->n_in; i++) {
        c->val[i] = TT_NONE;
        if (tt_is(node->in[i]) && tt__is_shape_only(node, i))
            c->val[i] = tt__version_shaped(c, node->in[i].id, &here);
        else if (tt_is(node->in[i]))
            TT_TRY(tt__stages_convert(c, node->in[i].id, &here, &c->val[i]));
    }
    for (int i = 0; i < TT_MAX_OUT; i++)
        sig->out[i] = here;
    return TT_OK;
}
