// mesh - from mesh.* and layout.* to the mesh and the layout that the partition
// pass takes.
//
// A mesh is the ranks as a grid: "data:2 tensor:4". A layout says which dimension
// is split along which axis: "batch:data heads:tensor ff:tensor". Users rarely
// write a layout. It comes from three places, the first that says something wins:
//
//   layout.rules, layout.DIM   what the user wrote
//   the model's family         rules of the model definition
//   TT_DISTRIBUTION_DIMS              the usual axis of a dimension
//
// A rule for an axis with one rank does nothing. If it was written by the user,
// that is an error, since something else was meant; if it is the usual one, it is
// left out.
//
// mesh.data is what is left: ranks divided by the product of the other axes. The
// order of axes decides which ranks are neighbours. The last axis is the nearest,
// so tensor, which sends most, is last by default, and pipe, which sends least, first.

#include "config/distribution.h"
#include "ops/comm/replicas.h"

#include <stdio.h>
#include <string.h>

const char *const tt_axis_name[TT_N_AXES] = {
    [TT_AXIS_DATA] = "data",     [TT_AXIS_EXPERT] = "expert",
    [TT_AXIS_SPACE] = "space",   [TT_AXIS_CONTEXT] = "context",
    [TT_AXIS_TENSOR] = "tensor", [TT_AXIS_PIPE] = "pipe",
};

enum { AUTO, WHOLE, FIRST_AXIS }; // values of layout.DIM; then the axes
enum { MOST_RANKS = 65536 };

static const struct {
    const char *name;
    tt_axis axis;
} dims[TT_N_DIMS] = {
#define TT_DIM(name, axis) {#name, TT_AXIS_##axis},
    TT_DISTRIBUTION_DIMS(TT_DIM)
#undef TT_DIM
};

// ---- how many ranks along each axis --------------------------------------

static int64_t largest_divisor(int64_t n, int64_t below)
{
    int64_t d = below < n ? below : n;
    while (d > 1 && n % d != 0)
        d--;
    return d > 0 ? d : 1;
}

static tt_status does_not_divide(const tt_distribution *distribution,
                                 int32_t ranks, int64_t others)
{
    int largest = TT_AXIS_EXPERT;
    for (int a = TT_AXIS_EXPERT; a < TT_N_AXES; a++)
        if (distribution->axis[a] > distribution->axis[largest])
            largest = a;
    const int64_t rest = others / distribution->axis[largest];
    const int64_t up = (ranks + others - 1) / others * others;
    return tt_fail(TT_ERR_ARG,
                   "a mesh of %lld ranks besides data does not fit %d rank%s; "
                   "mesh.%s=%lld or %lld ranks would do",
                   (long long)others, ranks, ranks == 1 ? "" : "s",
                   tt_axis_name[largest],
                   (long long)largest_divisor(ranks / (rest > 0 ? rest : 1),
                                              distribution->axis[largest]),
                   (long long)up);
}

static tt_status fill_axes(const tt_distribution *distribution, int32_t ranks,
                           int64_t size[TT_N_AXES])
{
    int64_t others = 1;
    for (int a = 0; a < TT_N_AXES; a++) {
        size[a] = distribution->axis[a] > 0 ? distribution->axis[a] : 1;
        if (a != TT_AXIS_DATA && others <= MOST_RANKS)
            others *= size[a];
    }
    if (others > MOST_RANKS || size[TT_AXIS_DATA] * others > MOST_RANKS)
        return tt_fail(TT_ERR_ARG,
                       "a mesh has at most %d ranks, and this one would have "
                       "%lld",
                       MOST_RANKS, (long long)(size[TT_AXIS_DATA] * others));
    if (ranks == 0)
        return TT_OK;
    if (distribution->axis[TT_AXIS_DATA] == 0) {
        if (ranks % others != 0)
            return does_not_divide(distribution, ranks, others);
        size[TT_AXIS_DATA] = ranks / others;
    }
    const int64_t product = size[TT_AXIS_DATA] * others;
    if (product != ranks && ranks % others != 0)
        return tt_fail(TT_ERR_ARG,
                       "the mesh has %lld ranks and there %s %d; start %lld "
                       "(-n %lld)",
                       (long long)product, ranks == 1 ? "is" : "are", ranks,
                       (long long)product, (long long)product);
    if (product != ranks)
        return tt_fail(TT_ERR_ARG,
                       "the mesh has %lld ranks and there %s %d; start %lld "
                       "(-n %lld) or set mesh.data=%lld",
                       (long long)product, ranks == 1 ? "is" : "are", ranks,
                       (long long)product, (long long)product,
                       (long long)(ranks / others));
    return TT_OK;
}

// ---- the mesh ------------------------------------------------------------

enum { N_CUTTING = TT_AXIS_PIPE }; // axes that cut dimensions come first

static int find_axis(const char *name, int n)
{
    for (int a = 0; a < n; a++)
        if (strcmp(tt_axis_name[a], name) == 0)
            return a;
    return -1;
}

static tt_status unknown_axis(const char *key, const char *name, int n)
{
    const char *near = tt_nearest(name, tt_axis_name, n);
    return tt_fail(TT_ERR_ARG,
                   "%s: there is no axis \"%s\"; %s%s%s are data expert space "
                   "context tensor%s",
                   key, name, near != NULL ? "did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "? They" : "they",
                   n == TT_N_AXES ? " pipe" : "");
}

int tt_axis_find(const char *name)
{
    return find_axis(name, N_CUTTING);
}

tt_status tt_axis_unknown(const char *key, const char *name)
{
    if (strcmp(name, tt_axis_name[TT_AXIS_PIPE]) == 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: pipe cuts the chain of layers, not a dimension; "
                       "mesh.pipe=2 does it, and pipe.cut says where",
                       key);
    return unknown_axis(key, name, N_CUTTING);
}

// Reads mesh.order. Axes that it leaves out come first, that is, farthest apart.
static tt_status read_order(const char *text, int order[TT_N_AXES])
{
    bool is_there[TT_N_AXES] = {0};
    int named[TT_N_AXES], n_named = 0, n = 0;
    for (const char *p = text; *p != '\0';) {
        const size_t gap = strspn(p, " ,");
        const size_t word = strcspn(p + gap, " ,");
        const char *name = p + gap;
        p = name + word;
        if (word == 0)
            continue;
        char axis[32];
        snprintf(axis, sizeof axis, "%.*s", (int)(word < 31 ? word : 31), name);
        const int a = find_axis(axis, TT_N_AXES);
        if (a < 0)
            return unknown_axis("mesh.order", axis, TT_N_AXES);
        if (is_there[a])
            return tt_fail(TT_ERR_ARG, "mesh.order names %s twice",
                           tt_axis_name[a]);
        is_there[a] = true;
        named[n_named++] = a;
    }
    for (int a = 0; a < TT_N_AXES; a++)
        if (!is_there[a])
            order[n++] = a;
    for (int i = 0; i < n_named; i++)
        order[n++] = named[i];
    return TT_OK;
}

// With all_to_all attention, context splits the heads that tensor has already
// split. So tensor must come before context, unless the user gave an order.
static void swap_last(int order[TT_N_AXES])
{
    const int last = order[TT_N_AXES - 1];
    order[TT_N_AXES - 1] = order[TT_N_AXES - 2];
    order[TT_N_AXES - 2] = last;
}

// ---- the layout ----------------------------------------------------------

static tt_status check_cut(const tt_layout_rule *rule, int axis,
                           const int64_t size[TT_N_AXES])
{
    bool is_alone = true;
    for (int a = 0; a < TT_N_AXES; a++)
        is_alone = is_alone && size[a] == 1;
    // A rule along data is allowed on one rank: a configuration is for any number
    // of ranks. The batch is split along data in any case.
    if (size[axis] > 1 ||
        (axis == TT_AXIS_DATA && (is_alone || strcmp(rule->dim, "batch") == 0)))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "layout.%s%s%s=%s, but the mesh has no ranks along %s; set "
                   "mesh.%s, or leave it out",
                   rule->layers != NULL ? rule->layers : "",
                   rule->layers != NULL ? "." : "", rule->dim, rule->axis,
                   rule->axis, rule->axis);
}

// The rules of layout.rules. "none" is allowed for some layers only: it is an
// exception from a rule.
static tt_status add_written(const tt_distribution *distribution,
                             const int64_t size[TT_N_AXES], tt_arena *arena,
                             tt_layout *out)
{
    const tt_layout *written = &distribution->written;
    for (int32_t i = 0; i < written->n; i++) {
        const tt_layout_rule *r = &written->rule[i];
        const int axis = tt_axis_find(r->axis);
        const bool is_whole = strcmp(r->axis, "none") == 0;
        if (axis < 0 && !is_whole)
            return tt_axis_unknown("layout.rules", r->axis);
        if (is_whole && r->layers == NULL)
            return tt_fail(TT_ERR_ARG,
                           "layout.rules: %s:none is for some layers, like "
                           "h.0/%s:none; layout.%s=none is for all",
                           r->dim, r->dim, r->dim);
        if (axis >= 0)
            TT_TRY(check_cut(r, axis, size));
        TT_TRY(tt_layout_add(out, arena, r));
    }
    return TT_OK;
}

// Refuses layout.DIM=none beside a rule that splits DIM in all layers.
static tt_status check_whole(const tt_layout *written, const char *dim)
{
    for (int32_t i = 0; i < written->n; i++) {
        const tt_layout_rule *r = &written->rule[i];
        if (r->layers == NULL && strcmp(r->dim, dim) == 0)
            return tt_fail(TT_ERR_ARG,
                           "layout.%s=none and layout.rules=%s:%s contradict "
                           "each other; leave one of them out",
                           dim, dim, r->axis);
    }
    return TT_OK;
}

// The axis that splits a dimension; -1: none does.
static int axis_of(const tt_distribution *distribution, const tt_layout *usual,
                   int d)
{
    if (distribution->dim[d] != AUTO)
        return distribution->dim[d] - FIRST_AXIS;
    for (int32_t i = 0; i < usual->n; i++)
        if (strcmp(usual->rule[i].dim, dims[d].name) == 0)
            return tt_axis_find(usual->rule[i].axis);
    return dims[d].axis;
}

static void add_axis(tt_str *mesh, const char *name, int64_t size)
{
    if (size > 1)
        tt_str_addf(mesh, "%s%s:%lld", mesh->n > 0 ? " " : "", name,
                    (long long)size);
}

tt_status tt_grid_mesh(const tt_distribution *distribution, const tt_grid *grid,
                       int64_t data, tt_arena *arena, const char **mesh_out)
{
    return tt_grid_mesh_groups(distribution, grid, data, 1, arena, mesh_out);
}

tt_status tt_grid_mesh_groups(const tt_distribution *distribution,
                              const tt_grid *grid, int64_t data, int64_t group,
                              tt_arena *arena, const char **mesh_out)
{
    int order[TT_N_AXES] = {0};
    tt_str mesh = {0};
    TT_TRY(read_order(distribution->axes, order));
    if (distribution->attention == 1 &&
        strcmp(distribution->axes, TT_USUAL_ORDER) == 0)
        swap_last(order);
    for (int i = 0; i < TT_N_AXES; i++) {
        const int a = order[i];
        add_axis(&mesh, tt_axis_name[a],
                 a == TT_AXIS_DATA ? data : grid->size[a]);
        if (a == TT_AXIS_DATA)
            add_axis(&mesh, TT_GROUP, group);
    }
    *mesh_out = tt_str_keep(&mesh, arena);
    return *mesh_out != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status make_layout(const tt_distribution *distribution,
                             const tt_layout *usual,
                             const int64_t size[TT_N_AXES], tt_arena *arena,
                             tt_layout *out)
{
    TT_TRY(add_written(distribution, size, arena, out));
    for (int d = 0; d < TT_N_DIMS; d++) {
        if (distribution->dim[d] == WHOLE) {
            TT_TRY(check_whole(out, dims[d].name));
            continue;
        }
        const int axis = axis_of(distribution, usual, d);
        const tt_layout_rule rule = {
            .dim = dims[d].name, .axis = axis < 0 ? "" : tt_axis_name[axis]};
        if (distribution->dim[d] != AUTO)
            TT_TRY(check_cut(&rule, axis, size));
        if (axis >= 0 && size[axis] > 1)
            TT_TRY(tt_layout_add(out, arena, &rule));
        // Ranks along expert have different samples too: they exchange tokens, not
        // weights.
        const tt_layout_rule too = {.dim = rule.dim,
                                    .axis = tt_axis_name[TT_AXIS_EXPERT]};
        if (d == TT_DIM_batch && axis == TT_AXIS_DATA &&
            size[TT_AXIS_EXPERT] > 1)
            TT_TRY(tt_layout_add(out, arena, &too));
    }
    return TT_OK;
}

tt_axis tt_distribution_axis(const tt_distribution *distribution, int dim)
{
    return distribution->dim[dim] < FIRST_AXIS
               ? TT_AXIS_NONE
               : (tt_axis)(distribution->dim[dim] - FIRST_AXIS);
}

const char *tt_dim_name(int dim)
{
    return dims[dim].name;
}

bool tt_distribution_is_set(const tt_distribution *distribution,
                            const char *name)
{
    const tt_layout *written = &distribution->written;
    for (int d = 0; d < TT_N_DIMS; d++)
        if (strcmp(dims[d].name, name) == 0 && distribution->dim[d] != AUTO)
            return true;
    for (int32_t i = 0; i < written->n; i++)
        if (strcmp(written->rule[i].dim, name) == 0)
            return true;
    return false;
}

tt_status tt_grid_make(const tt_distribution *distribution, int32_t ranks,
                       const char *usual, tt_arena *arena, tt_grid *grid_out)
{
    tt_layout family = {0};
    int64_t size[TT_N_AXES];
    tt_str text = {0};
    TT_TRY(fill_axes(distribution, ranks, size));
    tt_grid grid = {.ranks = 1,
                    .is_open = ranks == 0 && !distribution->is_counted,
                    .data =
                        (int32_t)(size[TT_AXIS_DATA] * size[TT_AXIS_EXPERT])};
    memcpy(grid.size, size, sizeof size);
    for (int a = 0; a < TT_N_AXES; a++)
        grid.ranks *= (int32_t)size[a];
    TT_TRY(tt_grid_mesh(distribution, &grid, size[TT_AXIS_DATA], arena,
                        &grid.mesh));
    TT_TRY(tt_layout_parse(usual, "the model's", arena, &family));
    TT_TRY(make_layout(distribution, &family, size, arena, &grid.layout));
    tt_layout_print(&grid.layout, &text);
    grid.layout_text = tt_str_keep(&text, arena);
    *grid_out = grid;
    return grid.layout_text != NULL ? TT_OK : TT_ERR_NOMEM;
}

bool tt_grid_shares_layers(const tt_grid *grid)
{
    return grid->size[TT_AXIS_TENSOR] > 1 || grid->size[TT_AXIS_CONTEXT] > 1 ||
           grid->size[TT_AXIS_EXPERT] > 1 || grid->size[TT_AXIS_PIPE] > 1;
}
