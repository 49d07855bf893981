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
// sender in the stage that made the value. And what is made of weights alone is made by
// each of its readers, so it runs in the first stage of this rank that reads it. If none
// does, it is not here: a weight of two stages is gathered by each for its own readers.

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/lower.h"

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

// The first stage, in the order of segments, of those that read what the node makes.
static int32_t readers_stage(const tt__lower *l, int32_t n,
                             const int32_t *first)
{
    const tt_node *node = &l->g->node[n];
    int32_t stage = INT32_MAX;
    for (int i = 0; i < node->n_out; i++)
        if (first[node->out[i].id] < stage)
            stage = first[node->out[i].id];
    return stage < INT32_MAX ? stage : node->stage;
}

static bool is_elsewhere(const tt__lower *l, int32_t stage, int pipe)
{
    const int size = l->g->mesh.axis[pipe].size;
    return tt_mesh_stage_coord(size, stage) !=
           tt_mesh_coord(&l->g->mesh, l->plan->rank, pipe);
}

static int32_t stage_of(const tt__lower *l, int32_t n, const int32_t *first)
{
    const tt_node *node = &l->g->node[n];
    const int pipe = tt_mesh_pipe(&l->g->mesh);
    if (node->phase == TT_UPDATE)
        return 0; // one segment for all
    if (pipe < 0 || !is_elsewhere(l, node->stage, pipe))
        return node->stage;
    for (int i = 0; i < node->n_in; i++) { // a sender, or a sum of terms
        const int32_t from =
            tt_is(node->in[i]) ? l->g->value[node->in[i].id].node : -1;
        if (from >= 0 && tt__is_read(node, i) &&
            (node->op->flags & (TT_OP_COLLECTIVE | TT_OP_SUMS)) != 0)
            return l->g->node[from].stage;
    }
    return readers_stage(l, n, first);
}

// Whether no row of this rank would run the node, and nobody here wants what it makes.
static bool is_idle(const tt__lower *l, int32_t n, const bool *is_read)
{
    const tt_node *node = &l->g->node[n];
    const int pipe = tt_mesh_pipe(&l->g->mesh);
    bool is_wanted = node->phase == TT_UPDATE || pipe < 0 ||
                     !is_elsewhere(l, l->stage[n], pipe);
    for (int i = 0; i < node->n_out; i++)
        is_wanted |= is_read[node->out[i].id];
    return !is_wanted;
}

// Nodes are visited backwards, so all readers of a node are known when it is met.
static void find_stages(tt__lower *l, int32_t *first, bool *is_read)
{
    const tt_graph *g = l->g;
    for (int32_t v = 0; v < g->n_values; v++)
        first[v] = INT32_MAX;
    for (int32_t n = g->n_nodes - 1; n >= 0; n--) {
        const tt_node *node = &g->node[n];
        l->stage[n] = stage_of(l, n, first);
        l->is_here[n] = l->is_here[n] && !is_idle(l, n, is_read);
        for (int i = 0; i < node->n_in && l->is_here[n]; i++) {
            if (!tt_is(node->in[i]))
                continue;
            const int32_t v = node->in[i].id;
            is_read[v] = true;
            if (node->phase == TT_FORWARD && l->stage[n] < first[v])
                first[v] = l->stage[n];
        }
    }
}

tt_status tt__here_find(tt__lower *l)
{
    tt_graph *mine = tt_arena_copy(l->arena, l->g, sizeof(*mine));
    tt_node *node = tt_arena_copy(l->arena, l->g->node,
                                  l->g->n_nodes * (int64_t)sizeof(*node));
    int32_t *first = tt_arena_alloc(l->arena, (l->g->n_values + 1) *
                                                  (int64_t)sizeof(*first));
    bool *is_read = tt_arena_alloc(l->arena, l->g->n_values + INT64_C(1));
    if (mine == NULL || node == NULL || first == NULL || is_read == NULL)
        return TT_ERR_NOMEM;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->is_here[n] = is_here(l, &node[n]);
        if (l->is_here[n])
            TT_TRY(take_inputs(l, &node[n]));
    }
    mine->node = node;
    l->g = mine;
    find_stages(l, first, is_read);
    return TT_OK;
}
