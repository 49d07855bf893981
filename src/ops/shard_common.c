// shard_common - helpers for sharding signatures.

#include "ops/shard_common.h"

int tt_shard_twin_at(const tt_shape *shape, int f, const tt_shape *other,
                     int dim)
{
    if (dim < 0)
        return TT_TWIN_BROADCAST;
    const int own = tt_shape_dim_of(shape, f);
    if (tt_shape_dim(other, dim) == 1 && tt_shape_dim(shape, own) != 1)
        return TT_TWIN_BROADCAST;
    const int first = shape->first[own], other_first = other->first[dim];
    const int n = shape->first[own + 1] - first;
    if (other->first[dim + 1] - other_first != n)
        return TT_TWIN_NONE;
    for (int i = 0; i < n; i++)
        if (shape->factor[first + i].size !=
            other->factor[other_first + i].size)
            return TT_TWIN_NONE;
    return other_first + (f - first);
}

int tt_shard_twin(const tt_shape *shape, int f, const tt_shape *other)
{
    const int dim = tt_shape_dim_of(shape, f) + other->ndim - shape->ndim;
    return tt_shard_twin_at(shape, f, other, dim);
}

bool tt_shard_place(const tt_shape *shape, int f, const tt_type *type,
                    tt_place *place_out)
{
    if (type->dtype == TT_N_DTYPES)
        return true; // absent: stays replicated
    const int twin = tt_shard_twin(shape, f, &type->shape);
    if (twin == TT_TWIN_NONE)
        return false;
    if (twin >= 0)
        *place_out = tt_place_split(twin);
    return true;
}

static bool place_all(const tt_op_io *io, int f, tt_sig *sig)
{
    const tt_shape *shape = &io->out[0].shape;
    const int n_in = tt_shard_n_in(io);
    for (int i = 0; i < n_in; i++)
        if (!tt_shard_place(shape, f, &io->in[i], &sig->in[i]))
            return false;
    for (int i = 0; i < io->n_out; i++)
        if (!tt_shard_place(shape, f, &io->out[i], &sig->out[i]))
            return false;
    return true;
}

void tt_shard_elementwise(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int f = 0; f < io->out[0].shape.n_factors; f++) {
        tt_sig sig = {0};
        if (!tt_can_split(&io->out[0], f, axis_size) || !place_all(io, f, &sig))
            continue;
        tt_sig *added = tt_sigs_add(sigs);
        if (added != NULL)
            *added = sig;
    }
}

void tt_shard_partial(const tt_op_io *io, uint32_t inputs, tt_reduce reduce,
                      tt_sigs *sigs)
{
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return;
    for (int i = 0; i < tt_shard_n_in(io); i++)
        if ((inputs >> i) & 1)
            sig->in[i] = tt_place_partial(reduce);
    for (int i = 0; i < io->n_out; i++)
        sig->out[i] = tt_place_partial(reduce);
}
