// graph - creation, look-up and small questions.

#include "graph/graph.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <string.h>

bool tt_role_is_state(tt_role role)
{
    return role >= TT_ROLE_PARAM && role < TT_N_ROLES;
}

bool tt_role_is_update(tt_role role)
{
    return role == TT_ROLE_OPTIM || role == TT_ROLE_EMA;
}

const char *tt_phase_name(tt_phase phase)
{
    static const char *const name[TT_N_PHASES] = {
        "forward", "backward", "weight_grad", "update",
        "agree",   "land",     "meet",        "spread"};
    return name[phase];
}

tt_graph *tt_graph_create(void)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return NULL;
    tt_graph *g = tt_arena_alloc(arena, sizeof *g);
    if (g == NULL)
        tt_arena_destroy(arena);
    else
        g->arena = arena;
    return g;
}

void tt_graph_destroy(tt_graph *g)
{
    if (g != NULL)
        tt_arena_destroy(g->arena); // g itself lives there
}

// The slot of a name, or the free one where it belongs.
static int32_t *find_slot(const tt_graph *g, const char *name)
{
    const uint64_t mask = (uint64_t)g->n_name_slots - 1;
    uint64_t i = tt_hash(name, (int64_t)strlen(name)) & mask;
    while (g->name_slot[i] != 0 &&
           strcmp(g->value[g->name_slot[i] - 1].name, name) != 0)
        i = (i + 1) & mask;
    return &g->name_slot[i];
}

tt_status tt__graph_index(tt_graph *g)
{
    int32_t first = g->n_values - 1;
    if (2 * g->n_values > g->n_name_slots) { // the old table stays in the arena
        const int32_t n = g->n_name_slots == 0 ? 256 : 4 * g->n_name_slots;
        int32_t *bigger = tt_arena_alloc(g->arena, n * (int64_t)sizeof *bigger);
        if (bigger == NULL)
            return TT_ERR_NOMEM;
        g->name_slot = bigger;
        g->n_name_slots = n;
        first = 0;
    }
    for (int32_t v = first; v < g->n_values; v++) {
        int32_t *slot = find_slot(g, g->value[v].name);
        if (*slot == 0)
            *slot = v + 1;
    }
    return TT_OK;
}

tt_val tt_graph_find(const tt_graph *g, const char *name)
{
    return g->n_values == 0 ? TT_NONE : (tt_val){*find_slot(g, name) - 1};
}

tt_val tt_graph_output_find(const tt_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->output[i].name, name) == 0)
            return g->output[i].val;
    return TT_NONE;
}

void tt_node_io(const tt_graph *g, const tt_node *node, tt_type *in,
                tt_type *out, tt_op_io *io)
{
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]))
            in[i] = g->value[node->in[i].id].type;
        else
            in[i] = (tt_type){.dtype = TT_N_DTYPES};
    for (int i = 0; i < node->n_out; i++)
        out[i] = g->value[node->out[i].id].type;
    *io = (tt_op_io){.params = node->params,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = in,
                     .out = out,
                     .op = node->op,
                     .mesh = &g->mesh};
}
