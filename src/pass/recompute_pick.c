// recompute_pick - which values are computed again instead of being kept.
//
//   full        all values that never leave their block. Nodes of one block have
//               a common origin up to its number (transformer.h.3, layer2.0). A
//               model without such names is cut into about sqrt(n) pieces of equal
//               bytes (Chen et al. 2016); its last piece is kept, because the
//               backward pass starts there
//   selective   results that cost few operations per element and come from
//               values that are kept anyway: norms, activations, dropout; as long
//               as all of them together cost less than 2% of the FLOPs

#include "base/alloc.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "pass/recompute.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const double selective_budget = 0.02;
static const double cheap_flops = 16; // per element of the result

bool tt__is_activation(const tt_node *node, const bool *is_dropped)
{
    return node->op == &tt_op_matmul && node->n_out == 2 &&
           !is_dropped[node->out[1].id];
}

bool tt__is_weight_gather(const tt_graph *g, const tt_node *node)
{
    if (node->op != &tt_op_all_gather)
        return false;
    const tt_value *from = &g->value[node->in[0].id];
    while (from->node >= 0 &&
           (g->node[from->node].op->flags & TT_OP_ALIAS) != 0)
        from = &g->value[g->node[from->node].in[0].id];
    return from->role == TT_ROLE_PARAM || from->role == TT_ROLE_WORK;
}

static double value_bytes(const tt_value *value)
{
    return (double)tt_shape_count(&value->type.shape) *
           (double)tt_dtype_bytes(value->type.dtype);
}

static bool is_view(const tt_node *node)
{
    return (node->op->flags & (TT_OP_VIEW | TT_OP_ALIAS)) != 0;
}

static bool can_repeat(const tt_node *node)
{
    return node->phase == TT_FORWARD &&
           !(node->op->flags &
             (TT_OP_COLLECTIVE | TT_OP_ACCUMULATE | TT_OP_ALIAS));
}

// ---- full ----------------------------------------------------------------

// Length of an origin up to and including the number of its block: the first part that
// is a number, or else the first part that ends in one. 0: there is no number.
static size_t block_length(const char *origin)
{
    size_t ends_in_digit = 0;
    for (const char *part = origin;;) {
        const size_t n = strcspn(part, ".");
        const size_t digits = strspn(part, "0123456789");
        const size_t end = (size_t)(part - origin) + n;
        if (n > 0 && digits == n)
            return end;
        if (n > 0 && ends_in_digit == 0 && isdigit((unsigned char)part[n - 1]))
            ends_in_digit = end;
        if (part[n] == '\0')
            return ends_in_digit;
        part += n + 1;
    }
}

static bool same_block(const tt_node *a, const tt_node *b)
{
    const size_t n = block_length(a->origin);
    return n == block_length(b->origin) &&
           strncmp(a->origin, b->origin, n) == 0;
}

// Runs of forward nodes of one block; -1: in no block. Returns their number. One
// node alone is no block.
static int32_t find_blocks(const tt_graph *g, int32_t *block)
{
    int32_t n_blocks = 0, last = -1, size = 0;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        block[n] = -1;
        if (node->phase != TT_FORWARD || block_length(node->origin) == 0)
            continue;
        if (last >= 0 && same_block(&g->node[last], node)) {
            n_blocks += size == 1 ? 1 : 0;
            block[last] = n_blocks - 1;
            block[n] = n_blocks - 1;
            size++;
        } else {
            size = 1;
        }
        last = n;
    }
    return n_blocks;
}

static double node_bytes(const tt_graph *g, const tt_node *node)
{
    double bytes = 0;
    if (node->phase != TT_FORWARD || is_view(node))
        return 0;
    for (int i = 0; i < node->n_out; i++)
        bytes += value_bytes(&g->value[node->out[i].id]);
    return bytes;
}

static void cut_pieces(const tt_graph *g, int32_t *block)
{
    double all = 0, before = 0;
    int32_t n_nodes = 0;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const double bytes = node_bytes(g, &g->node[n]);
        all += bytes;
        n_nodes += bytes > 0 ? 1 : 0;
    }
    const int32_t n_pieces = (int32_t)fmax(2, round(sqrt((double)n_nodes)));
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const int32_t piece = (int32_t)(before * n_pieces / fmax(all, 1));
        block[n] =
            g->node[n].phase == TT_FORWARD && piece < n_pieces - 1 ? piece : -1;
        before += node_bytes(g, &g->node[n]);
    }
}

// Values of a block are dropped unless a node outside of the block reads them.
static void drop_inside(const tt_graph *g, const int32_t *block,
                        bool *is_dropped)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        const int32_t n = g->value[v].node;
        is_dropped[v] = n >= 0 && block[n] >= 0 && can_repeat(&g->node[n]) &&
                        !tt_is(g->value[v].updates);
    }
    for (int32_t o = 0; o < g->n_outputs; o++)
        is_dropped[g->output[o].val.id] = false;
    for (int32_t n = g->n_nodes - 1; n >= 0; n--) {
        const tt_node *node = &g->node[n];
        // Terms that an offer sums are never dropped.
        for (int i = 0; node->op == &tt_op_offer && i < node->n_in; i++)
            is_dropped[node->in[i].id] = false;
        if (tt__is_backward(node))
            continue;
        for (int i = 0; i < node->n_in; i++) {
            if (!tt__reads(node, i) || g->value[node->in[i].id].node < 0)
                continue;
            const int32_t from = block[g->value[node->in[i].id].node];
            const bool stays = from >= 0 && from == block[n];
            // A view shares its memory.
            const bool is_held = is_view(node) && !is_dropped[node->out[0].id];
            if (!stays || is_held)
                is_dropped[node->in[i].id] = false;
        }
    }
}

static tt_status pick_full(const tt_graph *g, bool *is_dropped)
{
    int32_t *block = tt_alloc((int64_t)sizeof *block * g->n_nodes);
    if (block == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to recompute");
    if (find_blocks(g, block) < 2)
        cut_pieces(g, block);
    drop_inside(g, block, is_dropped);
    tt_free(block);
    return TT_OK;
}

// ---- selective -----------------------------------------------------------

typedef struct choice {
    const tt_graph *g;
    bool *is_dropped;
    int32_t *root; // per value: the one whose memory it is
    bool *is_kept; // per root: the backward pass reads it
    tt_type *in;   // room for the widest node
    double budget;
} choice;

static void find_roots(choice *c)
{
    const tt_graph *g = c->g;
    for (int32_t v = 0; v < g->n_values; v++)
        c->root[v] = v;
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (is_view(&g->node[n]))
            for (int i = 0; i < g->node[n].n_out; i++)
                c->root[g->node[n].out[i].id] = c->root[g->node[n].in[0].id];
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (tt__is_backward(&g->node[n]) && tt__reads(&g->node[n], i))
                c->is_kept[c->root[g->node[n].in[i].id]] = true;
}

static double node_flops(choice *c, const tt_node *node)
{
    tt_type out[TT_MAX_OUT];
    tt_op_io io;
    tt_cost cost = {0};
    tt_node_io(c->g, node, c->in, out, &io);
    if (node->op->cost != NULL)
        node->op->cost(&io, 1, &cost);
    return cost.flops;
}

// Whether the backward pass has this value without recomputation.
static bool is_there(const choice *c, tt_val v)
{
    const int32_t root = c->root[v.id], n = c->g->value[root].node;
    return n < 0 || tt__is_weight_gather(c->g, &c->g->node[n]) ||
           (c->is_kept[root] && !c->is_dropped[root]);
}

static bool inputs_are_there(const choice *c, const tt_node *node)
{
    if (tt__is_activation(node, c->is_dropped))
        return is_there(c, node->out[1]);
    for (int i = 0; i < node->n_in; i++)
        if (tt__reads(node, i) && !is_there(c, node->in[i]))
            return false;
    return true;
}

static void consider(choice *c, const tt_node *node)
{
    const tt_val v = node->out[0];
    const bool is_activation = tt__is_activation(node, c->is_dropped);
    const double n = (double)tt_shape_count(&c->g->value[v.id].type.shape);
    if (!can_repeat(node) || is_view(node) || !c->is_kept[v.id] ||
        !inputs_are_there(c, node))
        return;
    const double flops = is_activation ? cheap_flops * n : node_flops(c, node);
    if (flops > cheap_flops * n || flops > c->budget)
        return;
    c->budget -= flops;
    c->is_dropped[v.id] = true;
}

// A view of a dropped value is dropped with it.
static void drop_views(choice *c)
{
    for (int32_t v = 0; v < c->g->n_values; v++)
        c->is_dropped[v] = c->is_dropped[c->root[v]];
}

static tt_status select_values(choice *c)
{
    const tt_graph *g = c->g;
    int64_t widest = 1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        widest = g->node[n].n_in > widest ? g->node[n].n_in : widest;
    c->root = tt_alloc((int64_t)sizeof *c->root * g->n_values);
    c->is_kept = tt_alloc(g->n_values);
    c->in = tt_alloc((int64_t)sizeof *c->in * widest);
    if (c->root == NULL || c->is_kept == NULL || c->in == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to recompute");
    find_roots(c);
    for (int32_t n = 0; n < g->n_nodes; n++)
        c->budget += selective_budget * node_flops(c, &g->node[n]);
    for (int32_t o = 0; o < g->n_outputs; o++)
        c->is_kept[c->root[g->output[o].val.id]] = false; // stays by itself
    for (int32_t n = 0; n < g->n_nodes; n++)
        consider(c, &g->node[n]);
    drop_views(c);
    return TT_OK;
}

static tt_status pick_selective(const tt_graph *g, bool *is_dropped)
{
    choice c = {.g = g, .is_dropped = is_dropped};
    const tt_status status = select_values(&c);
    tt_free(c.in);
    tt_free(c.is_kept);
    tt_free(c.root);
    return status;
}

// Repeated nodes need whole weights, and whole weights are not kept.
static void drop_gathered(const tt_graph *g, bool *is_dropped)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].phase == TT_FORWARD &&
            tt__is_weight_gather(g, &g->node[n]))
            is_dropped[g->node[n].out[0].id] = true;
}

tt_status tt__recompute_pick(const tt_graph *g, tt__recompute_mode mode,
                             bool *is_dropped)
{
    tt_status status = TT_OK;
    if (mode == TT__RECOMPUTE_FULL)
        status = pick_full(g, is_dropped);
    else if (mode == TT__RECOMPUTE_SELECTIVE)
        status = pick_selective(g, is_dropped);
    drop_gathered(g, is_dropped);
    return status;
}
