// port_onnx - an image model as one ONNX file: the inference graph, node by node,
// from pixels to logits. The batch dimension is left open.
//
// Only nodes that the logits depend on are written; loss and labels are not. Each
// operator has a function that emits one or more ONNX nodes (port_onnx_ops.c), so a
// new operator needs one function and one line in its table.

#include "port/port_onnx.h"

#include "port/port.h"

#include <string.h>

// ---- names ---------------------------------------------------------------

const char *tt_port_onnx_fresh(tt_port_onnx_work *w)
{
    return tt_arena_printf(w->o.arena, "t%d", w->n_fresh++);
}

const char *tt_port_onnx_in(const tt_port_onnx_work *w, const tt_node *node,
                            int i)
{
    return i < node->n_in && tt_is(node->in[i]) ? w->name[node->in[i].id]
                                                : NULL;
}

const char *tt_port_onnx_out(const tt_port_onnx_work *w, const tt_node *node)
{
    return w->name[node->out[0].id];
}

void tt_port_onnx_emit(tt_port_onnx_work *w, const char *type, const char *a,
                       const char *b, const char *out, tt_str *attributes)
{
    const char *in[] = {a, b, NULL};
    tt_onnx_node(&w->o, type, in, &out, 1, attributes);
}

static tt_status name_values(tt_port_onnx_work *w, tt_val logits)
{
    const tt_graph *g = w->graph;
    w->name =
        tt_arena_alloc(w->o.arena, g->n_values * (int64_t)sizeof *w->name);
    if (w->name == NULL)
        return TT_ERR_NOMEM;
    for (int32_t v = 0; v < g->n_values; v++) {
        const bool is_leaf = g->value[v].node < 0;
        w->name[v] = v == logits.id ? "logits"
                     : is_leaf      ? g->value[v].name
                                    : tt_arena_printf(w->o.arena, "v%d", v);
        if (w->name[v] == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

// ---- nodes ---------------------------------------------------------------

// Marks the nodes that the logits depend on.
static void mark_needed(const tt_graph *g, tt_val logits, bool *is_needed)
{
    is_needed[g->value[logits.id].node] = true;
    for (int32_t n = g->n_nodes - 1; n >= 0; n--)
        for (int i = 0; is_needed[n] && i < g->node[n].n_in; i++)
            if (tt_is(g->node[n].in[i]) &&
                g->value[g->node[n].in[i].id].node >= 0)
                is_needed[g->value[g->node[n].in[i].id].node] = true;
}

static tt_status emit_nodes(tt_port_onnx_work *w, const bool *is_needed)
{
    for (int32_t n = 0; n < w->graph->n_nodes; n++) {
        const tt_node *node = &w->graph->node[n];
        if (!is_needed[n])
            continue;
        tt_port_onnx_emit_fn *emit = tt_port_onnx_emit_of(node->op->name);
        if (emit == NULL)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: the operator %s cannot be exported to ONNX; "
                           "image models can",
                           node->origin, node->op->name);
        TT_TRY(emit(w, node));
    }
    return TT_OK;
}

// ---- the ends ------------------------------------------------------------

static tt_status add_weights(tt_port_onnx_work *w, const tt_port_model *model)
{
    for (int64_t i = 0; i < model->n; i++) {
        const tt_safetensor *t = &model->tensor[i];
        if (strcmp(t->dtype, "F32") != 0)
            continue; // counters of batch norm
        TT_TRY(
            tt_onnx_add(&w->o, &(tt_onnx_tensor){t->name, TT_ONNX_F32, t->ndim,
                                                 t->shape, t->data, t->bytes}));
    }
    return TT_OK;
}

static tt_onnx_tensor end_of(const tt_port_onnx_work *w, tt_val v,
                             const char *name, int64_t *dims)
{
    const tt_shape *shape = &w->graph->value[v.id].type.shape;
    for (int d = 0; d < shape->ndim; d++)
        dims[d] = d == 0 ? -1 : tt_shape_dim(shape, d);
    return (tt_onnx_tensor){name, TT_ONNX_F32, shape->ndim, dims, NULL, 0};
}

static tt_status convert(tt_port_onnx_work *w, const tt_port_model *model,
                         tt_val logits, const char *path)
{
    int64_t in_dims[TT_MAX_DIMS], out_dims[TT_MAX_DIMS];
    bool *is_needed = tt_arena_alloc(
        w->o.arena, w->graph->n_nodes * (int64_t)sizeof *is_needed);
    if (is_needed == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(name_values(w, logits));
    mark_needed(w->graph, logits, is_needed);
    TT_TRY(emit_nodes(w, is_needed));
    TT_TRY(add_weights(w, model));
    const tt_onnx_tensor in =
        end_of(w, tt_graph_find(w->graph, "x"), "x", in_dims);
    const tt_onnx_tensor out = end_of(w, logits, "logits", out_dims);
    tt_onnx_input(&w->o, &in);
    tt_onnx_output(&w->o, &out);
    return tt_onnx_write(&w->o, model->job->model->name, path);
}

tt_status tt_port_write_onnx(const tt_port_model *model, const char *path)
{
    const tt_job *job = model->job;
    if (job->model->task != TT_TASK_IMAGES)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "ONNX is for image models here; %s can be exported "
                       "with format=folder",
                       job->options.model);
    for (int64_t i = 0; i < model->n; i++)
        if (tt_safetensors_bits(model->tensor[i].dtype) < 32)
            return tt_fail(TT_ERR_ARG, "ONNX files are written in fp32; add "
                                       "precision=fp32");
    tt_port_onnx_work w = {.graph = model->graph, .o.arena = tt_arena_create()};
    const tt_status status = w.o.arena == NULL
                                 ? tt_fail(TT_ERR_NOMEM, "no memory to export")
                                 : convert(&w, model, model->io.logits, path);
    tt_onnx_fini(&w.o);
    tt_arena_destroy(w.o.arena);
    return status;
}
