// early - nodes of the update that run in backward, as soon as a gradient is complete.
//
// The problem. A replica sends a code of its gradient (pass/exchange.c). The gradient is
// complete when the last micro-batch has added its term, long before backward is over.
// But encoding belongs to the update, since it happens once in a step, and so all codes
// would leave after backward, when nothing hides them.
//
// The idea. A node that takes a finished gradient for its replica (own), all that only
// needs it and states, and what these nodes need, go to the place behind the gradient.
// They keep the phase of the update: the executor runs such steps with the last
// micro-batch only. Flights then find by themselves that a code is ready early.
//
//   before   dw2       dw1       dw0       | enc2 enc1 enc0  ~codes~ decode ...
//   after    dw2 enc2  dw1 enc1  dw0 enc0  | decode ...
//                     ~code2~~   ~code1~~    ~code0~
//
//   moves    what reads no collective of the update. A second round (powersgd) stays
//   cost     codes lie in memory from backward on

#include "ops/ops.h"
#include "plan/lower.h"

#include <stdlib.h>

typedef struct place { // of a node in the new order
    int32_t key;       // that of the node that it follows, in the old order
    int32_t n;
    bool is_early, is_helper; // a helper reads leaves only
} place;

static bool is_flagged(const tt_node *node, uint32_t flags)
{
    return (node->op->flags & flags) != 0;
}

static int32_t maker(const tt__lower *l, const tt_node *node, int i)
{
    return tt__is_read(node, i) ? l->g->value[node->in[i].id].node : -1;
}

// Whether a node takes a sum over micro-batches, perhaps through other names.
static bool takes_gradient(const tt__lower *l, const tt_node *node)
{
    int32_t n = maker(l, node, 0);
    if (node->op != &tt_op_own)
        return false;
    while (n >= 0 && is_flagged(&l->g->node[n], TT_OP_ALIAS | TT_OP_VIEW))
        n = maker(l, &l->g->node[n], 0);
    return n >= 0 && l->g->node[n].phase != TT_UPDATE &&
           is_flagged(&l->g->node[n], TT_OP_ACCUMULATE);
}

// Whether all that it reads is there before the update.
static bool is_able(const tt__lower *l, const tt_node *node, const bool *able)
{
    if (node->phase != TT_UPDATE || is_flagged(node, TT_OP_COLLECTIVE))
        return false;
    for (int i = 0; i < node->n_in; i++) {
        const int32_t n = maker(l, node, i);
        if (n >= 0 && l->g->node[n].phase == TT_UPDATE && !able[n])
            return false;
    }
    return true;
}

// Nodes that take gradients, their readers, and what all of these need.
static void find(tt__lower *l, bool *able)
{
    const tt_graph *g = l->g;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        able[n] = l->is_here[n] && is_able(l, node, able);
        l->is_early[n] = able[n] && takes_gradient(l, node);
        for (int i = 0; i < node->n_in && able[n]; i++)
            l->is_early[n] |=
                maker(l, node, i) >= 0 && l->is_early[maker(l, node, i)];
    }
    for (int32_t n = g->n_nodes - 1; n >= 0; n--)
        for (int i = 0; i < g->node[n].n_in && l->is_early[n]; i++)
            if (maker(l, &g->node[n], i) >= 0)
                l->is_early[maker(l, &g->node[n], i)] |=
                    able[maker(l, &g->node[n], i)];
}

// A node follows the last of those that it reads; a helper goes where its first reader
// goes.
static void find_keys(tt__lower *l, const int32_t *order, place *at)
{
    const tt_graph *g = l->g;
    for (int32_t i = 0; i < g->n_nodes; i++)
        at[order[i]] = (place){i, order[i], l->is_early[order[i]], false};
    for (int32_t n = 0; n < g->n_nodes; n++) {
        if (!l->is_early[n])
            continue;
        at[n].key = -1;
        for (int i = 0; i < g->node[n].n_in; i++) {
            const int32_t from = maker(l, &g->node[n], i);
            if (from >= 0 && at[from].key > at[n].key)
                at[n].key = at[from].key;
        }
        at[n].is_helper = at[n].key < 0;
    }
    for (int32_t n = g->n_nodes - 1; n >= 0; n--)
        for (int i = 0; i < g->node[n].n_in && l->is_early[n]; i++) {
            const int32_t from = maker(l, &g->node[n], i);
            if (from >= 0 && at[from].is_helper &&
                (at[from].key < 0 || at[n].key < at[from].key))
                at[from].key = at[n].key;
        }
}

static int by_key(const void *pa, const void *pb)
{
    const place *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->is_early != b->is_early)
        return b->is_early ? -1 : 1;
    return a->n < b->n ? -1 : 1;
}

tt_status tt__early_find(tt__lower *l, int32_t *order)
{
    const int64_t nodes = l->g->n_nodes + 1;
    bool *able = tt_arena_alloc(l->arena, nodes);
    place *at = tt_arena_alloc(l->arena, nodes * (int64_t)sizeof(*at));
    if (able == NULL || at == NULL)
        return TT_ERR_NOMEM;
    find(l, able);
    find_keys(l, order, at);
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        if (!l->is_early[n])
            continue;
        const int32_t after = order[at[n].key];
        l->runs_in[n] = l->g->node[after].phase;
        l->stage[n] = l->stage[after];
    }
    qsort(at, (size_t)l->g->n_nodes, sizeof(*at), by_key);
    for (int32_t i = 0; i < l->g->n_nodes; i++)
        order[i] = at[i].n;
    return TT_OK;
}
