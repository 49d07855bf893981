// reduce - sums over dims and repetition along them. A reduced run of dims makes x a
// block [outer, length, inner], whose sums are bound by memory bandwidth; other sets
// of dims are left to the reference.

#include "backend/cuda/cuda.h"
#include "ops/arith.h"
#include "ops/ops.h"

// Whether dim d of x is summed.
typedef struct summed {
    bool is[TT_MAX_DIMS];
} summed;

// False when the summed dims are not neighbours.
static bool as_block(const tt_shape *x, const summed *s,
                     tt_cuda_reduce_args *out)
{
    int part = 0; // 0: before the summed dims, 1: in them, 2: after
    out->outer = out->length = out->inner = 1;
    for (int d = 0; d < x->ndim; d++) {
        const int64_t n = tt_shape_dim(x, d);
        if (n == 1)
            continue;
        if (part == 2 && s->is[d])
            return false;
        if (part == 0 && s->is[d])
            part = 1;
        else if (part == 1 && !s->is[d])
            part = 2;
        *(part == 0   ? &out->outer
          : part == 1 ? &out->length
                      : &out->inner) *= n;
    }
    return out->inner == 1 || out->outer < 65536; // the grid's limit
}

static bool summed_by_sum_to(const tt_site *site, summed *s)
{
    const tt_broadcast_params *p = site->params;
    const tt_shape *x = &site->in[0].local.shape;
    const tt_shape *y = &site->out[0].local.shape;
    int map[TT_MAX_DIMS];
    if (!tt_broadcast_map(&p->dims, y, x, map))
        return false;
    for (int d = 0; d < x->ndim; d++)
        s->is[d] = map[d] < 0 || tt_shape_dim(y, map[d]) == 1;
    return true;
}

static bool summed_by_reduce(const tt_site *site, summed *s)
{
    const tt_reduce_params *p = site->params;
    for (int d = 0; d < site->in[0].local.shape.ndim; d++)
        s->is[d] = tt_reduce_has(p, d);
    return true;
}

static bool describe(const tt_site *site, tt_cuda_reduce_args *out)
{
    const tt_shape *x = &site->in[0].local.shape;
    summed s = {0};
    *out = (tt_cuda_reduce_args){
        .by = 1, .x_type = site->in[0].dtype, .y_type = site->out[0].dtype};
    if (site->op == &tt_op_bias_grad) {
        for (int d = 0; d < x->ndim - 1; d++)
            s.is[d] = true;
        return as_block(x, &s, out);
    }
    if (site->op == &tt_op_sum_to)
        return summed_by_sum_to(site, &s) && as_block(x, &s, out);
    const tt_reduce_params *p = site->params;
    const tt_local *local = &site->in[0].local;
    double length = 1;
    for (int f = 0; f < x->n_factors; f++)
        if (tt_reduce_has(p, tt_shape_dim_of(x, f)))
            length *= (double)local->global[f];
    out->is_max = p->op == TT_REDUCE_MAX;
    if (p->op == TT_REDUCE_MEAN)
        out->by = 1 / length;
    return summed_by_reduce(site, &s) && as_block(x, &s, out);
}

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_reduce_args args;
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_reduce_args a;
    return (tt__site_has_types(site, "y", "f") ||
            tt__site_has_types(site, "s", "s")) &&
           describe(site, &a);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    (void)describe(site, &s->args);
    prepared_out->scratch_bytes = s->device->api->reduce_scratch(&s->args);
    return TT_OK;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    (void)site;
    tt_cuda_reduce_args a = ((state *)kernel_state)->args;
    a.x = args->in[0];
    a.y = args->out[0];
    a.scratch = args->scratch;
    a.accumulate = args->accumulate;
    return TT__CUDA(kernel_state, reduce, &a);
}

// ---- repetition ----------------------------------------------------------

static tt_status run_broadcast(void *state_, const tt_site *site,
                               const tt_args *args)
{
    const tt_broadcast_params *p = site->params;
    const tt_shape *x = &site->in[0].local.shape;
    const tt_shape *y = &site->out[0].local.shape;
    int map[TT_MAX_DIMS];
    int64_t from[TT_MAX_DIMS], to[TT_MAX_DIMS];
    (void)tt_broadcast_map(&p->dims, x, y, map);
    tt_shape_strides(x, from);
    tt_shape_strides(y, to);
    tt_cuda_copy_args a = {.ndim = y->ndim,
                           .to_type = site->out[0].dtype,
                           .from_type = site->in[0].dtype,
                           .to = args->out[0],
                           .from = args->in[0]};
    for (int d = 0; d < y->ndim; d++) {
        const bool repeats = map[d] < 0 || tt_shape_dim(x, map[d]) == 1;
        a.dim[d] = tt_shape_dim(y, d);
        a.to_stride[d] = to[d];
        a.from_stride[d] = repeats ? 0 : from[map[d]];
    }
    return TT__CUDA(state_, copy, &a);
}

const tt_kernel_def tt__cuda_reduce_kernels[] = {
    {TT_KERNEL(cuda, bias_grad), .accumulates = true, .can = can,
     .prepare = prepare, .run = run},
    {TT__CUDA_KERNEL(broadcast), .run = run_broadcast},
    {TT_KERNEL(cuda, sum_to), .accumulates = true, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, reduce), .can = can, .prepare = prepare, .run = run},
    {0},
};
