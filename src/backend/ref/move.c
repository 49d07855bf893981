// move - reference kernels of the operators that only move elements: reorder, reshape,
// transpose, split, join, slice, slice_grad, concat, stripe, weave. All of them take
// operands with any strides. Each one only says which strides the copy has; the copy
// itself is a parameter (move.h), so that the CPU backend uses them with a faster one.

#include "ops/shape/move.h"

#include "backend/ref/move.h"
#include "ops/ops.h"

#include <string.h>

static int64_t element_bytes(const tt_site *site)
{
    return tt_dtype_bytes(site->out[0].dtype);
}

// reorder and reshape: the same factors on both sides.
tt_status tt__move_reorder(const tt_site *site, const tt_args *args,
                           tt__copy_fn *copy, void *ctx)
{
    const tt__strided to = tt__strided_of(&site->out[0], args->out[0]);
    const tt__strided from = tt__strided_of(&site->in[0], args->in[0]);
    copy(ctx, &site->out[0].local.shape, element_bytes(site), &to, &from);
    return TT_OK;
}

tt_status tt__move_transpose(const tt_site *site, const tt_args *args,
                             tt__copy_fn *copy, void *ctx)
{
    const tt_transpose_params *p = site->params;
    const tt_shape *x = &site->in[0].local.shape;
    const tt_shape *y = &site->out[0].local.shape;
    const tt__strided to = tt__strided_of(&site->out[0], args->out[0]);
    const tt__strided whole = tt__strided_of(&site->in[0], args->in[0]);
    tt__strided from = whole;
    for (int d = 0; d < y->ndim; d++)
        for (int f = y->first[d]; f < y->first[d + 1]; f++)
            from.stride[f] =
                whole.stride[x->first[p->perm.v[d]] + f - y->first[d]];
    copy(ctx, y, element_bytes(site), &to, &from);
    return TT_OK;
}

tt_status tt__move_split(const tt_site *site, const tt_args *args,
                         tt__copy_fn *copy, void *ctx)
{
    const tt_split_params *p = site->params;
    const int64_t bytes = element_bytes(site);
    const int f = tt_shape_find(&site->in[0].local.shape, p->factor);
    const tt__strided whole = tt__strided_of(&site->in[0], args->in[0]);
    for (int i = 0; i < site->n_out; i++) {
        const tt__strided to = tt__strided_of(&site->out[i], args->out[i]);
        const tt__strided from = tt__strided_select(&whole, f, i, bytes);
        copy(ctx, &site->out[i].local.shape, bytes, &to, &from);
    }
    return TT_OK;
}

tt_status tt__move_join(const tt_site *site, const tt_args *args,
                        tt__copy_fn *copy, void *ctx)
{
    const tt_join_params *p = site->params;
    const int64_t bytes = element_bytes(site);
    const int f = tt_shape_find(&site->out[0].local.shape, p->factor);
    const tt__strided whole = tt__strided_of(&site->out[0], args->out[0]);
    for (int i = 0; i < site->n_in; i++) {
        const tt__strided to = tt__strided_select(&whole, f, i, bytes);
        const tt__strided from = tt__strided_of(&site->in[i], args->in[i]);
        copy(ctx, &site->in[i].local.shape, bytes, &to, &from);
    }
    return TT_OK;
}

// The entries of an operand from `start` on along one dim.
static tt__strided part_from(const tt_operand *whole, const void *base,
                             int64_t dim, int64_t start)
{
    tt__strided s = tt__strided_of(whole, base);
    s.base += start * whole->stride[dim] * tt_dtype_bytes(whole->dtype);
    return s;
}

tt_status tt__move_slice(const tt_site *site, const tt_args *args,
                         tt__copy_fn *copy, void *ctx)
{
    const tt_slice_params *p = site->params;
    const tt__strided to = tt__strided_of(&site->out[0], args->out[0]);
    const tt__strided from =
        part_from(&site->in[0], args->in[0], p->dim, p->start);
    copy(ctx, &site->out[0].local.shape, element_bytes(site), &to, &from);
    return TT_OK;
}

tt_status tt__move_slice_grad(const tt_site *site, const tt_args *args,
                              tt__copy_fn *copy, void *ctx)
{
    const tt_slice_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const int64_t bytes = element_bytes(site);
    memset(args->out[0], 0, (size_t)(tt_operand_count(y) * bytes));
    const tt__strided to = part_from(y, args->out[0], p->dim, p->start);
    const tt__strided from = tt__strided_of(&site->in[0], args->in[0]);
    copy(ctx, &site->in[0].local.shape, bytes, &to, &from);
    return TT_OK;
}

tt_status tt__move_concat(const tt_site *site, const tt_args *args,
                          tt__copy_fn *copy, void *ctx)
{
    const tt_concat_params *p = site->params;
    int64_t start = 0;
    for (int i = 0; i < site->n_in; i++) {
        const tt__strided to =
            part_from(&site->out[0], args->out[0], p->dim, start);
        const tt__strided from = tt__strided_of(&site->in[i], args->in[i]);
        copy(ctx, &site->in[i].local.shape, element_bytes(site), &to, &from);
        start += tt_operand_dim(&site->in[i], (int)p->dim);
    }
    return TT_OK;
}

// Stripe `part` of `parts` of an operand.
static tt__strided stripe_of(const tt_operand *whole, const void *base,
                             const tt_stripe_params *p)
{
    tt__strided s = part_from(whole, base, p->dim, p->part);
    s.stride[whole->local.shape.first[p->dim]] *= p->parts;
    return s;
}

tt_status tt__move_stripe(const tt_site *site, const tt_args *args,
                          tt__copy_fn *copy, void *ctx)
{
    const tt__strided to = tt__strided_of(&site->out[0], args->out[0]);
    const tt__strided from = stripe_of(&site->in[0], args->in[0], site->params);
    copy(ctx, &site->out[0].local.shape, element_bytes(site), &to, &from);
    return TT_OK;
}

tt_status tt__move_weave(const tt_site *site, const tt_args *args,
                         tt__copy_fn *copy, void *ctx)
{
    const tt_weave_params *p = site->params;
    for (int i = 0; i < site->n_in; i++) {
        const tt_stripe_params q = {p->dim, i, site->n_in};
        const tt__strided to = stripe_of(&site->out[0], args->out[0], &q);
        const tt__strided from = tt__strided_of(&site->in[i], args->in[i]);
        copy(ctx, &site->in[i].local.shape, element_bytes(site), &to, &from);
    }
    return TT_OK;
}

// ---- kernels -------------------------------------------------------------

TT_KERNEL_RUN(run_reorder, tt__move_reorder(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_transpose, tt__move_transpose(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_split, tt__move_split(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_join, tt__move_join(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_slice, tt__move_slice(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_slice_grad, tt__move_slice_grad(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_concat, tt__move_concat(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_stripe, tt__move_stripe(site, args, tt__copy, NULL))
TT_KERNEL_RUN(run_weave, tt__move_weave(site, args, tt__copy, NULL))

const tt_kernel_def tt__ref_move_kernels[] = {
    {TT_KERNEL(ref, reorder), TT_STRIDED, .run = run_reorder},
    {TT_KERNEL(ref, reshape), TT_STRIDED, .run = run_reorder},
    {TT_KERNEL(ref, transpose), TT_STRIDED, .run = run_transpose},
    {TT_KERNEL(ref, split), TT_STRIDED, .run = run_split},
    {TT_KERNEL(ref, join), TT_STRIDED, .run = run_join},
    {TT_KERNEL(ref, slice), TT_STRIDED, .run = run_slice},
    {TT_KERNEL(ref, slice_grad), .strided_in = ~0u, .run = run_slice_grad},
    {TT_KERNEL(ref, concat), TT_STRIDED, .run = run_concat},
    {TT_KERNEL(ref, stripe), TT_STRIDED, .run = run_stripe},
    {TT_KERNEL(ref, weave), TT_STRIDED, .run = run_weave},
    {0},
};
