// wrap - what the kernels around the vectorised functions share: types of operands
// as these functions name them, and small conversions.

#ifndef TT_BACKEND_CPU_WRAP_H
#define TT_BACKEND_CPU_WRAP_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"
#include "backend/sites.h"

static inline bool tt__is_simd(tt_dtype dtype)
{
    return dtype == TT_F32 || dtype == TT_BF16;
}
static inline tt_simd_type tt__simd_type_of(tt_dtype dtype)
{
    return dtype == TT_BF16 ? TT_SIMD_BF16 : TT_SIMD_F32;
}

// A small vector as floats: itself, or converted into `room`. NULL stays NULL.
const float *tt__as_floats(tt_dtype dtype, const void *data, int64_t n,
                           float *room);

// A number among the inputs.
double tt__scalar_of(const tt_site *site, const tt_args *args, int i);

// Scratch memory in pieces of 64 bytes.
static inline int64_t tt__round64(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif
