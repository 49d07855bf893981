// fold - the loops that combine two arrays: sum, maximum, copy.
//
// They are bound by memory, so one pass is what counts, and the compiler vectorises
// them. 16-bit floats are converted to 32 bits, added, and rounded to the nearest. The
// conversions have no branches, since a branch around a floating-point operation would
// keep the compiler from vectorising the loop.

#include "comm/fold.h"

#include "comm/stream.h"

#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} nums[TT_N_NUMS] = {
    [TT_NUM_F64] = {"f64", 8},   [TT_NUM_F32] = {"f32", 4},
    [TT_NUM_BF16] = {"bf16", 2}, [TT_NUM_F16] = {"f16", 2},
    [TT_NUM_I64] = {"i64", 8},   [TT_NUM_I32] = {"i32", 4},
    [TT_NUM_U8] = {"u8", 1},
};

int64_t tt_num_bytes(tt_num type)
{
    return nums[type].bytes;
}

const char *tt_num_name(tt_num type)
{
    return nums[type].name;
}

// ---- 16-bit floats -------------------------------------------------------

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bf16_load(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

static uint16_t bf16_store(float value)
{
    const uint32_t bits = to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// `first` if a < b, both below 2^31. Done by arithmetic, since the compiler does not
// vectorise a branch around a floating-point operation.
static uint32_t if_less(uint32_t a, uint32_t b, uint32_t first, uint32_t second)
{
    const uint32_t mask = 0u - ((a - b) >> 31);
    return second ^ ((first ^ second) & mask);
}

// Both without a branch, so that they are vectorised. Multiplied by 2^112 the bits
// of a 16-bit number, moved up, are its value, also below the smallest normal one.
static float f16_load(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t size = (uint32_t)(h & 0x7fffu) << 13;
    const uint32_t finite = to_bits(from_bits(size) * 0x1p112F);
    const uint32_t special = size | 0x7f800000u;
    return from_bits(sign | if_less(size, 0x0f800000u, finite, special));
}

static uint16_t f16_store(float value)
{
    const uint32_t bits = to_bits(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    const uint32_t even = size - 0x38000000u; // the exponent of 16 bits
    const uint32_t normal = (even + 0xfffu + (even >> 13 & 1u)) >> 13;
    // Adding 1/2 leaves a small number's bits, rounded, at the end of the sum.
    const uint32_t small = to_bits(from_bits(size) + 0.5F) - 0x3f000000u;
    const uint32_t special = 0x7c00u | if_less(0x7f800000u, size, 1, 0) << 9;
    const uint32_t finite = if_less(size, 0x38800000u, small, normal);
    return (uint16_t)(sign | if_less(size, 0x477ff000u, finite, special));
}

// ---- loops ---------------------------------------------------------------

// Where dst is a or b, elements are still read before they are written.
typedef void loop_fn(void *dst, const void *a, const void *b, int64_t n);

static void sum_f64(void *dst, const void *a, const void *b, int64_t n)
{
    double *d = dst;
    const double *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = (double)(x[i] + y[i]);
}

static void max_f64(void *dst, const void *a, const void *b, int64_t n)
{
    double *d = dst;
    const double *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_f32(void *dst, const void *a, const void *b, int64_t n)
{
    float *d = dst;
    const float *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = (float)(x[i] + y[i]);
}

static void max_f32(void *dst, const void *a, const void *b, int64_t n)
{
    float *d = dst;
    const float *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_i64(void *dst, const void *a, const void *b, int64_t n)
{
    int64_t *d = dst;
    const int64_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = (int64_t)(x[i] + y[i]);
}

static void max_i64(void *dst, const void *a, const void *b, int64_t n)
{
    int64_t *d = dst;
    const int64_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_i32(void *dst, const void *a, const void *b, int64_t n)
{
    int32_t *d = dst;
    const int32_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = (int32_t)(x[i] + y[i]);
}

static void max_i32(void *dst, const void *a, const void *b, int64_t n)
{
    int32_t *d = dst;
    const int32_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_u8(void *dst, const void *a, const void *b, int64_t n)
{
    uint8_t *d = dst;
    const uint8_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = (uint8_t)(x[i] + y[i]);
}

static void max_u8(void *dst, const void *a, const void *b, int64_t n)
{
    uint8_t *d = dst;
    const uint8_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_bf16(void *dst, const void *a, const void *b, int64_t n)
{
    uint16_t *d = dst;
    const uint16_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = bf16_store(bf16_load(x[i]) + bf16_load(y[i]));
}

static void max_bf16(void *dst, const void *a, const void *b, int64_t n)
{
    uint16_t *d = dst;
    const uint16_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = bf16_load(x[i]) > bf16_load(y[i]) ? x[i] : y[i];
}

static void sum_f16(void *dst, const void *a, const void *b, int64_t n)
{
    uint16_t *d = dst;
    const uint16_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = f16_store(f16_load(x[i]) + f16_load(y[i]));
}

static void max_f16(void *dst, const void *a, const void *b, int64_t n)
{
    uint16_t *d = dst;
    const uint16_t *x = a, *y = b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = f16_load(x[i]) > f16_load(y[i]) ? x[i] : y[i];
}

void tt_fold_two(tt_fold fold, void *dst, const void *a, const void *b,
                 int64_t bytes)
{
    static loop_fn *const loops[][2] = {
        [TT_NUM_F64] = {sum_f64, max_f64},    [TT_NUM_F32] = {sum_f32, max_f32},
        [TT_NUM_BF16] = {sum_bf16, max_bf16}, [TT_NUM_F16] = {sum_f16, max_f16},
        [TT_NUM_I64] = {sum_i64, max_i64},    [TT_NUM_I32] = {sum_i32, max_i32},
        [TT_NUM_U8] = {sum_u8, max_u8},
    };
    if (bytes == 0)
        return;
    if (fold.op == TT_FOLD_COPY)
        tt_stream(dst, b, bytes);
    else
        loops[fold.type][fold.op == TT_FOLD_MAX](
            dst, a, b, bytes / tt_num_bytes(fold.type));
}

void tt_fold_into(tt_fold fold, void *dst, const void *src, int64_t bytes)
{
    tt_fold_two(fold, dst, dst, src, bytes);
}

void tt_fold_widen(tt_num type, float *dst, const void *src, int64_t n)
{
    const uint16_t *x = src;
    if (type == TT_NUM_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dst[i] = bf16_load(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dst[i] = f16_load(x[i]);
    }
}

void tt_fold_narrow(tt_num type, void *dst, const float *src, int64_t n)
{
    uint16_t *d = dst;
    if (type == TT_NUM_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            d[i] = bf16_store(src[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            d[i] = f16_store(src[i]);
    }
}
