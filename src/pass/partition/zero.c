// zero - ZeRO as placements (Rajbhandari et al. 2020): along one axis every rank
// holds its part of
//
//   1   the optimiser's state, averages, and masters of weights that kernels read
//       in another precision. The update runs on parts: gradients are
//       reduce-scattered there and new weights gathered. An optimiser without
//       state has nothing to split, so its update stays as it is
//   2   gradients too: reduce-scattered in the backward pass, micro-batch by
//       micro-batch, before they are summed up. Every update runs on parts
//   3   weights too: gathered where a layer reads them, in the forward pass and
//       again in the backward pass
//
//   sent    p ranks, n bytes of weights, m micro-batches, in units of n (p-1)/p:
//           0 and 1: 2;  2: m + 1;  3: 3 m (less where backward reads no weight)
//
// Canonical sums are made like those of level 2 at level 1 too.
//
// A part is a block of one factor: the outermost whose blocks are as even as those
// of any other. Small tensors stay whole.

#include "ops/ops.h"
#include "pass/partition/cut.h"

// ---- along which factor --------------------------------------------------

// Whether a later axis will cut this factor. That axis would cut the blocks made
// here, and then gathering these blocks would not give its block of the whole.
static bool is_cut_later(const tt__cut *c, int32_t old, const char *dim)
{
    const tt_mesh *mesh = &c->b.graph->mesh;
    for (int a = c->axis + 1; a < mesh->n_axes; a++)
        if (mesh->axis[a].size > 1 &&
            tt_layout_cuts(c->layout, c->old->value[old].name, dim,
                           mesh->axis[a].name))
            return true;
    return false;
}

// The smallest number of entries of a factor that a rank holds, given the axes that
// were handled so far.
static int64_t extent(const tt__cut *c, const tt_type *type, int f)
{
    int64_t n = type->shape.factor[f].size;
    for (int a = 0; a < c->axis; a++)
        if (type->place[a].kind == TT_SPLIT && type->place[a].factor == f)
            n /= c->b.graph->mesh.axis[a].size;
    return n;
}

static int32_t best_factor(const tt__cut *c, int32_t old)
{
    const tt_type *type = &c->old->value[old].type;
    const double much = 0.95; // an inner factor must be more even by this much
    int32_t best = -1;
    double least = 0;
    for (int f = 0; f < type->shape.n_factors; f++) {
        const int64_t n = extent(c, type, f);
        if (n < c->size || is_cut_later(c, old, type->shape.factor[f].name))
            continue;
        const int64_t largest = (n + c->size - 1) / c->size; // block
        const double share = (double)largest / (double)n;
        if (best < 0 || share < much * least) {
            best = f;
            least = share;
        }
    }
    return best;
}

// Elements of the weights that have at most `most` each.
static double elements_up_to(const tt_graph *g, int64_t most)
{
    double sum = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const int64_t n = tt_shape_count(&g->value[v].type.shape);
        if (g->value[v].role == TT_ROLE_PARAM && n <= most)
            sum += (double)n;
    }
    return sum;
}

// Tensors of up to this many elements stay whole. It is the size of some value, so
// that all tensors of one size are treated alike.
static int64_t find_small(const tt__cut *c)
{
    const tt_graph *g = c->old;
    const double room =
        c->params->zero_small * elements_up_to(g, INT64_MAX) / c->size;
    int64_t small = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const int64_t n = tt_shape_count(&g->value[v].type.shape);
        if (n > small && (double)n <= room && elements_up_to(g, n) <= room)
            small = n;
    }
    return small;
}

// ---- which values --------------------------------------------------------

static void mark(tt__cut *c, int32_t old, int64_t small)
{
    const tt_type *type = &c->old->value[old].type;
    if (tt_shape_count(&type->shape) > small && !tt__is_laid_out(c, old))
        c->shard[old] = best_factor(c, old);
}

// Weights whose update is on parts: at level 1 those that have state.
static void mark_weights(tt__cut *c, int64_t small)
{
    const tt_graph *g = c->old;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (tt_role_is_update(value->role) ||
            (value->role == TT_ROLE_PARAM && c->zero >= 2))
            mark(c, v, small);
        if (value->role == TT_ROLE_WORK) {
            mark(c, v, small);
            mark(c, value->init.of.id, small);
        }
    }
    for (int32_t n = 0; n < g->n_nodes; n++) {
        bool has_state = false;
        for (int i = 0; i < g->node[n].n_in; i++) {
            const tt_val v = g->node[n].in[i];
            has_state |= tt_is(v) && tt_role_is_update(g->value[v.id].role);
        }
        for (int i = 0; i < g->node[n].n_in && has_state; i++) {
            const tt_val v = g->node[n].in[i];
            if (tt_is(v) && g->value[v.id].role == TT_ROLE_PARAM)
                mark(c, v.id, small);
        }
    }
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_is(g->value[v].grad))
            c->shard[g->value[v].grad.id] = c->shard[v];
}

// In the update, values of a part's shape that are computed from parts, or together
// with them, are in parts too.
static void mark_like(tt__cut *c, tt_val v, tt_val part)
{
    const tt_graph *g = c->old;
    if (tt_is(v) && tt_shape_equal(&g->value[v.id].type.shape,
                                   &g->value[part.id].type.shape))
        c->shard[v.id] = c->shard[part.id];
}

static void mark_update(tt__cut *c)
{
    const tt_graph *g = c->old;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        tt_val part = TT_NONE;
        for (int i = 0; i < node->n_in && node->phase == TT_UPDATE; i++)
            if (tt_is(node->in[i]) && c->shard[node->in[i].id] >= 0)
                part = node->in[i];
        for (int i = 0; i < node->n_in && tt_is(part); i++)
            mark_like(c, node->in[i], part);
        for (int i = 0; i < node->n_out && tt_is(part); i++)
            mark_like(c, node->out[i], part);
    }
}

// Level 3: weights, and what is made of nothing else.
static void mark_held(tt__cut *c)
{
    const tt_graph *g = c->old;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_role role = g->value[v].role;
        c->is_held[v] =
            (role == TT_ROLE_PARAM || role == TT_ROLE_WORK) && c->shard[v] >= 0;
    }
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        bool is_held = node->phase != TT_UPDATE;
        for (int i = 0; i < node->n_in && is_held; i++)
            is_held = !tt_is(node->in[i]) || c->is_held[node->in[i].id];
        for (int o = 0; o < node->n_out; o++)
            c->is_held[node->out[o].id] = is_held;
    }
}

void tt__zero_mark(tt__cut *c)
{
    for (int32_t v = 0; v < c->old->n_values; v++)
        c->shard[v] = -1;
    if (c->zero == 0)
        return;
    mark_weights(c, find_small(c));
    mark_update(c);
    if (c->zero >= 3)
        mark_held(c);
}

bool tt__zero_splits(const tt__cut *c, const tt_node *node)
{
    return !c->params->own_gradients && c->zero >= (c->is_canonical ? 1 : 2) &&
           node->op == &tt_op_offer && c->shard[node->out[0].id] >= 0;
}

bool tt__must_finish(const tt__cut *c, const tt_node *node)
{
    return tt__zero_splits(c, node) ||
           (c->is_canonical && !c->params->own_gradients &&
            node->op == &tt_op_offer);
}

bool tt__zero_allows(const tt__cut *c, const tt_node *node, int32_t old,
                     const tt_place *want)
{
    if (tt__zero_splits(c, node))
        return true;
    return node->phase == TT_UPDATE && c->shard[old] >= 0 &&
           want->kind == TT_SPLIT && want->factor == c->shard[old];
}

bool tt__zero_uses(const tt__cut *c, const tt_node *node, int32_t old)
{
    return c->is_held[old] && !c->is_held[node->out[0].id] &&
           node->phase != TT_UPDATE;
}
