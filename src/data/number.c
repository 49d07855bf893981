// number - conversion of arrays, one loop per width.

#include "data/number.h"

#include <math.h>
#include <string.h>

uint32_t tt_u32_at(const void *from)
{
    const uint8_t *p = from;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

uint64_t tt_u64_at(const void *from)
{
    const uint8_t *p = from;
    return (uint64_t)tt_u32_at(p) | (uint64_t)tt_u32_at(p + 4) << 32;
}

// The bits of one element, the least significant first.
static uint64_t bits_at(tt_number type, const uint8_t *p)
{
    uint64_t bits = 0;
    for (int i = 0; i < type.bytes; i++)
        bits |= (uint64_t)p[type.is_big ? type.bytes - 1 - i : i] << (8 * i);
    return bits;
}

static int64_t extend(uint64_t bits, int bytes)
{
    const int shift = 64 - 8 * bytes;
    return (int64_t)(bits << shift) >> shift;
}

// Sign, 5 bits of exponent, 10 of fraction.
static float f32_of_half(uint32_t bits)
{
    const int exponent = (int)(bits >> 10) & 31;
    const float fraction = (float)(bits & 1023);
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf(fraction, -24);
    return sign * ldexpf(1024 + fraction, exponent - 25);
}

static float f32_at(tt_number type, const uint8_t *p)
{
    const uint64_t bits = bits_at(type, p);
    if (type.kind == 'i')
        return (float)extend(bits, type.bytes);
    if (type.kind == 'u')
        return (float)bits;
    if (type.bytes == 8) {
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        return (float)wide;
    }
    if (type.bytes == 2)
        return f32_of_half((uint32_t)bits);
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

void tt_number_to_f32(tt_number type, const void *from, int64_t n, float *out)
{
    const uint8_t *p = from;
    if (type.kind == 'f' && type.bytes == 4 && !type.is_big) {
        memcpy(out, from, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = f32_at(type, p + i * type.bytes);
}

static bool read_i32(tt_number type, const uint8_t *p, int32_t *out)
{
    const uint64_t bits = bits_at(type, p);
    const int64_t value =
        type.kind == 'i' ? extend(bits, type.bytes) : (int64_t)bits;
    *out = (int32_t)value;
    return value == *out;
}

tt_status tt_number_to_i32(tt_number type, const void *from, int64_t n,
                           int32_t *out, int64_t *bad_out)
{
    const uint8_t *p = from;
    if (type.kind == 'u' && type.bytes == 2 && !type.is_big) {
        for (int64_t i = 0; i < n; i++)
            out[i] = p[2 * i] | p[2 * i + 1] << 8;
        return TT_OK;
    }
    if (type.kind == 'u' && type.bytes == 1) {
        for (int64_t i = 0; i < n; i++)
            out[i] = p[i];
        return TT_OK;
    }
    for (int64_t i = 0; i < n; i++)
        if (!read_i32(type, p + i * type.bytes, &out[i])) {
            *bad_out = i;
            return TT_ERR_ARG;
        }
    return TT_OK;
}
