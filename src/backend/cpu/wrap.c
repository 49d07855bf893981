// wrap - small conversions.

#include "backend/cpu/wrap.h"

const float *tt__as_floats(tt_dtype dtype, const void *data, int64_t n,
                           float *room)
{
    if (data == NULL || dtype == TT_F32)
        return data;
    tt_simd_get()->elementwise->cast(tt__simd_type_of(dtype), data, TT_SIMD_F32,
                                     room, n);
    return room;
}

double tt__scalar_of(const tt_site *site, const tt_args *args, int i)
{
    return tt_dtype_load(site->in[i].dtype, args->in[i], 0);
}
