// leaves - where layout and ZeRO put inputs, weights and state.

#include "pass/cut.h"

#include <string.h>

bool tt__layout_maps(const char *layout, const char *name, const char *axis)
{
    const size_t n = strlen(name), m = strlen(axis);
    for (const char *p = layout; p != NULL && *p != '\0'; p = strchr(p, ' ')) {
        while (*p == ' ' || *p == ',')
            p++;
        if (strncmp(p, name, n) == 0 && p[n] == ':' &&
            strncmp(p + n + 1, axis, m) == 0 &&
            (p[n + 1 + m] == '\0' || p[n + 1 + m] == ' ' ||
             p[n + 1 + m] == ','))
            return true;
    }
    return false;
}

static tt_status too_few(const tt__cut *c, const tt_value *value)
{
    const tt_factor *factor = &value->type.shape.factor[0];
    const long long n = factor->size;
    return tt_fail(TT_ERR_ARG,
                   "%s has a %s of %lld, too few for %d ranks; nearest: "
                   "%s %d, or %lld rank%s",
                   value->name, factor->name, n, c->size, factor->name, c->size,
                   n, n == 1 ? "" : "s");
}

// Tokens and labels weigh nothing next to what is computed from them: where they
// meet split weights (vocabulary-parallel embedding and loss) every rank has all.
static bool is_whole(const tt__cut *c, const tt_value *value, int f)
{
    return value->role == TT_ROLE_INPUT && f > 0 &&
           !tt_dtype_is_float(value->type.dtype) && c->cuts_weights;
}

// By the layout. Optimiser state and work copies have the shape of their weight,
// so they follow it. What is too small is everywhere; but too few samples would
// leave ranks without work.
static tt_status by_layout(const tt__cut *c, const tt_value *value,
                           tt_place *place_out)
{
    const char *axis = c->b.graph->mesh.axis[c->axis].name;
    const tt_shape *shape = &value->type.shape;
    *place_out = tt_place_replicate();
    for (int f = 0; f < shape->n_factors; f++) {
        if (!tt__layout_maps(c->layout, shape->factor[f].name, axis) ||
            is_whole(c, value, f))
            continue;
        if (tt_can_split(&value->type, f, c->size)) {
            *place_out = tt_place_split(f);
            return TT_OK;
        }
        if (value->role == TT_ROLE_INPUT && f == 0)
            return too_few(c, value);
    }
    return TT_OK;
}

// Whether ZeRO keeps a state in parts, not only what is computed from it.
static bool is_kept_split(const tt__cut *c, int32_t old)
{
    const tt_graph *g = c->old;
    if (c->shard[old] < 0)
        return false;
    if (g->value[old].role == TT_ROLE_OPTIM || c->is_held[old])
        return true;
    // A master that only the update reads.
    for (int32_t v = 0; v < g->n_values && g->value[old].role == TT_ROLE_PARAM;
         v++)
        if (g->value[v].role == TT_ROLE_WORK && g->value[v].init.of.id == old)
            return true;
    return false;
}

tt_status tt__leaf_place(const tt__cut *c, int32_t old, tt_place *place_out)
{
    TT_TRY(by_layout(c, &c->old->value[old], place_out));
    if (place_out->kind == TT_REPLICATE && is_kept_split(c, old))
        *place_out = tt_place_split(c->shard[old]);
    return TT_OK;
}
