// op - helpers that shard functions share.

#include "graph/op.h"

#include <string.h>

tt_sig *tt_sigs_add(tt_sigs *sigs)
{
    if (sigs->n == TT_MAX_SIGS)
        return NULL;
    tt_sig *sig = &sigs->sig[sigs->n++];
    *sig = (tt_sig){0};
    return sig;
}

bool tt_can_split(const tt_type *type, int f, int axis_size)
{
    return f >= 0 && f < type->shape.n_factors &&
           type->shape.factor[f].size >= axis_size;
}

int64_t tt_io_extent(const tt_op_io *io, const tt_type *type, int f)
{
    int64_t n = type->shape.factor[f].size;
    for (int a = 0; io->mesh != NULL && a < io->mesh->n_axes; a++)
        if (type->place[a].kind == TT_SPLIT && type->place[a].factor == f)
            n /= io->mesh->axis[a].size;
    return n;
}

// Whether all splits of n operands are of `*extent` entries (0: not known yet) and
// have no window.
static bool is_even(const tt_place *place, const tt_type *type, int n,
                    int64_t *extent)
{
    for (int i = 0; i < n; i++) {
        if (place[i].kind != TT_SPLIT || type[i].dtype == TT_N_DTYPES)
            continue;
        const int64_t size = type[i].shape.factor[place[i].factor].size;
        if (place[i].window.out != 0 || (*extent != 0 && *extent != size))
            return false;
        *extent = size;
    }
    return true;
}

static void bend_places(tt_place *place, int n)
{
    for (int i = 0; i < n; i++)
        place[i].zigzag = place[i].kind == TT_SPLIT;
}

bool tt_sig_bend(const tt_op_io *io, tt_sig *sig)
{
    const int n_in = io->n_in < TT_SIG_IN ? io->n_in : TT_SIG_IN;
    int64_t extent = 0;
    if (!sig->bends && (!is_even(sig->in, io->in, n_in, &extent) ||
                        !is_even(sig->out, io->out, io->n_out, &extent)))
        return false;
    bend_places(sig->in, TT_SIG_IN);
    bend_places(sig->out, TT_MAX_OUT);
    return true;
}

static bool names(const tt_place *place, const tt_type *type, const char *name)
{
    return place->kind == TT_SPLIT && type->dtype != TT_N_DTYPES &&
           strcmp(type->shape.factor[place->factor].name, name) == 0;
}

bool tt_sig_splits(const tt_op_io *io, const tt_sig *sig, const char *name)
{
    bool is_split = false;
    for (int i = 0; i < io->n_in && i < TT_SIG_IN; i++)
        is_split |= names(&sig->in[i], &io->in[i], name);
    for (int i = 0; i < io->n_out; i++)
        is_split |= names(&sig->out[i], &io->out[i], name);
    return is_split;
}
