// reorder - copies between dense order and channels last: matrices [channels, points]
// are transposed in tiles (dev/elements/turn.cu), bound by memory bandwidth. Operands
// with gaps are copied element by element.

#include "backend/cuda/layout.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return site->in[0].layout > 0 || site->out[0].layout > 0;
}

static tt_status turn(void *state, const tt_operand *o, bool is_back,
                      const tt_args *args)
{
    const int64_t n = tt_operand_dim(o, 0), c = tt_operand_dim(o, 1);
    const int64_t points = tt_operand_count(o) / (n * c);
    const tt_cuda_turn_args a = {.bytes = (int)tt_dtype_bytes(o->dtype),
                                 .batch = n,
                                 .rows = is_back ? points : c,
                                 .cols = is_back ? c : points,
                                 .x = args->in[0],
                                 .y = args->out[0]};
    return TT__CUDA(state, turn, &a);
}

static void strides_of(const tt_operand *o, int64_t *stride)
{
    if (o->layout > 0) {
        tt__cuda_channel_strides(o, stride);
        return;
    }
    for (int d = 0; d < o->local.shape.ndim; d++)
        stride[d] = o->stride[d];
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const tt_operand *x = &site->in[0], *y = &site->out[0];
    if (x->layout == 0 && tt_operand_is_dense(x))
        return turn(state, x, false, args);
    if (y->layout == 0 && tt_operand_is_dense(y))
        return turn(state, y, true, args);
    tt_cuda_copy_args a = {.ndim = x->local.shape.ndim,
                           .to_type = y->dtype,
                           .from_type = x->dtype,
                           .to = args->out[0],
                           .from = args->in[0]};
    strides_of(x, a.from_stride);
    strides_of(y, a.to_stride);
    for (int d = 0; d < a.ndim; d++)
        a.dim[d] = tt_operand_dim(x, d);
    return TT__CUDA(state, copy, &a);
}

const tt_kernel_def tt__cuda_reorder_kernels[] = {
    {TT__CUDA_KERNEL(reorder), .strided_in = 1, .strided_out = 1, .can = can,
     .run = run},
    {0},
};
