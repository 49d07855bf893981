// load_any - one element of a type that is known at run time only.

#ifndef TT_BACKEND_CUDA_DEV_LOAD_ANY_CUH
#define TT_BACKEND_CUDA_DEV_LOAD_ANY_CUH

#include "backend/cuda/dev/element.cuh"

// Any type, one element, as a double: for numbers and for rare conversions.
__device__ static inline double load_any(tt_dtype type, const void *p,
                                         int64_t i)
{
    switch (type) {
    case TT_F64:
        return ((const double *)p)[i];
    case TT_F32:
        return ((const float *)p)[i];
    case TT_BF16:
        return to_float(((const bf16 *)p)[i]);
    case TT_F16:
        return to_float(((const f16 *)p)[i]);
    case TT_I64:
        return (double)((const int64_t *)p)[i];
    case TT_I32:
        return ((const int32_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

// Integers saturate; NaN becomes 0 there, as on the host.
__device__ static inline double limit(double x, double lo, double hi)
{
    return x != x ? 0 : fmin(fmax(rint(x), lo), hi);
}

__device__ static inline void store_any(tt_dtype type, void *p, int64_t i,
                                        double x)
{
    switch (type) {
    case TT_F64:
        ((double *)p)[i] = x;
        break;
    case TT_F32:
        ((float *)p)[i] = (float)x;
        break;
    case TT_BF16:
        ((bf16 *)p)[i] = __double2bfloat16(x);
        break;
    case TT_F16:
        ((f16 *)p)[i] = __double2half(x);
        break;
    case TT_I64:
        ((int64_t *)p)[i] = x >= 9223372036854775807.0
                                ? INT64_MAX
                                : (int64_t)limit(x, -9.3e18, 9.3e18);
        break;
    case TT_I32:
        ((int32_t *)p)[i] = (int32_t)limit(x, -2147483648.0, 2147483647.0);
        break;
    default:
        ((uint8_t *)p)[i] = (uint8_t)limit(x, 0, 255);
        break;
    }
}

#endif
