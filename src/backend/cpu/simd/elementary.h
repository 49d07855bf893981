// elementary - exp, log, tanh, erf and sigmoid of one number, without branches, so that
// loops over them vectorise. The C library's functions do not inline, and a call per
// element would cost more than the rest of the loop.
//
//   accuracy   relative error at most 2e-7 where the function is well conditioned
//   NaN        gives NaN; infinities give the limits
//
// tanh, erf and sigmoid use exp for large arguments. The method is the usual one:
//
//   exp(x) = 2^n e^r     n = x / ln 2, rounded     r = x - n ln 2, |r| <= ln 2 / 2
//
// e^r is a polynomial. ln 2 is subtracted as two numbers, the first of which has few
// bits, so that n times it is exact. 2^n is written directly into the exponent's bits.

#ifndef TT_BACKEND_CPU_SIMD_ELEMENTARY_H
#define TT_BACKEND_CPU_SIMD_ELEMENTARY_H

#include "backend/cpu/simd/scalar.h"

#include <math.h>
#include <stdint.h>

// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
#define TT_ROUNDER 12582912.0f

// x 2^n for n in [-300, 256]. One factor could leave the range of floats where the
// result does not, so there are two. Only the second product can round, when the
// result is subnormal.
TT_INLINE float scale_by_power(float x, int32_t n)
{
    const int32_t half = n >> 1;
    return x * float_of((uint32_t)(half + 127) << 23) *
           float_of((uint32_t)(n - half + 127) << 23);
}

TT_INLINE float v_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + TT_ROUNDER;
    const float n = shifted - TT_ROUNDER;
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 0.00139261761f;
    p = p * r + 0.00836317307f;
    p = p * r + 0.0416665547f;
    p = p * r + 0.16666577f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return scale_by_power(p, (int32_t)(bits_of(shifted) - 0x4b400000u));
}

// As TT_ROUNDER plus 127, the exponent's bias: the low bits are then the exponent field
// of 2^n, and shifting them up by 23 makes the float 2^n.
#define TT_EXPONENT_ROUNDER 12583039.0f

// 2^x for x <= about 1; results below the smallest normal number become 0.
// The inner loop of attention: cheaper than v_exp, which covers every range.
TT_INLINE float v_exp2_below(float x)
{
    const float y = x < -126.0f ? -126.0f : x;
    const float shifted = y + TT_EXPONENT_ROUNDER;
    const float r = y - (shifted - TT_EXPONENT_ROUNDER);
    float p = 0.000154531629f;
    p = p * r + 0.00133908634f;
    p = p * r + 0.00961808256f;
    p = p * r + 0.0555035711f;
    p = p * r + 0.240226508f;
    p = p * r + 0.693147188f;
    p = p * r + 1.0f;
    p *= float_of(bits_of(shifted) << 23);
    return x < -126.0f ? 0.0f : p;
}

// exp(x) for x <= about 0, as above: what softmax needs. The error is relative
// to max(1, |x|).
TT_INLINE float v_exp_below(float x)
{
    return v_exp2_below(x * 1.44269504f);
}

// exp(x) where a sum with a number near 1 follows: below e^-87 it stays there,
// above e^88 it is infinity.
TT_INLINE float v_exp_near(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float shifted = x * 1.44269504f + TT_EXPONENT_ROUNDER;
    const float n = shifted - TT_EXPONENT_ROUNDER;
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 0.00139261761f;
    p = p * r + 0.00836317307f;
    p = p * r + 0.0416665547f;
    p = p * r + 0.16666577f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return p * float_of(bits_of(shifted) << 23);
}

TT_INLINE float v_log(float x)
{
    const float big = x < 1.17549435e-38f ? x * 8388608.0f : x;
    const uint32_t u =
        bits_of(big) - 0x3f3504f3u; // so that m is in [0.707, 1.414)
    const int32_t e = (int32_t)u >> 23;
    const float f = float_of((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    const float n = (float)e - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    float p = 0.0697161147f;
    p = p * f - 0.114797338f;
    p = p * f + 0.116854199f;
    p = p * f - 0.124256873f;
    p = p * f + 0.142490576f;
    p = p * f - 0.166678023f;
    p = p * f + 0.200007157f;
    p = p * f - 0.24999997f;
    p = p * f + 0.333333312f;
    const float ff = f * f;
    float y = p * ff * f + n * 1.42860677e-6f;
    y = (y - 0.5f * ff) + f + n * 0.693145752f;
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x < INFINITY ? y : x; // infinity and NaN are their own logarithm
}

TT_INLINE float v_sigmoid(float x)
{
    return 1.0f / (1.0f + v_exp_near(-x));
}

TT_INLINE float v_tanh(float x)
{
    const float s = x * x;
    float p = -0.00609671417f;
    p = p * s + 0.020997179f;
    p = p * s - 0.0538509096f;
    p = p * s + 0.133327697f;
    p = p * s - 0.333333289f;
    const float small = p * s * x + x;
    const float large = 1.0f - 2.0f / (v_exp_near(2.0f * fabsf(x)) + 1.0f);
    return fabsf(x) < 0.625f ? small : (x < 0.0f ? -large : large);
}

TT_INLINE float v_erf(float x)
{
    const float s = x * x;
    float p = -0.000621458536f;
    p = p * s + 0.00503437066f;
    p = p * s - 0.0267929478f;
    p = p * s + 0.112824966f;
    p = p * s - 0.376125545f;
    p = p * s + 0.128379158f;
    const float small = p * x + x;
    const float a = fabsf(x) > 4.0f ? 4.0f : fabsf(x);
    float q = -9.66520363e-7f;
    q = q * a + 3.29430793e-5f;
    q = q * a - 0.00048787292f;
    q = q * a + 0.00425906781f;
    q = q * a - 0.025033612f;
    q = q * a + 0.107710578f;
    q = q * a + 0.634254156f;
    q = q * a + 0.128871047f;
    const float large = 1.0f - v_exp_near(-(q * a + a));
    return fabsf(x) < 0.875f ? small : (x < 0.0f ? -large : large);
}

#endif
