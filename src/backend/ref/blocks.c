// blocks - reference kernels of block and unblock: copies between a value and its
// parts. The origin of a part says where it belongs. Nearly always lowering finds
// strides for it, and none of these copies is made.

#include "ops/blocks.h"

#include "backend/kernel.h"
#include "backend/ref/copy.h"
#include "ops/ops.h"

// The part of `whole`, at `base`, that has the entries of `part`.
static tt__strided inside(const tt_operand *whole, const void *base,
                          const tt_local *part)
{
    tt__strided s = tt__strided_of(whole, base);
    for (int f = 0; f < part->shape.n_factors; f++)
        s.base += (part->origin[f] - whole->local.origin[f]) * s.stride[f] *
                  tt_dtype_bytes(whole->dtype);
    return s;
}

static tt_status run_block(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0];
    const tt__strided from = inside(&site->in[0], args->in[0], &y->local);
    const tt__strided to = tt__strided_of(y, args->out[0]);
    tt__copy(NULL, &y->local.shape, tt_dtype_bytes(y->dtype), &to, &from);
    return TT_OK;
}

static tt_status run_unblock(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    for (int i = 0; i < site->n_in; i++) {
        const tt_operand *x = &site->in[i];
        const tt__strided from = tt__strided_of(x, args->in[i]);
        const tt__strided to = inside(&site->out[0], args->out[0], &x->local);
        tt__copy(NULL, &x->local.shape, tt_dtype_bytes(x->dtype), &to, &from);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_blocks_kernels[] = {
    {TT_KERNEL(ref, block), TT_STRIDED, .run = run_block},
    {TT_KERNEL(ref, unblock), TT_STRIDED, .run = run_unblock},
    {0},
};
