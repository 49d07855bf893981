// here - which nodes of the graph concern this rank, and in which stage.
//
// The graph is one for all ranks. Where a pipeline cuts it, a rank holds the values of its
// stages only (`at` in graph/place.h), so lowering goes on with what is here:
//
//   an ordinary node      runs where its outputs lie
//   a move                concerns who sends and who receives. The sender has no output,
//                         the receiver no input
//   another collective    concerns who has its input or its output; a term that is not
//                         here is zero
//   a sum                 loses the terms that lie elsewhere
//
// A node runs in the segment of its stage, with two exceptions. A move is done by the
// sender in the stage that made the value. And what is made of weights or inputs alone
// is made by each of its readers: it runs in the first stage of this rank that reads it,
// and not at all where nobody does.

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/flights.h"

static bool is_here(const tt__lower *l, const tt_node *node)
{
    const bool has_in = !tt__is_absent(l, node->in[0]);
    const bool has_out = !tt__is_absent(l, node->out[0]);
    const tt_comm_params *p = node->params;
    if ((node->op->flags & TT_OP_COLLECTIVE) == 0)
        return has_out;
    if (node->op != &tt_op_move)
        return has_in || has_out;
    return has_out || (has_in && tt_mesh_coord(&l->g->mesh, l->plan->rank,
                                               (int)p->axis) == p->from_coord);
}

// The node without inputs that lie elsewhere. Inputs of which only the shape is read stay.
static tt_status take_inputs(tt__lower *l, tt_node *node)
{
    tt_val *in =
        tt_arena_copy(l->arena, node->in, node->n_in * (int64_t)sizeof(*in));
    const bool is_sum = (node->op->flags & TT_OP_SUMS) != 0;
    int n = 0;
    if (in == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < node->n_in; i++) {
        const bool is_gone = tt__is_read(node, i) && tt__is_absent(l, in[i]);
        if (!is_gone)
            in[n++] = in[i];
        else if (!is_sum)
            in[n++] = TT_NONE;
    }
    node->in = in;
    node->n_in = n;
    return TT_OK;
}

// The stages of this rank that read a value before the update, first and last.
typedef struct span {
    int32_t first, last; // last < 0: nobody does
} span;

// The stage whose segment comes first of those that read what the node makes: gradients
// go through the stages backwards.
static int32_t readers_stage(const tt_node *node, const span *readers)
{
    const bool is_forward = node->phase == TT_FORWARD;
    int32_t stage = -1;
    for (int i = 0; i < node->n_out; i++) {
        const span *r = &readers[node->out[i].id];
        const int32_t s = is_forward ? r->first : r->last;
        if (r->last >= 0 && (stage < 0 || (is_forward ? s < stage : s > stage)))
            stage = s;
    }
    return stage >= 0 ? stage : node->stage;
}

static bool is_elsewhere(const tt__lower *l, const tt_node *node, int pipe)
{
    const int size = l->g->mesh.axis[pipe].size;
    return tt_mesh_stage_coord(size, node->stage) !=
           tt_mesh_coord(&l->g->mesh, l->plan->rank, pipe);
}

// Whether a node joins what stages have: a transfer between them, or a sum of terms.
static bool is_between(const tt_node *node, int pipe)
{
    const tt_comm_params *p = node->params;
    if ((node->op->flags & TT_OP_SUMS) != 0)
        return true;
    return (node->op->flags & TT_OP_COLLECTIVE) != 0 && p->axis == pipe;
}

// The stage of this rank in which a node can run at the earliest: its own, or the last of
// those that make its inputs. A gradient of what was made forward (pieces of a loss are)
// belongs to the stage that made it; what is made of leaves alone to the rank's first.
static int32_t makers_stage(const tt__lower *l, int32_t n, const int32_t *made)
{
    const tt_node *node = &l->g->node[n];
    const int pipe = tt_mesh_pipe(&l->g->mesh);
    int32_t forward = -1, backward = -1;
    if (pipe < 0 || !is_elsewhere(l, node, pipe))
        return node->stage;
    for (int i = 0; i < node->n_in; i++) {
        const int32_t from = tt_is(node->in[i]) && tt__is_read(node, i)
                                 ? l->g->value[node->in[i].id].node
                                 : -1;
        if (from < 0)
            continue;
        if (l->g->node[from].phase == TT_FORWARD)
            forward = made[from] > forward ? made[from] : forward;
        else if (backward < 0 || made[from] < backward)
            backward = made[from];
    }
    if (backward < 0)
        backward = forward;
    return backward >= 0 ? backward
                         : tt_mesh_coord(&l->g->mesh, l->plan->rank, pipe);
}

static int32_t stage_of(const tt__lower *l, int32_t n, const int32_t *made,
                        const span *readers)
{
    const tt_node *node = &l->g->node[n];
    const int pipe = tt_mesh_pipe(&l->g->mesh);
    if (node->phase == TT_UPDATE) // one segment for all, or one for each stage
        return tt__updates_apart(l) ? node->stage : 0;
    if (tt_phase_is_aside(node->phase))
        return node->stage;
    if (pipe < 0 || !is_elsewhere(l, node, pipe))
        return node->stage;
    return is_between(node, pipe) ? made[n] : readers_stage(node, readers);
}

static void add_reader(span *readers, int32_t stage)
{
    if (readers->last < 0 || stage < readers->first)
        readers->first = stage;
    if (stage > readers->last)
        readers->last = stage;
}

static bool is_wanted(const tt__lower *l, const tt_node *node, const bool *kept)
{
    const int pipe = tt_mesh_pipe(&l->g->mesh);
    if (pipe < 0 || node->phase == TT_UPDATE || !is_elsewhere(l, node, pipe) ||
        is_between(node, pipe))
        return true;
    for (int i = 0; i < node->n_out; i++)
        if (kept[node->out[i].id] ||
            tt_is(l->g->value[node->out[i].id].updates))
            return true;
    return false;
}

// Nodes are visited backwards, so all readers of a node are known when it is met. What
// another stage makes and nobody reads here is not done here: this rank's order has no
// row for it.
static void find_stages(tt__lower *l, int32_t *made, span *readers, bool *kept)
{
    const tt_graph *g = l->g;
    for (int32_t v = 0; v < g->n_values; v++) {
        readers[v] = (span){.last = -1};
        if (tt_is(g->value[v].grad))
            kept[g->value[v].grad.id] = true;
    }
    for (int32_t i = 0; i < g->n_outputs; i++)
        kept[g->output[i].val.id] = true;
    for (int32_t n = 0; n < g->n_nodes; n++)
        made[n] = makers_stage(l, n, made);
    for (int32_t n = g->n_nodes - 1; n >= 0; n--) {
        const tt_node *node = &g->node[n];
        l->is_here[n] = l->is_here[n] && is_wanted(l, node, kept);
        l->stage[n] = stage_of(l, n, made, readers);
        for (int i = 0; i < node->n_in && l->is_here[n]; i++) {
            if (!tt_is(node->in[i]))
                continue;
            kept[node->in[i].id] = true;
            if (node->phase != TT_UPDATE)
                add_reader(&readers[node->in[i].id], l->stage[n]);
        }
    }
}

tt_status tt__here_find(tt__lower *l)
{
    tt_graph *mine = tt_arena_copy(l->arena, l->g, sizeof(*mine));
    tt_node *node = tt_arena_copy(l->arena, l->g->node,
                                  l->g->n_nodes * (int64_t)sizeof(*node));
    const int64_t values = l->g->n_values + 1;
    span *readers =
        tt_arena_alloc(l->arena, values * (int64_t)sizeof(*readers));
    bool *kept = tt_arena_alloc(l->arena, values);
    int32_t *made =
        tt_arena_alloc(l->arena, (l->g->n_nodes + 1) * (int64_t)sizeof(*made));
    if (mine == NULL || node == NULL || readers == NULL || kept == NULL ||
        made == NULL)
        return TT_ERR_NOMEM;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->is_here[n] = is_here(l, &node[n]);
        if (l->is_here[n])
            TT_TRY(take_inputs(l, &node[n]));
    }
    mine->node = node;
    l->g = mine;
    find_stages(l, made, readers, kept);
    return TT_OK;
}
