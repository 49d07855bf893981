// grid - from mesh.* and layout.* to what the partition pass wants to hear.

#include "train/where.h"

#include <stdio.h>
#include <string.h>

const char *const tt_axis_name[TT_N_AXES] = {
    [TT_AXIS_DATA] = "data",     [TT_AXIS_EXPERT] = "expert",
    [TT_AXIS_SPACE] = "space",   [TT_AXIS_CONTEXT] = "context",
    [TT_AXIS_TENSOR] = "tensor",
};

enum { AUTO, NONE, FIRST_AXIS };
enum { BATCH }; // in dims

// Dimensions that models have, and the axis that cuts each unless it is said.
static const struct {
    const char *name;
    int axis; // TT_N_AXES: none
} dims[] = {
    {"batch", TT_AXIS_DATA},      {"heads", TT_AXIS_TENSOR},
    {"kv_heads", TT_AXIS_TENSOR}, {"ff", TT_AXIS_TENSOR},
    {"vocab", TT_AXIS_TENSOR},    {"hidden", TT_AXIS_TENSOR},
    {"seq", TT_AXIS_CONTEXT},     {"height", TT_AXIS_SPACE},
    {"width", TT_N_AXES},         {"filters", TT_N_AXES},
    {"channels", TT_N_AXES},      {"embed", TT_N_AXES},
    {"classes", TT_N_AXES},       {"experts", TT_AXIS_EXPERT},
};

enum { N_DIMS = sizeof(dims) / sizeof(dims[0]) };

bool tt_where_is_set(const tt_where *where, const char *name)
{
    for (int d = 0; d < N_DIMS; d++)
        if (strcmp(dims[d].name, name) == 0)
            return where->dim[d] != AUTO;
    return false;
}

// ---- how many ranks along each axis --------------------------------------

static int64_t largest_divisor(int64_t n, int64_t below)
{
    int64_t d = below < n ? below : n;
    while (d > 1 && n % d != 0)
        d--;
    return d > 0 ? d : 1;
}

static tt_status does_not_divide(const tt_where *where, int32_t ranks,
                                 int64_t others)
{
    int largest = TT_AXIS_EXPERT;
    for (int a = TT_AXIS_EXPERT; a < TT_N_AXES; a++)
        if (where->axis[a] > where->axis[largest])
            largest = a;
    const int64_t rest = others / where->axis[largest];
    const int64_t up = (ranks + others - 1) / others * others;
    return tt_fail(TT_ERR_ARG,
                   "a mesh of %lld ranks besides data does not fit %d ranks; "
                   "mesh.%s=%lld or %lld ranks would do",
                   (long long)others, ranks, tt_axis_name[largest],
                   (long long)largest_divisor(ranks / (rest > 0 ? rest : 1),
                                              where->axis[largest]),
                   (long long)up);
}

static tt_status fill_axes(const tt_where *where, int32_t ranks,
                           int64_t size[TT_N_AXES])
{
    int64_t others = 1;
    for (int a = 0; a < TT_N_AXES; a++) {
        size[a] = where->axis[a] > 0 ? where->axis[a] : 1;
        others *= a == TT_AXIS_DATA ? 1 : size[a];
    }
    if (others > 65536 || size[TT_AXIS_DATA] * others > 65536)
        return tt_fail(TT_ERR_ARG, "a mesh has at most 65536 ranks");
    if (ranks == 0)
        return TT_OK;
    if (where->axis[TT_AXIS_DATA] == 0) {
        if (ranks % others != 0)
            return does_not_divide(where, ranks, others);
        size[TT_AXIS_DATA] = ranks / others;
    }
    const int64_t product = size[TT_AXIS_DATA] * others;
    if (product != ranks)
        return tt_fail(TT_ERR_ARG,
                       "the mesh has %lld ranks and there %s %d; start %lld "
                       "(-n %lld) or leave mesh.data out",
                       (long long)product, ranks == 1 ? "is" : "are", ranks,
                       (long long)product, (long long)product);
    return TT_OK;
}

// ---- the mesh ------------------------------------------------------------

static int find_axis(const char *name, size_t n)
{
    for (int a = 0; a < TT_N_AXES; a++)
        if (strlen(tt_axis_name[a]) == n &&
            strncmp(tt_axis_name[a], name, n) == 0)
            return a;
    return -1;
}

static tt_status unknown_axis(const char *key, const char *name, size_t n)
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)(n < 31 ? n : 31), name);
    const char *near = tt_nearest(word, tt_axis_name, TT_N_AXES);
    return tt_fail(TT_ERR_ARG,
                   "%s: there is no axis \"%s\"; %s%s%s are data expert space "
                   "context tensor",
                   key, word, near != NULL ? "did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "? They" : "they");
}

// The axes in their order; one that mesh.order leaves out comes first.
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
        const int a = find_axis(name, word);
        if (a < 0)
            return unknown_axis("mesh.order", name, word);
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

// ---- the layout ----------------------------------------------------------

static void add_rule(tt_str *out, const char *dim, const char *axis)
{
    tt_str_addf(out, "%s%s:%s", out->n > 0 ? " " : "", dim, axis);
}

static tt_status check_cut(const char *dim, int axis,
                           const int64_t size[TT_N_AXES])
{
    if (size[axis] > 1 || axis == TT_AXIS_DATA)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "layout.%s=%s, but the mesh has no ranks along %s; set "
                   "mesh.%s, or leave it out",
                   dim, tt_axis_name[axis], tt_axis_name[axis],
                   tt_axis_name[axis]);
}

static tt_status add_rules(const char *text, const int64_t size[TT_N_AXES],
                           tt_str *out)
{
    for (const char *p = text; *p != '\0';) {
        const char *name = p + strspn(p, " ,");
        const size_t n = strcspn(name, ": ,");
        const char *axis = name + n + (name[n] == ':');
        const size_t m = strcspn(axis, " ,");
        p = axis + m;
        if (n == 0 && m == 0)
            continue;
        if (n == 0 || n >= 32 || name[n] != ':' || m == 0)
            return tt_fail(TT_ERR_ARG,
                           "layout.rules \"%s\" is not like heads:tensor "
                           "seq:context",
                           text);
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)n, name);
        const int a = find_axis(axis, m);
        if (a < 0)
            return unknown_axis("layout.rules", axis, m);
        TT_TRY(check_cut(word, a, size));
        add_rule(out, word, tt_axis_name[a]);
    }
    return TT_OK;
}

static tt_status make_layout(const tt_where *where,
                             const int64_t size[TT_N_AXES], tt_str *out)
{
    TT_TRY(add_rules(where->rules, size, out));
    for (int d = 0; d < N_DIMS; d++) {
        if (where->dim[d] == NONE)
            continue;
        const int axis =
            where->dim[d] == AUTO ? dims[d].axis : where->dim[d] - FIRST_AXIS;
        if (where->dim[d] != AUTO)
            TT_TRY(check_cut(dims[d].name, axis, size));
        if (axis < TT_N_AXES && size[axis] > 1)
            add_rule(out, dims[d].name, tt_axis_name[axis]);
        // Ranks with different experts have different samples too, and exchange
        // tokens.
        if (d == BATCH && axis == TT_AXIS_DATA && size[TT_AXIS_EXPERT] > 1)
            add_rule(out, dims[d].name, tt_axis_name[TT_AXIS_EXPERT]);
    }
    return tt_str_status(out);
}

tt_status tt_where_mesh(const tt_where *where, const tt_grid *grid,
                        int64_t data, tt_arena *arena, const char **mesh_out)
{
    int order[TT_N_AXES] = {0};
    tt_str mesh = {0};
    TT_TRY(read_order(where->axes, order));
    for (int i = 0; i < TT_N_AXES; i++) {
        const int a = order[i];
        const int64_t size = a == TT_AXIS_DATA ? data : grid->size[a];
        if (size > 1)
            tt_str_addf(&mesh, "%s%s:%lld", mesh.n > 0 ? " " : "",
                        tt_axis_name[a], (long long)size);
    }
    tt_status status = tt_str_status(&mesh);
    if (status == TT_OK) {
        *mesh_out = tt_arena_strdup(arena, tt_str_text(&mesh));
        status = *mesh_out == NULL ? TT_ERR_NOMEM : TT_OK;
    }
    tt_str_fini(&mesh);
    return status;
}

tt_status tt_where_grid(const tt_where *where, int32_t ranks, tt_arena *arena,
                        tt_grid *grid_out)
{
    int64_t size[TT_N_AXES];
    tt_str layout = {0};
    TT_TRY(fill_axes(where, ranks, size));
    tt_grid grid = {.ranks = 1,
                    .data =
                        (int32_t)(size[TT_AXIS_DATA] * size[TT_AXIS_EXPERT])};
    memcpy(grid.size, size, sizeof size);
    for (int i = 0; i < TT_N_AXES; i++)
        grid.ranks *= (int32_t)size[i];
    TT_TRY(tt_where_mesh(where, &grid, size[TT_AXIS_DATA], arena, &grid.mesh));
    tt_status status = make_layout(where, size, &layout);
    if (status == TT_OK) {
        grid.layout = tt_arena_strdup(arena, tt_str_text(&layout));
        if (grid.layout == NULL)
            status = TT_ERR_NOMEM;
    }
    tt_str_fini(&layout);
    *grid_out = grid;
    return status;
}
