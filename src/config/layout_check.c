// layout_check - checks a layout against the graph that it is for.
//
// The partition pass would take any layout: a rule for a dimension that no tensor
// has does nothing. Then ranks would do the same work several times, silently. So
// before the graph is split, every name in a rule must exist, every dimension must
// be at least as long as its axis, and every axis must split something. The message
// says what would work instead, with numbers.

#include "config/layout_check.h"

#include "ops/nn/attention.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

typedef struct subject {
    const tt_distribution *distribution;
    const tt_grid *grid;
    const tt_graph *graph;
    const char *model; // what errors call it
} subject;

// The name that rules for layers are compared with: a weight's own, or the layer
// that made a result.
static const char *owner(const tt_graph *g, int32_t v)
{
    const int32_t node = g->value[v].node;
    return node < 0 ? g->value[v].name : g->node[node].origin;
}

static bool is_for(const tt_graph *g, int32_t v, const char *layers)
{
    return layers == NULL || tt_layout_is_for(layers, owner(g, v));
}

// The largest extent of a dimension in those layers; 0: they do not have it.
static int64_t extent_of(const tt_graph *g, const char *layers,
                         const char *name)
{
    int64_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_shape *shape = &g->value[v].type.shape;
        const int f = tt_shape_find(shape, name);
        if (f >= 0 && shape->factor[f].size > n && is_for(g, v, layers))
            n = shape->factor[f].size;
    }
    return n;
}

// ---- names that are none -------------------------------------------------

enum { MOST_NAMES = 64, MOST_LAYERS = 1024 };

// The names of the dimensions of weights and inputs in those layers.
static int list_names(const tt_graph *g, const char *layers,
                      const char *names[MOST_NAMES])
{
    int n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_shape *shape = &g->value[v].type.shape;
        if (g->value[v].node >= 0 || !is_for(g, v, layers))
            continue;
        for (int f = 0; f < shape->n_factors && n < MOST_NAMES; f++) {
            bool is_new = true;
            for (int i = 0; i < n && is_new; i++)
                is_new = strcmp(names[i], shape->factor[f].name) != 0;
            if (is_new)
                names[n++] = shape->factor[f].name;
        }
    }
    return n;
}

static tt_status unknown_dim(const subject *s, const tt_layout_rule *rule)
{
    const char *names[MOST_NAMES] = {NULL};
    const int n = list_names(s->graph, rule->layers, names);
    const char *near = tt_nearest(rule->dim, names, n);
    tt_str all = {0}, who = {0};
    tt_str_add(&who, s->model);
    if (rule->layers != NULL)
        tt_str_addf(&who, "'s %s", rule->layers);
    for (int i = 0; i < n; i++)
        tt_str_addf(&all, "%s%s", i > 0 ? " " : "", names[i]);
    const tt_status status =
        near != NULL
            ? tt_fail(TT_ERR_ARG,
                      "layout: %s has no dimension called %s; did you mean %s?",
                      tt_str_text(&who), rule->dim, near)
            : tt_fail(TT_ERR_ARG,
                      "layout: %s has no dimension called %s; it has %s",
                      tt_str_text(&who), rule->dim, tt_str_text(&all));
    tt_str_fini(&all);
    tt_str_fini(&who);
    return status;
}

typedef struct layer_names {
    int n;
    char (*text)[96];
    const char **name;
} layer_names;

static void add_layer(layer_names *l, const char *first, const char *end)
{
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(end - first), first);
    if (end - first >= (int)sizeof name || l->n == MOST_LAYERS)
        return;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return;
    memcpy(l->text[l->n], name, sizeof name);
    l->name[l->n] = l->text[l->n];
    l->n++;
}

// All names that a pattern could mean: the parts between the dots of weights'
// names.
static void list_layers(const tt_graph *g, layer_names *l)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].role != TT_ROLE_PARAM)
            continue;
        for (const char *p = g->value[v].name; p != NULL;) {
            for (const char *end = strchr(p, '.'); end != NULL;
                 end = strchr(end + 1, '.'))
                add_layer(l, p, end);
            p = strchr(p, '.');
            p = p != NULL ? p + 1 : NULL;
        }
    }
}

static tt_status unknown_layers(const subject *s, const tt_layout_rule *rule)
{
    tt_arena *arena = tt_arena_create();
    layer_names l = {0};
    if (arena != NULL) {
        l.text = tt_arena_alloc(arena, MOST_LAYERS * (int64_t)sizeof *l.text);
        l.name = tt_arena_alloc(arena, MOST_LAYERS * (int64_t)sizeof *l.name);
    }
    if (l.text == NULL || l.name == NULL) {
        tt_arena_destroy(arena);
        return tt_fail(TT_ERR_NOMEM, "no memory for a layout");
    }
    list_layers(s->graph, &l);
    const char *near = tt_nearest(rule->layers, l.name, l.n);
    const char *first = l.n > 0 ? l.name[0] : "none";
    const tt_status status = tt_fail(
        TT_ERR_ARG, "layout: %s has no layer that %s matches; %s%s%s", s->model,
        rule->layers, near != NULL ? "did you mean " : "it has ",
        near != NULL ? near : first,
        near != NULL ? "?" : " and others, which `tutti plan` shows");
    tt_arena_destroy(arena);
    return status;
}

static bool has_layers(const tt_graph *g, const char *layers)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if (is_for(g, v, layers))
            return true;
    return false;
}

// ---- rules ---------------------------------------------------------------

// The largest number of ranks along an axis, up to `extent`, with which the mesh
// fits.
static int64_t most_ranks(const subject *s, int axis, int64_t extent)
{
    const int64_t *size = s->grid->size;
    const int64_t others = s->grid->ranks / size[axis] / size[TT_AXIS_DATA];
    const bool is_fixed =
        axis == TT_AXIS_DATA || s->grid->is_open || s->distribution->has_data;
    int64_t n = extent;
    while (!is_fixed && n > 1 && s->grid->ranks % (others * n) != 0)
        n--;
    return n;
}

static tt_status too_short(const subject *s, const tt_layout_rule *rule,
                           int64_t extent, int64_t size)
{
    const int axis = tt_axis_find(rule->axis);
    const int64_t n = most_ranks(s, axis, extent);
    const int64_t ranks = s->grid->ranks / size * n;
    const bool is_counted = !s->grid->is_open && axis == TT_AXIS_DATA;
    char would[96];
    // What to suggest depends on how the user gave the number of ranks.
    if (is_counted && !s->distribution->has_data)
        snprintf(would, sizeof would, "-n %lld", (long long)ranks);
    else if (!s->grid->is_open && (is_counted || s->distribution->has_data))
        snprintf(would, sizeof would, "mesh.%s=%lld with -n %lld", rule->axis,
                 (long long)n, (long long)ranks);
    else
        snprintf(would, sizeof would, "mesh.%s=%lld", rule->axis, (long long)n);
    return tt_fail(TT_ERR_ARG,
                   "mesh.%s=%lld is more than %s has of %s, which is %lld; "
                   "%s would do, or layout.%s%s%s=none",
                   rule->axis, (long long)size, s->model, rule->dim,
                   (long long)extent, would,
                   rule->layers != NULL ? rule->layers : "",
                   rule->layers != NULL ? "." : "", rule->dim);
}

static tt_status check_rule(const subject *s, const tt_layout_rule *rule)
{
    const int axis = tt_axis_find(rule->axis);
    const int64_t size = axis < 0 ? 1 : s->grid->size[axis];
    // Dimensions that the user named must exist; those of default rules may be
    // missing.
    const bool is_asked = rule->layers != NULL ||
                          tt_distribution_is_set(s->distribution, rule->dim);
    if (rule->layers != NULL && !has_layers(s->graph, rule->layers))
        return unknown_layers(s, rule);
    const int64_t extent = extent_of(s->graph, rule->layers, rule->dim);
    if (extent == 0 && is_asked)
        return unknown_dim(s, rule);
    if (strcmp(rule->dim, "batch") ==
        0) // checked elsewhere, with its own message
        return TT_OK;
    // With grouped-query attention there may be fewer key heads than ranks; then
    // several ranks hold the same ones.
    if (extent > 0 && extent < size &&
        (is_asked || strcmp(rule->dim, "kv_heads") != 0))
        return too_short(s, rule, extent, size);
    return TT_OK;
}

static bool is_same_scope(const tt_layout_rule *a, const tt_layout_rule *b)
{
    if (strcmp(a->dim, b->dim) != 0 ||
        (a->layers == NULL) != (b->layers == NULL))
        return false;
    return a->layers == NULL || strcmp(a->layers, b->layers) == 0;
}

// Refuses two rules for the same layers of which one splits and one does not.
static tt_status check_pairs(const tt_layout *layout)
{
    for (int32_t i = 0; i < layout->n; i++)
        for (int32_t k = 0; k < layout->n; k++) {
            const tt_layout_rule *a = &layout->rule[i], *b = &layout->rule[k];
            if (is_same_scope(a, b) && strcmp(a->axis, "none") == 0 &&
                strcmp(b->axis, "none") != 0)
                return tt_fail(TT_ERR_ARG,
                               "layout: %s/%s:none and %s/%s:%s contradict "
                               "each other; leave one of them out",
                               a->layers, a->dim, b->layers, b->dim, b->axis);
        }
    return TT_OK;
}

// A dimension that could be split instead: it has a key and is long enough; or
// NULL.
static const char *could_cut(const tt_graph *g, int64_t size)
{
    static const char *const names[] = {"filters", "ff",     "heads", "hidden",
                                        "experts", "height", "seq",   "embed"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (extent_of(g, NULL, names[i]) >= size)
            return names[i];
    return NULL;
}

static tt_status unused_axis(const subject *s, int a)
{
    const char *dim =
        a == TT_AXIS_DATA ? "batch" : could_cut(s->graph, s->grid->size[a]);
    return tt_fail(TT_ERR_ARG,
                   "mesh.%s=%lld: %s has no dimension that the layout gives to "
                   "%s; leave the axis out%s%s%s%s",
                   tt_axis_name[a], (long long)s->grid->size[a], s->model,
                   tt_axis_name[a], dim != NULL ? ", or set layout." : "",
                   dim != NULL ? dim : "", dim != NULL ? "=" : "",
                   dim != NULL ? tt_axis_name[a] : "");
}

// Refuses an axis that splits nothing: its ranks would all do the same.
static tt_status check_axes(const subject *s)
{
    for (int a = 0; a < TT_AXIS_PIPE; a++) {
        bool is_used = s->grid->size[a] == 1;
        for (int32_t i = 0; i < s->grid->layout.n && !is_used; i++) {
            const tt_layout_rule *r = &s->grid->layout.rule[i];
            const bool is_shared =
                strcmp(r->dim, "batch") == 0 && a != TT_AXIS_DATA;
            is_used = strcmp(r->axis, tt_axis_name[a]) == 0 && !is_shared &&
                      extent_of(s->graph, r->layers, r->dim) > 0;
        }
        if (!is_used)
            return unused_axis(s, a);
    }
    return TT_OK;
}

// all_to_all attention divides the heads of a rank between the ranks along context.
static tt_status check_attention(const subject *s)
{
    const int64_t size = s->grid->size[TT_AXIS_CONTEXT];
    int64_t heads = extent_of(s->graph, NULL, "heads");
    if (s->distribution->attention == 0 || size == 1 || heads == 0)
        return TT_OK;
    if (tt_layout_cuts(&s->grid->layout, "", "heads",
                       tt_axis_name[TT_AXIS_TENSOR]))
        heads /= s->grid->size[TT_AXIS_TENSOR];
    if (heads >= size)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "layout.attention=all_to_all shares out heads: "
                   "mesh.context=%lld is more than the %lld of %s; "
                   "mesh.context=%lld would do, or layout.attention=ring",
                   (long long)size, (long long)heads, s->model,
                   (long long)heads);
}

tt_status tt_distribution_check(const tt_distribution *distribution,
                                const tt_grid *grid, const tt_graph *graph,
                                const char *model)
{
    const subject s = {distribution, grid, graph, model};
    TT_TRY(check_pairs(&grid->layout));
    for (int32_t i = 0; i < grid->layout.n; i++)
        TT_TRY(check_rule(&s, &grid->layout.rule[i]));
    TT_TRY(check_attention(&s));
    return check_axes(&s);
}

// Whether the graph has causal attention. Then ranks with early positions have less
// to do than ranks with late ones, and zigzag gives each rank a piece of both.
static bool looks_back(const tt_graph *g)
{
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_attention_params *p = g->node[n].params;
        if (g->node[n].op == &tt_op_attention && p->causal)
            return true;
    }
    return false;
}

const char *tt_distribution_zigzag(const tt_distribution *distribution,
                                   const tt_graph *graph)
{
    return distribution->zigzag && distribution->attention == 0 &&
                   looks_back(graph)
               ? tt_axis_name[TT_AXIS_CONTEXT]
               : "";
}

static bool has_jumps(const tt_graph *g)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if ((g->node[n].op->flags & TT_OP_JUMPS) != 0)
            return true;
    return false;
}

bool tt_distribution_is_wide(const tt_distribution *distribution,
                             const tt_graph *graph)
{
    return distribution->terms == 2 ||
           (distribution->terms == 0 && has_jumps(graph));
}
