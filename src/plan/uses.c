// uses - who reads a value, until when, and where its producer should put it.
//
// Nodes that nobody needs make no steps. A value that is read once, by a
// concatenation or a sum, is written where that wants it; the new version of a
// state is written over the old one, also where other ranks compute blocks of it.

#include "ops/ops.h"
#include "plan/lower.h"

static bool is_flagged(const tt_node *node, uint32_t flags)
{
    return (node->op->flags & flags) != 0;
}

static void mark_host_reads(tt__lower *l)
{
    const tt_graph *g = l->g;
    for (int32_t i = 0; i < g->n_outputs; i++)
        l->info[g->output[i].val.id].is_host_read = true;
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_role_is_state(g->value[v].role) && tt_is(g->value[v].grad))
            l->info[g->value[v].grad.id].is_host_read = true;
}

static bool is_needed(const tt__lower *l, const tt_node *node)
{
    if (node->n_out == 0 || is_flagged(node, TT_OP_COLLECTIVE))
        return true;
    for (int i = 0; i < node->n_out; i++) {
        const tt__info *info = &l->info[node->out[i].id];
        if (info->uses > 0 || info->is_host_read ||
            tt_is(tt_graph_value(l->g, node->out[i])->updates))
            return true;
    }
    return false;
}

// Nodes are visited backwards, so all readers of a node are known when it is met.
static void count_uses(tt__lower *l)
{
    for (int32_t p = l->n_at; p-- > 0;) {
        const int32_t n = l->node_at[p];
        const tt_node *node = &l->g->node[n];
        l->is_live[n] = l->is_here[n] && is_needed(l, node);
        if (!l->is_live[n])
            continue;
        int32_t until = p;
        for (int i = 0; i < node->n_out; i++) {
            tt__info *info = &l->info[node->out[i].id];
            if (info->is_host_read)
                info->last = TT__END;
            if (info->last < p)
                info->last = p;
            if (is_flagged(node, TT_OP_VIEW | TT_OP_ALIAS) &&
                info->last > until)
                until = info->last;
        }
        for (int i = 0; i < node->n_in; i++) {
            if (!tt__is_read(node, i))
                continue;
            tt__info *info = &l->info[node->in[i].id];
            info->uses++;
            if (info->last < until)
                info->last = until;
            if (tt__is_sent(l, node))
                info->last = TT__END; // nobody knows when it is taken
        }
    }
}

// What a phase aside reads of a state lies where the state does.
static void find_roots(tt__lower *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++)
        l->info[v].root = l->g->value[v].role == TT_ROLE_AGAIN
                              ? l->g->value[v].init.of.id
                              : v;
    for (int32_t p = 0; p < l->n_at; p++) {
        const tt_node *node = &l->g->node[l->node_at[p]];
        if (is_flagged(node, TT_OP_ALIAS))
            l->info[node->out[0].id].root = l->info[node->in[0].id].root;
    }
}

// The node that computes v into memory of its own, or NULL.
static const tt_node *computing_node(const tt__lower *l, int32_t v)
{
    const int32_t n = l->g->value[v].node;
    if (n < 0 ||
        is_flagged(&l->g->node[n],
                   TT_OP_VIEW | TT_OP_ALIAS | TT_OP_ACCUMULATE | TT_OP_CONCAT))
        return NULL;
    return &l->g->node[n];
}

static bool same_size(const tt__lower *l, int32_t a, int32_t b)
{
    const tt_operand *x = &l->info[a].operand, *y = &l->info[b].operand;
    return x->dtype == y->dtype && tt_operand_count(x) == tt_operand_count(y);
}

static void send_to(tt__lower *l, int32_t v, tt__dest dest, int32_t of,
                    int32_t slot)
{
    l->info[v].dest = dest;
    l->info[v].dest_of = of;
    l->info[v].dest_slot = slot;
}

// A new version may overwrite the old one when all readers of that come first.
static void send_updates(tt__lower *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++) {
        const tt_val state = l->g->value[v].updates;
        const int32_t from = l->info[v].root;
        if (!tt_is(state) || l->info[from].dest != TT__DEST_NONE ||
            computing_node(l, from) == NULL || !same_size(l, from, state.id) ||
            !tt_shape_same_dims(&l->info[from].operand.local.shape,
                                &l->info[state.id].operand.local.shape))
            continue;
        if (l->info[state.id].last <= l->at[l->g->value[from].node])
            send_to(l, from, TT__DEST_STATE, state.id, 0);
    }
}

// A block that is gathered into a state may be computed in its place inside the state,
// if all readers of the state come before.
static void send_blocks(tt__lower *l, const tt_node *gather)
{
    const tt__info *whole = &l->info[gather->out[0].id];
    const int32_t v = l->info[gather->in[0].id].root;
    const tt_node *from = computing_node(l, v);
    if (whole->dest == TT__DEST_STATE && from != NULL &&
        l->info[v].dest == TT__DEST_NONE &&
        !is_flagged(from, TT_OP_COLLECTIVE) &&
        l->info[whole->dest_of].last <= l->at[l->g->value[v].node])
        send_to(l, v, TT__DEST_BLOCK, (int32_t)(gather - l->g->node), 0);
}

static bool is_private(const tt__lower *l, int32_t v)
{
    const tt__info *info = &l->info[v];
    return info->uses == 1 && !info->is_host_read &&
           info->dest == TT__DEST_NONE && !tt_is(l->g->value[v].updates);
}

// A value may be renamed (a reshape) between its producer and its only reader.
static int32_t before_relabels(tt__lower *l, int32_t v)
{
    while (l->g->value[v].node >= 0) {
        const tt_node *node = &l->g->node[l->g->value[v].node];
        if (!is_private(l, v) || !is_flagged(node, TT_OP_VIEW) ||
            !tt__view_is_relabel(l, node))
            break;
        v = node->in[0].id;
    }
    return v;
}

static void send_parts(tt__lower *l, const tt_node *node)
{
    tt_ref part;
    for (int i = 0; i < node->n_in; i++) {
        const tt_val v = {before_relabels(l, node->in[i].id)};
        const tt_node *from = computing_node(l, v.id);
        if (from != NULL && is_private(l, v.id) &&
            !is_flagged(from, TT_OP_COLLECTIVE) &&
            tt__concat_part(l, node, i, v, &part))
            send_to(l, v.id, TT__DEST_PART, (int32_t)(node - l->g->node), i);
    }
}

static void send_terms(tt__lower *l, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        if (!tt__is_read(node, i))
            continue;
        const int32_t v = before_relabels(l, node->in[i].id);
        const tt_node *from = computing_node(l, v);
        if (from != NULL && is_private(l, v) &&
            same_size(l, v, node->out[0].id))
            send_to(l, v, TT__DEST_SUM, (int32_t)(node - l->g->node), i);
    }
}

static void find_host(tt__lower *l)
{
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        const tt_node *node = &l->g->node[n];
        if (node->op == &tt_op_offload)
            l->info[node->out[0].id].is_on_host = true;
        if (node->op == &tt_op_reload)
            l->info[l->info[node->in[0].id].root].is_on_host = true;
    }
}

void tt__uses_find(tt__lower *l)
{
    mark_host_reads(l);
    count_uses(l);
    find_roots(l);
    find_host(l);
    send_updates(l);
    for (int32_t p = 0; p < l->n_at; p++) {
        const int32_t n = l->node_at[p];
        const tt_node *node = &l->g->node[n];
        if (!l->is_live[n])
            continue;
        if (node->op == &tt_op_all_gather)
            send_blocks(l, node);
        if (is_flagged(node, TT_OP_CONCAT))
            send_parts(l, node);
        if (is_flagged(node, TT_OP_ACCUMULATE))
            send_terms(l, node);
    }
}
