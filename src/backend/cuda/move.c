// move - operators that only move elements: strided copies, bound by memory
// bandwidth where either side is contiguous.

#include "backend/ref/move.h"

#include "backend/cuda/cuda.h"
#include "ops/move.h"
#include "ops/ops.h"

typedef struct copier {
    const tt__cuda *device;
    tt_dtype type;
    const char *error;
} copier;

static void copy(void *ctx, const tt_shape *shape, int64_t bytes,
                 const tt__strided *to, const tt__strided *from)
{
    copier *c = ctx;
    (void)bytes;
    tt_cuda_copy_args a = {.ndim = shape->n_factors,
                           .to_type = c->type,
                           .from_type = c->type,
                           .to = to->base,
                           .from = from->base};
    for (int f = 0; f < shape->n_factors; f++) {
        a.dim[f] = shape->factor[f].size;
        a.to_stride[f] = to->stride[f];
        a.from_stride[f] = from->stride[f];
    }
    if (c->error == NULL)
        c->error = c->device->api->copy(c->device->cuda, &a);
}

static tt_status move(void *state, const tt_site *site, const tt_args *args,
                      tt__move_fn *fn)
{
    copier c = {.device = tt__cuda_at(state), .type = site->out[0].dtype};
    TT_TRY(fn(site, args, copy, &c));
    return tt__cuda_status(c.error);
}

static tt_status run_reorder(void *state, const tt_site *site,
                             const tt_args *args)
{
    return move(state, site, args, tt__move_reorder);
}

static tt_status run_transpose(void *state, const tt_site *site,
                               const tt_args *args)
{
    return move(state, site, args, tt__move_transpose);
}

static tt_status run_split(void *state, const tt_site *site,
                           const tt_args *args)
{
    return move(state, site, args, tt__move_split);
}

static tt_status run_join(void *state, const tt_site *site, const tt_args *args)
{
    return move(state, site, args, tt__move_join);
}

static tt_status run_slice(void *state, const tt_site *site,
                           const tt_args *args)
{
    return move(state, site, args, tt__move_slice);
}

static tt_status run_concat(void *state, const tt_site *site,
                            const tt_args *args)
{
    return move(state, site, args, tt__move_concat);
}

static tt_status run_stripe(void *state, const tt_site *site,
                            const tt_args *args)
{
    return move(state, site, args, tt__move_stripe);
}

static tt_status run_weave(void *state, const tt_site *site,
                           const tt_args *args)
{
    return move(state, site, args, tt__move_weave);
}

static tt_status run_slice_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    const tt_slice_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const tt__cuda *d = tt__cuda_at(state);
    const int64_t bytes = tt_dtype_bytes(y->dtype);
    copier c = {.device = d, .type = y->dtype};
    tt__strided to = tt__strided_of(y, args->out[0]);
    const tt__strided from = tt__strided_of(&site->in[0], args->in[0]);
    to.base += p->start * y->stride[p->dim] * bytes;
    c.error =
        d->api->fill(d->cuda, args->out[0], 0, tt_operand_count(y) * bytes);
    copy(&c, &site->in[0].local.shape, bytes, &to, &from);
    return tt__cuda_status(c.error);
}

// One vector to another: aliases and other names.
static tt_status run_same(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_copy_args a = {.ndim = 1,
                                 .dim = {tt_operand_count(&site->out[0])},
                                 .to_stride = {1},
                                 .from_stride = {1},
                                 .to_type = site->out[0].dtype,
                                 .from_type = site->in[0].dtype,
                                 .to = args->out[0],
                                 .from = args->in[0]};
    return a.to == a.from && a.to_type == a.from_type
               ? TT_OK
               : TT__CUDA(state, copy, &a);
}

const tt_kernel_def tt__cuda_move_kernels[] = {
    {TT_KERNEL(cuda, fetch), .in_place = true, .prepare = tt__cuda_prepare,
     .run = run_same},
    {TT_KERNEL(cuda, agree), .in_place = true, .prepare = tt__cuda_prepare,
     .run = run_same},
    {TT_KERNEL(cuda, relabel), .prepare = tt__cuda_prepare, .run = run_same},
    {TT_KERNEL(cuda, match), .prepare = tt__cuda_prepare, .run = run_same},
    {TT_KERNEL(cuda, cast), .prepare = tt__cuda_prepare, .run = run_same},
    {.name = "cuda.copy",
     .op = &tt_op_reorder,
     TT_STRIDED,
     .prepare = tt__cuda_prepare,
     .run = run_reorder},
    {TT_KERNEL(cuda, reshape), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_reorder},
    {TT_KERNEL(cuda, transpose), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_transpose},
    {TT_KERNEL(cuda, split), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_split},
    {TT_KERNEL(cuda, join), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_join},
    {TT_KERNEL(cuda, slice), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_slice},
    {TT_KERNEL(cuda, slice_grad), .strided_in = ~0u,
     .prepare = tt__cuda_prepare, .run = run_slice_grad},
    {TT_KERNEL(cuda, concat), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_concat},
    {TT_KERNEL(cuda, stripe), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_stripe},
    {TT_KERNEL(cuda, weave), TT_STRIDED, .prepare = tt__cuda_prepare,
     .run = run_weave},
    {0},
};
