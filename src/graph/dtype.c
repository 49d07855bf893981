// dtype - sizes, names and conversions of element types.

#include "graph/dtype.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
    bool is_float;
} info[TT_N_DTYPES] = {
    [TT_F64] = {"f64", 8, true},    [TT_F32] = {"f32", 4, true},
    [TT_BF16] = {"bf16", 2, true},  [TT_F16] = {"f16", 2, true},
    [TT_I64] = {"i64", 8, false},   [TT_I32] = {"i32", 4, false},
    [TT_U8] = {"u8", 1, false},     [TT_E4M3] = {"e4m3", 1, false},
    [TT_E5M2] = {"e5m2", 1, false},
};

int64_t tt_dtype_bytes(tt_dtype dtype)
{
    return info[dtype].bytes;
}

const char *tt_dtype_name(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES ? info[dtype].name : "none";
}

bool tt_dtype_is_float(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES && info[dtype].is_float;
}

bool tt_dtype_find(const char *name, tt_dtype *dtype_out)
{
    for (int i = 0; i < TT_N_DTYPES; i++)
        if (strcmp(info[i].name, name) == 0) {
            *dtype_out = (tt_dtype)i;
            return true;
        }
    return false;
}

static float bf16_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t float_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)((bits >> 16) | 0x40u); // stays a NaN
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

static double f16_to_double(uint16_t bits)
{
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    double value;
    if (exponent == 31)
        value = fraction != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -value : value;
}

static uint16_t double_to_f16(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs(value);
    if (isnan(value))
        return (uint16_t)(sign | 0x7e00);
    if (size == 0) // has no exponent
        return sign;
    if (size >= 65520.0)
        return (uint16_t)(sign | 0x7c00);
    int exponent = 0;
    frexp(size, &exponent); // size = m * 2^exponent with m in [0.5, 1)
    if (exponent < -13)
        exponent = -13; // subnormal: units of 2^-24
    const double units = nearbyint(ldexp(size, 11 - exponent));
    // A carry out of the fraction moves into the exponent by itself.
    const int base = (exponent + 13) << 10;
    return (uint16_t)(sign | (uint16_t)(base + (int)units));
}

// Floats of 8 bits: so many bits of fraction, exponents from `least`.
typedef struct tiny {
    int fraction, least;
    double largest;
    uint8_t nan;
} tiny;

static const tiny e4m3 = {3, -6, 448, 0x7f}, e5m2 = {2, -14, 57344, 0x7f};

double tt_dtype_largest(tt_dtype dtype)
{
    return dtype == TT_E4M3 ? e4m3.largest : e5m2.largest;
}

static double tiny_to_double(const tiny *t, uint8_t bits)
{
    const int size = bits & 0x7f, exponent = size >> t->fraction;
    const int fraction = size & ((1 << t->fraction) - 1);
    const double value = exponent == 0
                             ? ldexp(fraction, t->least - t->fraction)
                             : ldexp(fraction + (1 << t->fraction),
                                     exponent - 1 + t->least - t->fraction);
    if (value > t->largest)
        return (double)NAN;
    return (bits & 0x80) != 0 ? -value : value;
}

static uint8_t double_to_tiny(const tiny *t, double value)
{
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    const double size = fmin(fabs(value), t->largest);
    if (!isfinite(value))
        return (uint8_t)(sign | t->nan);
    int exponent = t->least;
    if (size >= ldexp(1, t->least))
        exponent = ilogb(size);
    const double units = nearbyint(ldexp(size, t->fraction - exponent));
    // A carry out of the fraction moves into the exponent by itself.
    const int base = (exponent - t->least) << t->fraction;
    return (uint8_t)(sign | (uint8_t)(base + (int)units));
}

double tt_dtype_load(tt_dtype dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case TT_F64:
        return ((const double *)base)[i];
    case TT_F32:
        return (double)((const float *)base)[i];
    case TT_BF16:
        return (double)bf16_to_float(((const uint16_t *)base)[i]);
    case TT_F16:
        return f16_to_double(((const uint16_t *)base)[i]);
    case TT_I64:
        return (double)((const int64_t *)base)[i];
    case TT_I32:
        return ((const int32_t *)base)[i];
    case TT_U8:
        return ((const uint8_t *)base)[i];
    case TT_E4M3:
        return tiny_to_double(&e4m3, ((const uint8_t *)base)[i]);
    case TT_E5M2:
        return tiny_to_double(&e5m2, ((const uint8_t *)base)[i]);
    default:
        return (double)NAN;
    }
}

static double clamp(double value, double lo, double hi)
{
    if (isnan(value))
        return 0;
    return value < lo ? lo : value > hi ? hi : value;
}

void tt_dtype_store(tt_dtype dtype, void *base, int64_t i, double value)
{
    switch (dtype) {
    case TT_F64:
        ((double *)base)[i] = value;
        break;
    case TT_F32:
        ((float *)base)[i] = (float)value;
        break;
    case TT_BF16:
        ((uint16_t *)base)[i] = float_to_bf16((float)value);
        break;
    case TT_F16:
        ((uint16_t *)base)[i] = double_to_f16(value);
        break;
    case TT_I64:
        ((int64_t *)base)[i] = (int64_t)clamp(value, -0x1p62, 0x1p62);
        break;
    case TT_I32:
        ((int32_t *)base)[i] = (int32_t)clamp(value, INT32_MIN, INT32_MAX);
        break;
    case TT_U8:
        ((uint8_t *)base)[i] = (uint8_t)clamp(value, 0, 255);
        break;
    case TT_E4M3:
        ((uint8_t *)base)[i] = double_to_tiny(&e4m3, value);
        break;
    case TT_E5M2:
        ((uint8_t *)base)[i] = double_to_tiny(&e5m2, value);
        break;
    default:
        break;
    }
}
