// offload_pick - what goes to the host and in which groups it comes back.
//
//   optimiser     states that one node of the update reads and replaces
//   activations   what the backward pass reads of the forward pass, but for the last
//                 tenth of it, which is needed back at once
//
// What is small beside the rest stays: a copy has its price. A group is brought back
// while the one before it is in use, so groups are a small part of the whole.

#include "base/alloc.h"
#include "ops/ops.h"
#include "pass/offload.h"
#include "pass/recompute.h"

#include <stdlib.h>

static const double small_part = 1e-3, group_part = 1.0 / 20, kept_part = 0.1;

static double bytes_of(const tt_value *value)
{
    return (double)tt_shape_count(&value->type.shape) *
           (double)tt_dtype_bytes(value->type.dtype);
}

// Leaves out what is small, and makes groups of the rest, which are in order.
static void group(tt__cargos *c, double all)
{
    double filled = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < c->n; i++) {
        tt__cargo x = c->cargo[i];
        if (x.bytes < small_part * all)
            continue;
        // Whoever needs several needs them together.
        if (n > 0 && filled >= group_part * all &&
            x.user != c->cargo[n - 1].user) {
            c->n_groups++;
            filled = 0;
        }
        x.group = c->n_groups;
        filled += x.bytes;
        c->cargo[n++] = x;
    }
    c->n = n;
    c->n_groups += n > 0 ? 1 : 0;
    for (int32_t i = 0; i < n; i++)
        c->of[c->cargo[i].value] = i + 1;
}

static int by_user(const void *pa, const void *pb)
{
    const tt__cargo *a = pa, *b = pb;
    if (a->user != b->user)
        return a->user < b->user ? -1 : 1;
    return a->value < b->value ? -1 : 1;
}

// ---- states --------------------------------------------------------------

// The only node that reads a state, if it replaces it in the update; -1: there is
// none.
static int32_t owner_of(const tt_graph *g, int32_t state)
{
    int32_t owner = -1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++) {
            if (g->node[n].in[i].id != state)
                continue;
            if ((owner >= 0 && owner != n) || g->node[n].phase != TT_UPDATE)
                return -1;
            owner = n;
        }
    for (int i = 0; owner >= 0 && i < g->node[owner].n_out; i++)
        if (g->value[g->node[owner].out[i].id].updates.id == state)
            return owner;
    return -1;
}

void tt__cargo_states(const tt_graph *g, tt__cargos *c)
{
    double all = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (!tt_role_is_update(g->value[v].role))
            continue;
        const int32_t user = owner_of(g, v);
        const double bytes = bytes_of(&g->value[v]);
        all += bytes;
        if (user >= 0)
            c->cargo[c->n++] = (tt__cargo){v, user, 0, bytes};
    }
    qsort(c->cargo, (size_t)c->n, sizeof *c->cargo, by_user);
    group(c, all);
}

// ---- activations ---------------------------------------------------------

// Whether a value of the forward pass has memory of its own that can be given up.
static bool is_movable(const tt_graph *g, int32_t v)
{
    const uint32_t others =
        TT_OP_VIEW | TT_OP_ALIAS | TT_OP_ACCUMULATE | TT_OP_COLLECTIVE;
    const tt_value *value = &g->value[v];
    if (value->node < 0 || tt_is(value->updates))
        return false;
    const tt_node *node = &g->node[value->node];
    return node->phase == TT_FORWARD && (node->op->flags & others) == 0;
}

// First readers in the backward pass; -1: none, -2: it must stay, because the update
// or the host reads it.
static void find_users(const tt_graph *g, const int32_t *root, int32_t *user)
{
    for (int32_t v = 0; v < g->n_values; v++)
        user[v] = -1;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        for (int i = 0; i < node->n_in; i++) {
            if (!tt__reads(node, i))
                continue;
            int32_t *of = &user[root[node->in[i].id]];
            if (node->phase == TT_UPDATE)
                *of = -2;
            else if (tt__is_backward(node) && *of == -1)
                *of = n;
        }
    }
    for (int32_t o = 0; o < g->n_outputs; o++)
        user[root[g->output[o].val.id]] = -2;
}

void tt__cargo_activations(const tt_graph *g, const int32_t *root,
                           tt__cargos *c)
{
    int32_t *user = c->of; // until groups are made
    double all = 0, before = 0;
    find_users(g, root, user);
    for (int32_t v = 0; v < g->n_values; v++)
        all += is_movable(g, v) && user[v] >= 0 ? bytes_of(&g->value[v]) : 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (!is_movable(g, v) || user[v] < 0)
            continue;
        before += bytes_of(&g->value[v]);
        if (before <= (1 - kept_part) * all)
            c->cargo[c->n++] =
                (tt__cargo){v, user[v], 0, bytes_of(&g->value[v])};
    }
    for (int32_t v = 0; v < g->n_values; v++)
        c->of[v] = 0;
    qsort(c->cargo, (size_t)c->n, sizeof *c->cargo, by_user);
    group(c, all);
}
