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

const tt_kernel_def tt_kernel_cuda_copy = {
    .name = "cuda.copy",
    .op = &tt_op_reorder,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_reorder,
};

const tt_kernel_def tt_kernel_cuda_reshape = {
    .name = "cuda.reshape",
    .op = &tt_op_reshape,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_reorder,
};

const tt_kernel_def tt_kernel_cuda_transpose = {
    .name = "cuda.transpose",
    .op = &tt_op_transpose,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_transpose,
};

const tt_kernel_def tt_kernel_cuda_split = {
    .name = "cuda.split",
    .op = &tt_op_split,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_split,
};

const tt_kernel_def tt_kernel_cuda_join = {
    .name = "cuda.join",
    .op = &tt_op_join,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_join,
};

const tt_kernel_def tt_kernel_cuda_slice = {
    .name = "cuda.slice",
    .op = &tt_op_slice,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_slice,
};

const tt_kernel_def tt_kernel_cuda_concat = {
    .name = "cuda.concat",
    .op = &tt_op_concat,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_concat,
};

const tt_kernel_def tt_kernel_cuda_slice_grad = {
    .name = "cuda.slice_grad",
    .op = &tt_op_slice_grad,
    .strided_in = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_slice_grad,
};

const tt_kernel_def tt_kernel_cuda_fetch = {
    .name = "cuda.fetch",
    .op = &tt_op_fetch,
    .in_place = true,
    .prepare = tt__cuda_prepare,
    .run = run_same,
};

const tt_kernel_def tt_kernel_cuda_agree = {
    .name = "cuda.agree",
    .op = &tt_op_agree,
    .in_place = true,
    .prepare = tt__cuda_prepare,
    .run = run_same,
};

const tt_kernel_def tt_kernel_cuda_relabel = {
    .name = "cuda.relabel",
    .op = &tt_op_relabel,
    .prepare = tt__cuda_prepare,
    .run = run_same,
};

const tt_kernel_def tt_kernel_cuda_match = {
    .name = "cuda.match",
    .op = &tt_op_match,
    .prepare = tt__cuda_prepare,
    .run = run_same,
};

const tt_kernel_def tt_kernel_cuda_cast = {
    .name = "cuda.cast",
    .op = &tt_op_cast,
    .prepare = tt__cuda_prepare,
    .run = run_same,
};

const tt_kernel_def tt_kernel_cuda_stripe = {
    .name = "cuda.stripe",
    .op = &tt_op_stripe,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_stripe,
};

const tt_kernel_def tt_kernel_cuda_weave = {
    .name = "cuda.weave",
    .op = &tt_op_weave,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .prepare = tt__cuda_prepare,
    .run = run_weave,
};
