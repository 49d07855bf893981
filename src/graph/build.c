// build - appends leaves and nodes to a graph.

#include "graph/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double most_state = 0x1p45;

tt_status tt_builder_init(tt_builder *b, const tt_grad_ops *ops)
{
    *b = (tt_builder){.dtype = TT_F32,
                      .master = TT_F32,
                      .is_training = true,
                      .ops = ops,
                      .graph = tt_graph_create()};
    if (b->graph == NULL)
        b->status = tt_fail(TT_ERR_NOMEM, "no memory for a graph");
    return b->status;
}

void tt_builder_fini(tt_builder *b)
{
    tt_graph_destroy(b->graph);
    b->graph = NULL;
}

tt_status tt_builder_take(tt_builder *b, tt_graph **graph_out)
{
    TT_TRY(b->status);
    TT_TRY(tt_graph_verify(b->graph));
    *graph_out = b->graph;
    b->graph = NULL;
    return TT_OK;
}

tt_status tt_builder_status(const tt_builder *b)
{
    return b->status;
}

tt_val tt_builder_fail(tt_builder *b, tt_status status)
{
    if (b->status == TT_OK)
        b->status = status;
    return TT_NONE;
}

int tt_scope_push(tt_builder *b, const char *fmt, ...)
{
    const int length = (int)strlen(b->scope);
    char *end = b->scope + length;
    const size_t room = TT_SCOPE_BYTES - (size_t)length;
    int n = 0;
    if (length > 0 && room > 1) {
        *end++ = '.';
        n = 1;
    }
    va_list list;
    va_start(list, fmt);
    const int added = vsnprintf(end, room - (size_t)n, fmt, list);
    va_end(list);
    if (added < 0 || (size_t)(added + n) >= room)
        tt_builder_fail(
            b, tt_fail(TT_ERR_ARG, "names nest too deeply at %s", b->scope));
    return length;
}

void tt_scope_pop(tt_builder *b, int length)
{
    b->scope[length] = '\0';
}

const tt_type *tt_type_of(const tt_builder *b, tt_val v)
{
    static const tt_type scalar = {.dtype = TT_F32};
    return tt_is(v) ? &b->graph->value[v.id].type : &scalar;
}

int64_t tt_dim_of(const tt_builder *b, tt_val v, int d)
{
    const tt_shape *shape = &tt_type_of(b, v)->shape;
    return d < shape->ndim ? tt_shape_dim(shape, d) : 1;
}

// Doubles an array of the graph; the old one stays in the arena.
static void *grow(tt_builder *b, const void *old, int32_t n, int32_t *capacity,
                  int64_t bytes)
{
    const int32_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    void *bigger = tt_arena_alloc(b->graph->arena, wanted * bytes);
    if (bigger == NULL) {
        tt_builder_fail(b, TT_ERR_NOMEM);
        return NULL;
    }
    if (n > 0)
        memcpy(bigger, old, (size_t)(n * bytes));
    *capacity = wanted;
    return bigger;
}

static tt_val add_value(tt_builder *b, const char *name, const tt_type *type,
                        tt_role role)
{
    tt_graph *g = b->graph;
    if (b->status != TT_OK)
        return TT_NONE;
    if (g->n_values == g->values_capacity) {
        tt_value *bigger =
            grow(b, g->value, g->n_values, &g->values_capacity, sizeof *bigger);
        if (bigger == NULL)
            return TT_NONE;
        g->value = bigger;
    }
    g->value[g->n_values] = (tt_value){.name = name,
                                       .type = *type,
                                       .role = role,
                                       .init = {.of = TT_NONE},
                                       .node = -1,
                                       .slot = -1,
                                       .updates = TT_NONE,
                                       .grad = TT_NONE};
    const tt_val v = {g->n_values++};
    const tt_status status = tt__graph_index(g);
    return status == TT_OK ? v : tt_builder_fail(b, status);
}

static const char *full_name(tt_builder *b, const char *name)
{
    const char *text =
        b->scope[0] == '\0'
            ? tt_arena_strdup(b->graph->arena, name)
            : tt_arena_printf(b->graph->arena, "%s.%s", b->scope, name);
    if (text == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM);
    return text;
}

static tt_val add_leaf(tt_builder *b, const char *full, const tt_type *type,
                       tt_role role)
{
    if (b->status != TT_OK || full == NULL)
        return TT_NONE;
    const tt_status status = tt_shape_check(&type->shape);
    if (status != TT_OK)
        return tt_builder_fail(b, tt_fail_context(status, "%s", full));
    if (tt_is(tt_graph_find(b->graph, full)))
        return tt_builder_fail(
            b, tt_fail(TT_ERR_ARG, "the name %s is used twice", full));
    return add_value(b, full, type, role);
}

tt_val tt_input(tt_builder *b, const char *name, tt_dtype dtype,
                const char *shape)
{
    tt_type type = {.dtype = dtype};
    if (b->status != TT_OK)
        return TT_NONE;
    const tt_status status = tt_shape_parse(shape, &type.shape);
    if (status != TT_OK)
        return tt_builder_fail(b, tt_fail_context(status, "input %s", name));
    return add_leaf(b, full_name(b, name), &type, TT_ROLE_INPUT);
}

tt_val tt_scalar(tt_builder *b, const char *name, tt_dtype dtype)
{
    if (b->status != TT_OK)
        return TT_NONE;
    const tt_val found = tt_graph_find(b->graph, name);
    if (tt_is(found))
        return found;
    const tt_type type = {.dtype = dtype};
    const char *copy = tt_arena_strdup(b->graph->arena, name);
    if (copy == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    return add_leaf(b, copy, &type, TT_ROLE_SCALAR);
}

tt_val tt_state(tt_builder *b, tt_role role, const char *name, tt_dtype dtype,
                const tt_shape *shape, tt_init init)
{
    if (b->status != TT_OK)
        return TT_NONE;
    const tt_type type = {.dtype = dtype, .shape = *shape};
    const tt_val v = add_leaf(b, full_name(b, name), &type, role);
    if (!tt_is(v))
        return v;
    b->graph->value[v.id].init = init;
    b->state_elements += (double)tt_shape_count(shape);
    if (b->state_elements >
        most_state) // found early: describing takes time too
        return tt_builder_fail(
            b, tt_fail(TT_ERR_NOMEM,
                       "with %s the model has %.0f numbers: no machine holds "
                       "that",
                       b->graph->value[v.id].name, b->state_elements));
    return v;
}

static tt_val add_param(tt_builder *b, const char *name, tt_init init,
                        const tt_shape *shape)
{
    const bool is_low = b->dtype != b->master && shape->ndim >= 2;
    const bool is_single = b->reads_only || b->no_masters;
    const tt_dtype dtype = is_low && is_single ? b->dtype : b->master;
    tt_val source = tt_state(b, TT_ROLE_PARAM, name, dtype, shape, init);
    if (tt_is(source) && is_low && !is_single) {
        char work[TT_SCOPE_BYTES];
        snprintf(work, sizeof work, "%s.work", name);
        source = tt_state(b, TT_ROLE_WORK, work, b->dtype, shape,
                          (tt_init){.kind = TT_INIT_COPY, .of = source});
    }
    return tt_call(b, b->ops->fetch, NULL, &source, 1, NULL);
}

tt_val tt_param(tt_builder *b, const char *name, tt_init init,
                const char *shape, ...)
{
    char text[TT_SCOPE_BYTES];
    tt_shape parsed;
    if (b->status != TT_OK)
        return TT_NONE;
    va_list list;
    va_start(list, shape);
    vsnprintf(text, sizeof text, shape, list);
    va_end(list);
    const tt_status status = tt_shape_parse(text, &parsed);
    if (status != TT_OK)
        return tt_builder_fail(
            b, tt_fail_context(status, "parameter %s.%s", b->scope, name));
    return add_param(b, name, init, &parsed);
}

static const void *copy_params(tt_builder *b, const tt_op_def *op,
                               const void *params)
{
    if (op->options == NULL)
        return NULL;
    void *copy = tt_arena_alloc(b->graph->arena, op->params_bytes);
    if (copy == NULL) {
        tt_builder_fail(b, TT_ERR_NOMEM);
        return NULL;
    }
    if (params != NULL)
        memcpy(copy, params, (size_t)op->params_bytes);
    else if (tt_opt_defaults(op->options, copy, b->graph->arena) != TT_OK)
        tt_builder_fail(b, TT_ERR_NOMEM);
    // Strings are borrowed from the caller: keep them in the graph.
    for (const tt_opt *o = op->options; params != NULL && o->name; o++)
        if (o->type == TT_OPT_STR) {
            const char **text =
                (const char **)(void *)((char *)copy + o->offset);
            *text = tt_arena_strdup(b->graph->arena, *text ? *text : "");
            if (*text == NULL)
                tt_builder_fail(b, TT_ERR_NOMEM);
        }
    return copy;
}

static const char *node_origin(tt_builder *b)
{
    if (b->origin != NULL)
        return b->origin;
    const tt_graph *g = b->graph;
    // Neighbours usually share a scope: keep one copy.
    if (g->n_nodes > 0 && strcmp(g->node[g->n_nodes - 1].origin, b->scope) == 0)
        return g->node[g->n_nodes - 1].origin;
    const char *origin = tt_arena_strdup(b->graph->arena, b->scope);
    if (origin == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM);
    return origin;
}

static tt_status infer(tt_builder *b, tt_node *node, tt_type *out)
{
    tt_type few[8];
    tt_type *in = few;
    if (node->n_in > 8)
        in = tt_arena_alloc(b->graph->arena, (int64_t)sizeof *in * node->n_in);
    if (in == NULL)
        return TT_ERR_NOMEM;
    tt_op_io io;
    node->n_out = 0;
    tt_node_io(b->graph, node, in, out, &io);
    const tt_status status = node->op->infer(&io);
    node->n_out = io.n_out;
    return status;
}

static tt_status add_outputs(tt_builder *b, tt_node *node, const tt_type *type,
                             int32_t node_id)
{
    tt_val *out =
        tt_arena_alloc(b->graph->arena, (int64_t)sizeof *out * node->n_out);
    if (out == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < node->n_out; i++) {
        const char *name =
            tt_arena_printf(b->graph->arena, "v%d", b->graph->n_values);
        if (name == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(tt_shape_check(&type[i].shape));
        out[i] = add_value(b, name, &type[i], TT_ROLE_NODE);
        TT_TRY(b->status);
        b->graph->value[out[i].id].node = node_id;
        b->graph->value[out[i].id].slot = i;
    }
    node->out = out;
    return TT_OK;
}

static tt_status append(tt_builder *b, tt_node *node)
{
    tt_graph *g = b->graph;
    tt_type type[TT_MAX_OUT] = {0};
    TT_TRY(infer(b, node, type));
    TT_TRY(add_outputs(b, node, type, g->n_nodes));
    if (g->n_nodes == g->nodes_capacity) {
        tt_node *bigger =
            grow(b, g->node, g->n_nodes, &g->nodes_capacity, sizeof *bigger);
        if (bigger == NULL)
            return TT_ERR_NOMEM;
        g->node = bigger;
    }
    g->node[g->n_nodes++] = *node;
    return TT_OK;
}

tt_val tt_call(tt_builder *b, const tt_op_def *op, const void *params,
               const tt_val *in, int n_in, tt_val *out)
{
    for (int i = 0; out != NULL && i < TT_MAX_OUT; i++)
        out[i] = TT_NONE;
    if (b->status != TT_OK)
        return TT_NONE;
    tt_node node = {
        .op = op,
        .params = copy_params(b, op, params),
        .origin = node_origin(b),
        .phase = b->phase,
        .stage = b->stage,
        .n_in = n_in,
        .in = tt_arena_copy(b->graph->arena, in, (int64_t)sizeof *in * n_in)};
    if (node.in == NULL || b->status != TT_OK)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_status status = append(b, &node);
    if (status != TT_OK)
        return tt_builder_fail(
            b, b->scope[0] == '\0' ? status
                                   : tt_fail_context(status, "%s", b->scope));
    for (int i = 0; out != NULL && i < node.n_out; i++)
        out[i] = node.out[i];
    return node.out[0];
}

static tt_status parse_options(tt_builder *b, const tt_op_def *op,
                               const char *text, void **params_out)
{
    tt_arena *arena = b->graph->arena;
    void *params = tt_arena_alloc(arena, op->params_bytes);
    if (params == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_defaults(op->options, params, arena));
    TT_TRY(tt_opt_parse(op->options, params, text, arena));
    *params_out = params;
    return TT_OK;
}

tt_val tt_callf(tt_builder *b, const tt_op_def *op, const tt_val *in, int n_in,
                const char *options, ...)
{
    char text[TT_SCOPE_BYTES];
    void *params = NULL;
    va_list list;
    va_start(list, options);
    vsnprintf(text, sizeof text, options, list);
    va_end(list);
    if (b->status == TT_OK && op->options != NULL) {
        const tt_status status = parse_options(b, op, text, &params);
        if (status != TT_OK)
            tt_builder_fail(b, tt_fail_context(status, "%s", op->name));
    }
    return tt_call(b, op, params, in, n_in, NULL);
}

void tt_outputs_of(const tt_builder *b, tt_val v, tt_val *out)
{
    for (int i = 0; i < TT_MAX_OUT; i++)
        out[i] = TT_NONE;
    if (!tt_is(v) || b->graph->value[v.id].node < 0)
        return;
    const tt_node *node = &b->graph->node[b->graph->value[v.id].node];
    for (int i = 0; i < node->n_out; i++)
        out[i] = node->out[i];
}

void tt_update(tt_builder *b, tt_val state, tt_val v)
{
    if (b->status == TT_OK && tt_is(state) && tt_is(v))
        b->graph->value[v.id].updates = state;
}

void tt_output(tt_builder *b, const char *name, tt_val v)
{
    tt_graph *g = b->graph;
    if (b->status != TT_OK || !tt_is(v))
        return;
    if (g->n_outputs == g->outputs_capacity) {
        tt_graph_output *bigger = grow(b, g->output, g->n_outputs,
                                       &g->outputs_capacity, sizeof *bigger);
        if (bigger == NULL)
            return;
        g->output = bigger;
    }
    const char *copy = tt_arena_strdup(g->arena, name);
    if (copy == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM);
    else
        g->output[g->n_outputs++] = (tt_graph_output){copy, v};
}

void tt_place_set(tt_builder *b, tt_val v, int axis, tt_place place)
{
    if (b->status == TT_OK && tt_is(v))
        b->graph->value[v.id].type.place[axis] = place;
}

tt_val tt_leaf_copy(tt_builder *b, const tt_graph *from, tt_val v)
{
    const tt_value *value = &from->value[v.id];
    if (b->status != TT_OK)
        return TT_NONE;
    const char *name = tt_arena_strdup(b->graph->arena, value->name);
    if (name == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_val copy = add_leaf(b, name, &value->type, value->role);
    if (tt_is(copy))
        b->graph->value[copy.id].init = value->init;
    return copy;
}
