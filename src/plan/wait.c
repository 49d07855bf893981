// wait - gradients of weights run while the gradients of activations travel.
//
//   before   dx = dy w',  dw = x' dy,  sum(dx) over ranks,  next layer
//   after    dx = dy w',  sum(dx) over ranks,  dw = x' dy,  next layer
//
// Hardly anything in the backward pass reads gradients of weights. So nodes that compute
// them wait until the communication that follows has begun. Several wait where several
// terms of one sum come first (queries, keys and values). At most MOST_WAITING do, since
// their operands stay in memory meanwhile.

#include "plan/lower.h"

enum { MOST_WAITING = 8 };

static bool sends(const tt_node *node)
{
    return (node->op->flags & TT_OP_COLLECTIVE) != 0 &&
           (node->op->flags & TT_OP_SILENT) == 0 && node->phase == TT_BACKWARD;
}

// Whether communication follows, with few other nodes of weight gradients before it;
// these then wait too.
static bool can_wait(const tt_graph *g, int32_t n)
{
    int waiting = 0;
    if (g->node[n].phase != TT_WEIGHT_GRAD)
        return false;
    for (int32_t i = n; i < g->n_nodes && waiting <= MOST_WAITING; i++) {
        if (sends(&g->node[i]))
            return g->node[i].stage == g->node[n].stage;
        waiting += g->node[i].phase == TT_WEIGHT_GRAD;
    }
    return false;
}

static bool reads(const tt_node *node, const tt_node *made)
{
    for (int i = 0; i < node->n_in; i++)
        for (int o = 0; o < made->n_out; o++)
            if (tt_is(node->in[i]) && node->in[i].id == made->out[o].id)
                return true;
    return false;
}

void tt__order_nodes(const tt_graph *g, int32_t *order)
{
    int32_t waiting[MOST_WAITING], n_waiting = 0, to = 0;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        bool is_needed = false; // a conversion for both kinds of gradients
        if (can_wait(g, n)) {
            waiting[n_waiting++] = n;
            continue;
        }
        for (int32_t i = 0; i < n_waiting; i++)
            is_needed |= reads(&g->node[n], &g->node[waiting[i]]);
        if (!is_needed)
            order[to++] = n;
        for (int32_t i = 0; i < n_waiting && (is_needed || sends(&g->node[n]));
             i++)
            order[to++] = waiting[i];
        if (is_needed)
            order[to++] = n;
        n_waiting = is_needed || sends(&g->node[n]) ? 0 : n_waiting;
    }
}
