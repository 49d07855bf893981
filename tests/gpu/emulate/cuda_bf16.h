// cuda_bf16 - bfloat16 of the emulated device.

#ifndef EMULATED_CUDA_BF16_H
#define EMULATED_CUDA_BF16_H

#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x)
{
    const uint32_t wide = (uint32_t)x.bits << 16;
    float y;
    memcpy(&y, &wide, sizeof y);
    return y;
}

// To the nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return {0x7fff};
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// A double that lies between two floats is not rounded twice.
inline __nv_bfloat16 __double2bfloat16(double x)
{
    float y = (float)x;
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    if (y == y && (double)y != x && (bits & 1) == 0) {
        const bool is_larger = ((double)y > x) == (x > 0);
        bits += is_larger ? -1u : 1u;
        memcpy(&y, &bits, sizeof y);
    }
    return __float2bfloat16_rn(y);
}

#endif
