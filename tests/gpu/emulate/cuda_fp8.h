// cuda_fp8 - floats of 8 bits of the emulated device.

#ifndef EMULATED_CUDA_FP8_H
#define EMULATED_CUDA_FP8_H

#include <cmath>
#include <cstdint>

typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;
typedef uint16_t __nv_fp8x2_storage_t;

// To the nearest, ties to even; what is too large becomes the largest.
inline uint8_t emulated_fp8(float x, __nv_fp8_interpretation_t kind)
{
    const int fraction = kind == __NV_E4M3 ? 3 : 2;
    const int least = kind == __NV_E4M3 ? -6 : -14;
    const float largest = kind == __NV_E4M3 ? 448.f : 57344.f;
    const uint8_t sign = std::signbit(x) ? 0x80 : 0;
    if (x != x)
        return sign | 0x7f;
    const float size = fminf(fabsf(x), largest);
    int exponent = least;
    if (size >= ldexpf(1, least))
        exponent = ilogbf(size);
    const int units = (int)nearbyintf(ldexpf(size, fraction - exponent));
    return (uint8_t)(sign | (((exponent - least) << fraction) + units));
}

inline float emulated_fp8_value(uint8_t bits, __nv_fp8_interpretation_t kind)
{
    const int fraction = kind == __NV_E4M3 ? 3 : 2;
    const int least = kind == __NV_E4M3 ? -6 : -14;
    const int exponent = (bits & 0x7f) >> fraction;
    const int low = bits & ((1 << fraction) - 1);
    float x = exponent == 0 ? ldexpf((float)low, least - fraction)
                            : ldexpf((float)(low + (1 << fraction)),
                                     exponent - 1 + least - fraction);
    if (x > (kind == __NV_E4M3 ? 448.f : 57344.f))
        x = NAN;
    return (bits & 0x80) != 0 ? -x : x;
}

template <typename T>
__nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(const T &x, __nv_saturation_t,
                                              __nv_fp8_interpretation_t kind)
{
    return (uint16_t)(emulated_fp8(x.x, kind) | emulated_fp8(x.y, kind) << 8);
}

#endif
