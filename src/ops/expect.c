// expect - demands of infer functions.

#include "ops/expect.h"

#include "ops/infer_common.h"

tt_status tt__expect_dtype(const tt_op_io *io, const char *op, int i,
                           tt_dtype dtype, const char *what)
{
    if (io->in[i].dtype == dtype)
        return TT_OK;
    return tt_fail(TT_ERR_ARG, "%s: %s must be %s, not %s", op, what,
                   tt_dtype_name(dtype), tt_dtype_name(io->in[i].dtype));
}

tt_status tt__expect_weight(const tt_op_io *io, const char *op, int i,
                            tt_dtype dtype, const char *what)
{
    if (io->in[i].dtype == tt_dtype_master(dtype))
        return TT_OK;
    return tt__expect_dtype(io, op, i, dtype, what);
}

tt_status tt__expect_vector(const tt_op_io *io, const char *op, int i,
                            int64_t n, const char *what)
{
    const tt_shape *s = &io->in[i].shape;
    if (s->ndim == 1 && tt_shape_dim(s, 0) == n)
        return TT_OK;
    if (s->ndim != 1)
        return tt_fail(TT_ERR_ARG, "%s: %s must have one dimension, not %d", op,
                       what, (int)s->ndim);
    return tt_fail(TT_ERR_ARG, "%s: %s has %lld entries instead of %lld", op,
                   what, (long long)tt_shape_dim(s, 0), (long long)n);
}

tt_status tt__expect_dims(const tt_op_io *io, const char *op, int i,
                          const tt_shape *shape, const char *what)
{
    const tt_shape *s = &io->in[i].shape;
    if (s->ndim != shape->ndim)
        return tt_fail(TT_ERR_ARG, "%s: %s has %d dimensions instead of %d", op,
                       what, (int)s->ndim, (int)shape->ndim);
    for (int d = 0; d < s->ndim; d++)
        if (tt_shape_dim(s, d) != tt_shape_dim(shape, d))
            return tt_fail(TT_ERR_ARG,
                           "%s: extent %d of %s is %lld instead of %lld", op, d,
                           what, (long long)tt_shape_dim(s, d),
                           (long long)tt_shape_dim(shape, d));
    return TT_OK;
}

tt_status tt__expect_legal(const char *op, const tt_shape *shape)
{
    const tt_status status = tt_shape_check(shape);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", op);
}
