// infer_common - checks shared by infer functions. Their sentences name the operator,
// the input and what was found, because they are what a user sees of a wrong model.

#include "ops/infer_common.h"

#include "base/str.h"

tt_status tt_infer_inputs(const tt_op_io *io, const char *op, int min, int max)
{
    if (io->n_in < min || io->n_in > max) {
        if (min == max)
            return tt_fail(TT_ERR_ARG, "%s: takes %d inputs, not %d", op, min,
                           io->n_in);
        if (max == INT32_MAX)
            return tt_fail(TT_ERR_ARG, "%s: takes %d inputs or more, not %d",
                           op, min, io->n_in);
        return tt_fail(TT_ERR_ARG, "%s: takes %d to %d inputs, not %d", op, min,
                       max, io->n_in);
    }
    for (int i = 0; i < min; i++)
        if (!tt_io_has(io, i))
            return tt_fail(TT_ERR_ARG, "%s: input %d is missing", op, i);
    return TT_OK;
}

tt_status tt_infer_float(const tt_op_io *io, const char *op, int i)
{
    if (!tt_dtype_is_float(io->in[i].dtype))
        return tt_fail(TT_ERR_ARG, "%s: input %d must be floating, not %s", op,
                       i, tt_dtype_name(io->in[i].dtype));
    return TT_OK;
}

static tt_status check_is_scalar(const tt_op_io *io, const char *op, int i)
{
    if (io->in[i].shape.ndim != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: input %d must be a scalar, not a tensor of %d dims",
                       op, i, (int)io->in[i].shape.ndim);
    return TT_OK;
}

tt_status tt_infer_scalar(const tt_op_io *io, const char *op, int i,
                          tt_dtype dtype)
{
    if (io->in[i].dtype != dtype)
        return tt_fail(TT_ERR_ARG, "%s: input %d must be %s, not %s", op, i,
                       tt_dtype_name(dtype), tt_dtype_name(io->in[i].dtype));
    return check_is_scalar(io, op, i);
}

tt_status tt_infer_float_scalar(const tt_op_io *io, const char *op, int i)
{
    TT_TRY(tt_infer_float(io, op, i));
    return check_is_scalar(io, op, i);
}

tt_status tt_infer_fail_shapes(const char *op, const char *what,
                               const tt_shape *a, const tt_shape *b)
{
    tt_str text = {0};
    tt_str_add(&text, "[");
    tt_shape_print(a, &text);
    tt_str_add(&text, "] and [");
    tt_shape_print(b, &text);
    tt_str_add(&text, "]");
    const tt_status status =
        tt_fail(TT_ERR_ARG, "%s: %s: %s", op, what, tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

tt_status tt_infer_same_dims(const tt_op_io *io, const char *op, int i, int j)
{
    const tt_shape *a = &io->in[i].shape, *b = &io->in[j].shape;
    if (!tt_shape_same_dims(a, b))
        return tt_infer_fail_shapes(op, "shapes differ", a, b);
    return TT_OK;
}

tt_status tt_infer_one_factor(const char *op, const tt_shape *x, int64_t dim)
{
    if (dim < 0 || dim >= x->ndim)
        return tt_fail(TT_ERR_ARG, "%s: there is no dim %lld", op,
                       (long long)dim);
    if (x->first[dim + 1] - x->first[dim] != 1)
        return tt_fail(TT_ERR_ARG,
                       "%s: dim %lld has several factors; separate them first",
                       op, (long long)dim);
    return TT_OK;
}

static bool has_same_factors(const tt_shape *a, const tt_shape *b, int d)
{
    const int n = a->first[d + 1] - a->first[d];
    if (b->first[d + 1] - b->first[d] != n)
        return false;
    for (int f = 0; f < n; f++)
        if (a->factor[a->first[d] + f].size != b->factor[b->first[d] + f].size)
            return false;
    return true;
}

tt_status tt_infer_joins(const tt_op_io *io, const char *op, int i, int64_t dim)
{
    const tt_shape *x = &io->in[0].shape, *part = &io->in[i].shape;
    if (!tt_io_has(io, i))
        return tt_fail(TT_ERR_ARG, "%s: input %d is missing", op, i);
    if (io->in[i].dtype != io->in[0].dtype)
        return tt_fail(TT_ERR_ARG, "%s: input %d is %s, not %s", op, i,
                       tt_dtype_name(io->in[i].dtype),
                       tt_dtype_name(io->in[0].dtype));
    if (part->ndim != x->ndim)
        return tt_infer_fail_shapes(op, "shapes differ", x, part);
    TT_TRY(tt_infer_one_factor(op, part, dim));
    for (int d = 0; d < x->ndim; d++)
        if (d != dim && !has_same_factors(x, part, d))
            return tt_infer_fail_shapes(op, "shapes differ", x, part);
    return TT_OK;
}

tt_status tt_infer_elementwise(tt_op_io *io, const char *op, int n)
{
    TT_TRY(tt_infer_inputs(io, op, n, n));
    for (int i = 0; i < n; i++) {
        TT_TRY(tt_infer_float(io, op, i));
        TT_TRY(tt_infer_same_dims(io, op, 0, i));
    }
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

tt_status tt_infer_unary(tt_op_io *io)
{
    return tt_infer_elementwise(io, io->op->name, 1);
}

tt_status tt_infer_binary(tt_op_io *io)
{
    return tt_infer_elementwise(io, io->op->name, 2);
}

void tt_infer_add(tt_op_io *io, tt_dtype dtype, const tt_shape *shape)
{
    io->out[io->n_out].dtype = dtype;
    io->out[io->n_out].shape = *shape;
    io->n_out++;
}

bool tt_shape_broadcasts(const tt_shape *small, const tt_shape *big)
{
    const int missing = big->ndim - small->ndim;
    if (missing < 0)
        return false;
    for (int d = 0; d < small->ndim; d++) {
        const int64_t extent = tt_shape_dim(small, d);
        if (extent != 1 && extent != tt_shape_dim(big, d + missing))
            return false;
    }
    return true;
}
