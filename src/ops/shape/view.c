// view - strides of parts of a plain operand.
//
// An operand has one stride per dim, but a dim may consist of several factors
// (heads.head). To regroup factors or to leave one out, dims are first taken apart into
// strides per factor, and afterwards merged again. Merging fails if the factors of a
// dim are not evenly spaced; then lowering copies.

#include "ops/shape/view.h"

void tt_view_split_dims(const tt_operand *whole,
                        int64_t stride_out[TT_MAX_FACTORS])
{
    const tt_shape *shape = &whole->local.shape;
    for (int d = 0; d < shape->ndim; d++) {
        int64_t stride = whole->stride[d];
        for (int f = shape->first[d + 1] - 1; f >= shape->first[d]; f--) {
            stride_out[f] = stride;
            stride *= shape->factor[f].size;
        }
    }
}

// The stride of a dim made of the factors [first, end). Factors of size 1 take
// no step, so their strides do not matter.
static bool merge(const tt_shape *shape, int first, int end,
                  const int64_t *factor_stride, int64_t *stride_out)
{
    int64_t stride = 0, expected = 0;
    for (int f = end - 1; f >= first; f--) {
        const int64_t size = shape->factor[f].size;
        if (size == 1)
            continue;
        if (expected == 0)
            stride = factor_stride[f];
        else if (factor_stride[f] != expected)
            return false;
        expected = factor_stride[f] * size;
    }
    *stride_out = expected != 0 ? stride : factor_stride[end - 1];
    return true;
}

bool tt_view_merge_dims(const tt_shape *shape, const int64_t *factor_stride,
                        int64_t stride_out[TT_MAX_DIMS])
{
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->first[d] == shape->first[d + 1])
            stride_out[d] = 1;
        else if (!merge(shape, shape->first[d], shape->first[d + 1],
                        factor_stride, &stride_out[d]))
            return false;
    }
    return true;
}

bool tt_view_select(const tt_operand *whole, int f, int64_t i,
                    const tt_shape *part, int64_t *stride_out,
                    int64_t *offset_out)
{
    int64_t stride[TT_MAX_FACTORS] = {0};
    tt_view_split_dims(whole, stride);
    *offset_out = i * stride[f];
    for (int k = f; k + 1 < whole->local.shape.n_factors; k++)
        stride[k] = stride[k + 1];
    return tt_view_merge_dims(part, stride, stride_out);
}

bool tt_view_block(const tt_operand *whole, const tt_local *part,
                   int64_t *stride_out, int64_t *offset_out)
{
    int64_t stride[TT_MAX_FACTORS] = {0};
    tt_view_split_dims(whole, stride);
    *offset_out = 0;
    for (int f = 0; f < part->shape.n_factors; f++)
        *offset_out += (part->origin[f] - whole->local.origin[f]) * stride[f];
    return tt_view_merge_dims(&part->shape, stride, stride_out);
}
