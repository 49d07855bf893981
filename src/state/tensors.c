// tensors - the list of a graph's states, and their element types in files.
//
// The order of the list is fixed: weights, buffers, optimiser states, averages, and
// within each the order of the graph. All ranks list the same graph, so all ranks
// walk over tensors in the same order and collectives match without any message.

#include "state/tensors.h"

#include "base/alloc.h"

#include <string.h>

static const struct {
    const char *name;
    tt_dtype dtype;
} in_file[] = {
    {"F64", TT_F64}, {"F32", TT_F32}, {"BF16", TT_BF16}, {"F16", TT_F16},
    {"I64", TT_I64}, {"I32", TT_I32}, {"U8", TT_U8},
};

enum { N_IN_FILE = sizeof(in_file) / sizeof(in_file[0]) };

const char *tt_tensor_file_dtype(tt_dtype dtype)
{
    for (int i = 0; i < N_IN_FILE; i++)
        if (in_file[i].dtype == dtype)
            return in_file[i].name;
    return "";
}

bool tt_tensor_own_dtype(const char *name, tt_dtype *dtype_out)
{
    for (int i = 0; i < N_IN_FILE; i++)
        if (strcmp(in_file[i].name, name) == 0) {
            *dtype_out = in_file[i].dtype;
            return true;
        }
    return false;
}

void tt_tensor_convert(tt_dtype from, const void *in, tt_dtype to, void *out,
                       int64_t n)
{
    if (from == to) {
        memcpy(out, in, (size_t)(n * tt_dtype_bytes(from)));
        return;
    }
#pragma omp parallel for schedule(static) if (n > 65536)
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(to, out, i, tt_dtype_load(from, in, i));
}

bool tt_tensor_has_shape(const tt_tensor *tensor, const tt_safetensor *from)
{
    const size_t bytes = sizeof *tensor->dim * (size_t)tensor->ndim;
    return from->ndim == tensor->ndim &&
           (bytes == 0 || memcmp(from->shape, tensor->dim, bytes) == 0);
}

void tt_tensor_print_shape(const int64_t *extent, int64_t n, tt_str *out)
{
    tt_str_add(out, "[");
    for (int64_t d = 0; d < n; d++)
        tt_str_addf(out, "%s%lld", d > 0 ? ", " : "", (long long)extent[d]);
    tt_str_add(out, "]");
}

// ---- the list ------------------------------------------------------------

static bool role_of(const tt_value *value, tt_tensor_role *role_out)
{
    switch (value->role) {
    case TT_ROLE_PARAM:
        *role_out = TT_TENSOR_PARAM;
        return true;
    case TT_ROLE_BUFFER:
        *role_out = TT_TENSOR_BUFFER;
        return true;
    case TT_ROLE_OPTIM:
        *role_out = TT_TENSOR_OPTIM;
        return true;
    case TT_ROLE_EMA:
        *role_out = TT_TENSOR_EMA;
        return true;
    default:
        return false;
    }
}

bool tt_tensor_is_in_parts(const tt_graph *g, tt_val v)
{
    for (int a = 0; a < g->mesh.n_axes; a++) {
        const tt_place *place = &g->value[v.id].type.place[a];
        if (place->kind == TT_SPLIT || place->at != 0)
            return true;
    }
    return false;
}

static tt_tensor describe(const tt_graph *g, int32_t id, tt_tensor_role role)
{
    const tt_value *value = &g->value[id];
    const tt_shape *shape = &value->type.shape;
    tt_tensor t = {.name = value->name,
                   .role = role,
                   .dtype = value->type.dtype,
                   .ndim = shape->ndim,
                   .count = tt_shape_count(shape),
                   .val = {id},
                   .work = TT_NONE,
                   .of = role == TT_TENSOR_EMA ? value->init.of : TT_NONE,
                   .is_split = tt_tensor_is_in_parts(g, (tt_val){id})};
    t.bytes = t.count * tt_dtype_bytes(t.dtype);
    for (int d = 0; d < shape->ndim; d++)
        t.dim[d] = tt_shape_dim(shape, d);
    return t;
}

// For each weight, the value that is its copy in the compute precision.
static void find_work(const tt_graph *g, tt_val *work)
{
    for (int32_t v = 0; v < g->n_values; v++)
        work[v] = TT_NONE;
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_WORK)
            work[g->value[v].init.of.id] = (tt_val){v};
}

tt_status tt_tensors_list(const tt_graph *graph, const tt_peers *peers,
                          tt_arena *arena, tt_tensors *out)
{
    tt_tensor_role role;
    int64_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        n += role_of(&graph->value[v], &role);
    tt_val *work = tt_alloc((graph->n_values + 1) * (int64_t)sizeof *work);
    tt_tensors all = {
        .v = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *all.v)};
    if (work == NULL || all.v == NULL) {
        tt_free(work);
        return tt_fail(TT_ERR_NOMEM, "no memory to list tensors");
    }
    find_work(graph, work);
    for (int wanted = TT_TENSOR_PARAM; wanted <= TT_TENSOR_EMA; wanted++)
        for (int32_t v = 0; v < graph->n_values; v++)
            if (role_of(&graph->value[v], &role) && (int)role == wanted) {
                all.v[all.n] = describe(graph, v, role);
                all.v[all.n].peers = peers;
                all.v[all.n++].work = work[v];
            }
    tt_free(work);
    *out = all;
    return TT_OK;
}

const tt_tensor *tt_tensors_find(const tt_tensors *all, const char *name)
{
    for (int64_t i = 0; i < all->n; i++)
        if (strcmp(all->v[i].name, name) == 0)
            return &all->v[i];
    return NULL;
}

bool tt_tensor_grad(const tt_graph *graph, const tt_tensor *weight,
                    tt_tensor *grad_out)
{
    const tt_val grad = graph->value[weight->val.id].grad;
    if (weight->role != TT_TENSOR_PARAM || !tt_is(grad))
        return false;
    *grad_out = *weight;
    grad_out->val = grad;
    grad_out->work = TT_NONE;
    grad_out->dtype = graph->value[grad.id].type.dtype;
    grad_out->bytes = weight->count * tt_dtype_bytes(grad_out->dtype);
    grad_out->is_split = tt_tensor_is_in_parts(graph, grad);
    return true;
}

bool tt_tensors_are_split(const tt_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].is_split)
            return true;
    return false;
}

bool tt_tensor_is_model(const tt_tensor *tensor)
{
    return tensor->role == TT_TENSOR_PARAM || tensor->role == TT_TENSOR_BUFFER;
}

tt_tensors tt_tensors_model(const tt_tensors *all)
{
    tt_tensors model = *all; // they come first
    for (model.n = 0; model.n < all->n; model.n++)
        if (!tt_tensor_is_model(&all->v[model.n]))
            break;
    return model;
}
