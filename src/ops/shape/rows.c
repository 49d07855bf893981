// rows - see the header.

#include "ops/shape/rows.h"

#include "ops/shard_common.h"

tt_status tt__want_dtype(const tt_op_io *io, int i, tt_dtype dtype,
                         const char *name)
{
    if (io->in[i].dtype != dtype)
        return tt_fail(TT_ERR_ARG, "%s: input %d is %s, not %s", name, i,
                       tt_dtype_name(io->in[i].dtype), tt_dtype_name(dtype));
    return TT_OK;
}

tt_status tt__want_rows(const tt_op_io *io, int i, const char *name)
{
    const tt_shape lead = tt__lead_of(&io->in[0].shape);
    if (!tt_shape_same_dims(&io->in[i].shape, &lead))
        return tt_fail(TT_ERR_ARG,
                       "%s: input %d must have one entry per row of input 0",
                       name, i);
    return TT_OK;
}

tt_status tt__want_columns(const tt_op_io *io, int i, const char *name)
{
    const int64_t n = tt__last(&io->in[0].shape);
    if (io->in[i].shape.ndim != 1 || tt__last(&io->in[i].shape) != n)
        return tt_fail(TT_ERR_ARG,
                       "%s: input %d must have %lld entries, as the last "
                       "dimension of input 0",
                       name, i, (long long)n);
    return TT_OK;
}

int64_t tt__last(const tt_shape *shape)
{
    return shape->ndim == 0 ? 1 : tt_shape_dim(shape, shape->ndim - 1);
}

tt_shape tt__lead_of(const tt_shape *shape)
{
    return shape->ndim == 0 ? *shape : tt_shape_drop(shape, shape->ndim - 1);
}

tt_shape tt__last_of(const tt_shape *shape)
{
    tt_shape last = *shape;
    while (last.ndim > 1)
        last = tt_shape_drop(&last, 0);
    return last;
}

// The placement of one operand that `how` asks for; false: there is none.
static bool place_operand(const tt_shape *anchor, int f, const tt_type *type,
                          char how, tt_place *place_out)
{
    *place_out = tt_place_replicate();
    if (how == '.' || type->dtype == TT_N_DTYPES)
        return true;
    if (how == '+') {
        *place_out = tt_place_partial(TT_SUM);
        return true;
    }
    int dim = how - '0';
    if (how == '=')
        dim = tt_shape_dim_of(anchor, f);
    else if (how == 'z')
        dim = type->shape.ndim - 1;
    const int twin = tt_shard_twin_at(anchor, f, &type->shape, dim);
    if (twin < 0)
        return false;
    *place_out = tt_place_split(twin);
    return true;
}

static bool place_all(const tt_op_io *io, int f, const tt__split *split,
                      tt_sig *sig)
{
    const tt_shape *anchor = &io->in[split->anchor].shape;
    for (int i = 0; i < io->n_in; i++)
        if (!place_operand(anchor, f, &io->in[i], split->in[i], &sig->in[i]))
            return false;
    for (int i = 0; i < io->n_out; i++)
        if (!place_operand(anchor, f, &io->out[i], split->out[i], &sig->out[i]))
            return false;
    return true;
}

void tt__shard_dim(const tt_op_io *io, int axis_size, int dim,
                   const tt__split *split, tt_sigs *sigs)
{
    const tt_type *type = &io->in[split->anchor];
    if (dim < 0 || dim >= type->shape.ndim)
        return;
    const int end = type->shape.first[dim + 1];
    for (int f = type->shape.first[dim]; f < end; f++) {
        if (!tt_can_split(type, f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->expand = split->expand;
        if (!place_all(io, f, split, sig))
            sigs->n--;
    }
}

void tt__shard_lead(const tt_op_io *io, int axis_size, const tt__split *split,
                    tt_sigs *sigs)
{
    for (int d = 0; d < io->in[split->anchor].shape.ndim - 1; d++)
        tt__shard_dim(io, axis_size, d, split, sigs);
}

void tt__shard_last(const tt_op_io *io, int axis_size, const tt__split *split,
                    tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, io->in[split->anchor].shape.ndim - 1, split,
                  sigs);
}
