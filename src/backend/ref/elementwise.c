// elementwise - loops shared by reference kernels.

#include "backend/ref/elementwise.h"

tt_status tt__ref_unary(const tt_site *site, const tt_args *args,
                        tt__unary_fn *fn)
{
    const tt_operand *x = &site->in[0], *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(
            y->dtype, args->out[0], i,
            fn(site->params, tt_dtype_load(x->dtype, args->in[0], i)));
    return TT_OK;
}

tt_status tt__ref_binary(const tt_site *site, const tt_args *args,
                         tt__binary_fn *fn)
{
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++) {
        const double a = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        const double b = tt_dtype_load(site->in[1].dtype, args->in[1], i);
        tt_dtype_store(y->dtype, args->out[0], i, fn(site->params, a, b));
    }
    return TT_OK;
}

void tt__ref_project(const tt_shape *big, const tt_shape *small, const int *map,
                     int64_t stride_out[TT_MAX_DIMS])
{
    int64_t stride[TT_MAX_DIMS];
    tt_shape_strides(small, stride);
    for (int d = 0; d < big->ndim; d++) {
        const bool is_repeated = map[d] < 0 || tt_shape_dim(small, map[d]) == 1;
        stride_out[d] = is_repeated ? 0 : stride[map[d]];
    }
}

int64_t tt__ref_offset(const tt_shape *shape, const int64_t *stride, int64_t i)
{
    int64_t offset = 0;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        const int64_t extent = tt_shape_dim(shape, d);
        offset += i % extent * stride[d];
        i /= extent;
    }
    return offset;
}
