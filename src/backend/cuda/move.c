// move - operators that only move elements (slices, concatenations, transposes, casts):
// strided copies, bound by memory bandwidth where either side is contiguous.

#include "backend/ref/move.h"

#include "backend/cuda/cuda.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

typedef struct copier {
    const tt__cuda_device *device;
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

TT_KERNEL_RUN(run_reorder, move(state, site, args, tt__move_reorder))
TT_KERNEL_RUN(run_transpose, move(state, site, args, tt__move_transpose))
TT_KERNEL_RUN(run_split, move(state, site, args, tt__move_split))
TT_KERNEL_RUN(run_join, move(state, site, args, tt__move_join))
TT_KERNEL_RUN(run_slice, move(state, site, args, tt__move_slice))
TT_KERNEL_RUN(run_concat, move(state, site, args, tt__move_concat))
TT_KERNEL_RUN(run_stripe, move(state, site, args, tt__move_stripe))
TT_KERNEL_RUN(run_weave, move(state, site, args, tt__move_weave))

static tt_status run_slice_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    const tt_slice_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const tt__cuda_device *d = tt__cuda_at(state);
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
    {TT__CUDA_KERNEL(fetch), .in_place = true, .run = run_same},
    {TT__CUDA_KERNEL(agree), .in_place = true, .run = run_same},
    {TT__CUDA_KERNEL(relabel), .run = run_same},
    {TT__CUDA_KERNEL(match), .run = run_same},
    {TT__CUDA_KERNEL(cast), .run = run_same},
    {.name = "cuda.copy",
     .op = &tt_op_reorder,
     TT_STRIDED,
     .prepare = tt__cuda_prepare,
     .run = run_reorder},
    {TT__CUDA_KERNEL(reshape), TT_STRIDED, .run = run_reorder},
    {TT__CUDA_KERNEL(transpose), TT_STRIDED, .run = run_transpose},
    {TT__CUDA_KERNEL(split), TT_STRIDED, .run = run_split},
    {TT__CUDA_KERNEL(join), TT_STRIDED, .run = run_join},
    {TT__CUDA_KERNEL(slice), TT_STRIDED, .run = run_slice},
    {TT__CUDA_KERNEL(slice_grad), .strided_in = ~0u, .run = run_slice_grad},
    {TT__CUDA_KERNEL(concat), TT_STRIDED, .run = run_concat},
    {TT__CUDA_KERNEL(stripe), TT_STRIDED, .run = run_stripe},
    {TT__CUDA_KERNEL(weave), TT_STRIDED, .run = run_weave},
    {0},
};
