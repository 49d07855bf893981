// op - helpers that shard functions share.

#include "graph/op.h"

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
