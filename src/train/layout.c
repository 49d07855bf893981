// layout - the dimensions of a graph against those of a layout.

#include "train/layout.h"

#include <string.h>

// The longest factor of this name; 0: the graph has none.
static int64_t extent_of(const tt_graph *g, const char *name)
{
    int64_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_shape *shape = &g->value[v].type.shape;
        const int f = tt_shape_find(shape, name);
        if (f >= 0 && shape->factor[f].size > n)
            n = shape->factor[f].size;
    }
    return n;
}

static int axis_of(const char *name)
{
    for (int a = 0; a < TT_N_AXES; a++)
        if (strcmp(tt_axis_name[a], name) == 0)
            return a;
    return -1;
}

enum { MOST_NAMES = 64 };

// The names of the dimensions of weights and inputs.
static int list_names(const tt_graph *g, const char *names[MOST_NAMES])
{
    int n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_shape *shape = &g->value[v].type.shape;
        for (int f = 0; f < shape->n_factors && n < MOST_NAMES; f++) {
            bool is_new = g->value[v].node < 0;
            for (int i = 0; i < n && is_new; i++)
                is_new = strcmp(names[i], shape->factor[f].name) != 0;
            if (is_new)
                names[n++] = shape->factor[f].name;
        }
    }
    return n;
}

static tt_status fail_unknown(const tt_graph *g, const char *model,
                              const char *name)
{
    const char *names[MOST_NAMES] = {NULL};
    const int n = list_names(g, names);
    const char *near = tt_nearest(name, names, n);
    tt_str all = {0};
    for (int i = 0; i < n; i++)
        tt_str_addf(&all, "%s%s", i > 0 ? " " : "", names[i]);
    const tt_status status =
        near != NULL
            ? tt_fail(TT_ERR_ARG,
                      "layout: %s has no dimension called %s; did you mean %s?",
                      model, name, near)
            : tt_fail(TT_ERR_ARG,
                      "layout: %s has no dimension called %s; it has %s", model,
                      name, tt_str_text(&all));
    tt_str_fini(&all);
    return status;
}

// A dimension that somebody named; those that axes bring along may be missing.
static bool is_asked_for(const tt_where *where, const char *name)
{
    const size_t n = strlen(name);
    const char *p = where->rules;
    for (; (p = strstr(p, name)) != NULL; p += n)
        if ((p == where->rules || p[-1] == ' ' || p[-1] == ',') && p[n] == ':')
            return true;
    return tt_where_is_set(where, name);
}

static tt_status too_short(const char *model, const char *name, int64_t extent,
                           const char *axis, int64_t size)
{
    return tt_fail(TT_ERR_ARG,
                   "mesh.%s=%lld is more than %s has of %s, which is %lld; "
                   "mesh.%s=%lld would do, or layout.%s=none",
                   axis, (long long)size, model, name, (long long)extent, axis,
                   (long long)extent, name);
}

static tt_status check_rule(const tt_where *where, const tt_graph *g,
                            const char *model, const char *name,
                            const char *axis, int64_t size)
{
    const int64_t extent = extent_of(g, name);
    const bool is_asked = is_asked_for(where, name);
    if (extent == 0 && is_asked)
        return fail_unknown(g, model, name);
    // Keys and values that are fewer than ranks are held by several.
    if (extent > 0 && extent < size &&
        (is_asked || strcmp(name, "kv_heads") != 0))
        return too_short(model, name, extent, axis, size);
    return TT_OK;
}

// Ranks along an axis that cuts nothing would all do the same.
static tt_status check_axes(const tt_grid *grid, const bool is_used[TT_N_AXES],
                            const char *model)
{
    for (int a = 0; a < TT_N_AXES; a++)
        if (grid->size[a] > 1 && !is_used[a] && a != TT_AXIS_DATA)
            return tt_fail(TT_ERR_ARG,
                           "mesh.%s=%lld: %s has no dimension that the layout "
                           "gives to %s; leave the axis out, or set layout.*",
                           tt_axis_name[a], (long long)grid->size[a], model,
                           tt_axis_name[a]);
    return TT_OK;
}

tt_status tt_layout_check(const tt_where *where, const tt_grid *grid,
                          const tt_graph *graph, const char *model)
{
    bool is_used[TT_N_AXES] = {0};
    for (const char *p = grid->layout; *p != '\0';) {
        char name[TT_NAME_BYTES] = "", axis[TT_NAME_BYTES] = "";
        p += strspn(p, " ");
        const size_t n = strcspn(p, ":"), m = strcspn(p + n + 1, " ");
        if (n < sizeof name && m < sizeof axis) {
            memcpy(name, p, n);
            memcpy(axis, p + n + 1, m);
        }
        p += n + 1 + m;
        const int a = axis_of(axis);
        if (a < 0 || a == TT_AXIS_DATA) // samples have a message of their own
            continue;
        TT_TRY(check_rule(where, graph, model, name, axis, grid->size[a]));
        is_used[a] = is_used[a] ||
                     (strcmp(name, "batch") != 0 && extent_of(graph, name) > 0);
    }
    return check_axes(grid, is_used, model);
}
