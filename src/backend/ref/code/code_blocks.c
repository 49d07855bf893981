// code_blocks - reference kernels of the codecs in blocks: scales and digits (codes.h).

#include "backend/ref/code/packets.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// One codec. The scales of a block of n numbers; the digit of one; what it stands for.
typedef struct block_code {
    int base;
    void (*scales)(const tt_code_params *p, const double *e, int64_t n,
                   float *scale);
    int (*digit)(const float *scale, float e, uint32_t random);
    float (*value)(const float *scale, int digit);
    // By what the scale is multiplied where there is a residual; NULL: nothing.
    float (*shrink)(const double *e, int64_t n, float scale);
} block_code;

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Not finite if an entry is not: the bits of absolute values are ordered as they are,
// and infinity and NaN come last.
static void largest(const tt_code_params *p, const double *e, int64_t n,
                    float *scale)
{
    uint32_t most = 0;
    (void)p;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of((float)e[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    *scale = float_of(most);
}

// by / scale, or 0 where that is not a finite number: then all is sent as zero.
static float inverse(float by, float scale)
{
    const float inv = by / scale;
    return scale > 0 && isfinite(inv) && isfinite(scale) ? inv : 0;
}

static int digit_int8(const float *scale, float e, uint32_t random)
{
    (void)random;
    const float level = floorf(e * inverse(127, *scale) + 0.5f);
    return (int)(level >= -127 ? fminf(level, 127) : -127) + 128;
}

static float value_int8(const float *scale, int digit)
{
    return (float)(digit - 128) * (*scale / 127);
}

// Of a side without entries it is 0.
static void means(const tt_code_params *p, const double *e, int64_t n,
                  float *scale)
{
    tt__ref_chains sum[2] = {0};
    int64_t count[2] = {0};
    (void)p;
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)e[i];
        const int side = x >= 0;
        tt__ref_chains_add(&sum[side], x);
        tt__ref_chains_add(&sum[1 - side], 0);
        count[side]++;
    }
    for (int s = 0; s < 2; s++)
        scale[s] =
            count[s] == 0 ? 0 : tt__ref_chains_sum(sum[s]) / (float)count[s];
}

static int digit_side(const float *scale, float e, uint32_t random)
{
    (void)scale;
    (void)random;
    return e >= 0;
}

static float value_onebit(const float *scale, int digit)
{
    return scale[digit];
}

static void mean_size(const tt_code_params *p, const double *e, int64_t n,
                      float *scale)
{
    tt__ref_chains sum = {0};
    (void)p;
    for (int64_t i = 0; i < n; i++)
        tt__ref_chains_add(&sum, fabsf((float)e[i]));
    *scale = tt__ref_chains_sum(sum) / (float)n;
}

// The digit alone votes, whatever sign a peer gives to the scale.
static float value_sign(const float *scale, int digit)
{
    return digit != 0 ? fabsf(*scale) : -fabsf(*scale);
}

// A fixed threshold must not hide that an entry is not finite.
static void threshold(const tt_code_params *p, const double *e, int64_t n,
                      float *scale)
{
    mean_size(p, e, n, scale);
    if (p->threshold > 0 && isfinite(*scale))
        *scale = (float)p->threshold;
}

static int digit_twobit(const float *scale, float e, uint32_t random)
{
    (void)random;
    if (!(*scale > 0))
        return 0;
    return e >= *scale ? 1 : e <= -*scale ? 2 : 0;
}

static float value_twobit(const float *scale, int digit)
{
    return (float)(digit == 1 ? 1 : digit == 2 ? -1 : 0) * *scale;
}

static int digit_ternary(const float *scale, float e, uint32_t random)
{
    const float u = (float)(random >> 8) * 0x1p-24f;
    if (!(u < fabsf(e) * inverse(1, *scale)))
        return 1;
    return e < 0 ? 0 : 2;
}

static float shrink_ternary(const double *e, int64_t n, float scale)
{
    tt__ref_chains sizes = {0}, squares = {0};
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)e[i];
        tt__ref_chains_add(&sizes, fabsf(x));
        tt__ref_chains_add(&squares, x * x);
    }
    const float by =
        tt__ref_chains_sum(squares) / (scale * tt__ref_chains_sum(sizes));
    return by < 1 ? by : 1;
}

static float value_ternary(const float *scale, int digit)
{
    return (float)(digit - 1) * *scale;
}

enum { MANTISSA = 23, TOP = 254, SPAN = 127, MINUS = 128 };

static void power_above(const tt_code_params *p, const double *e, int64_t n,
                        float *scale)
{
    float most;
    largest(p, e, n, &most);
    const uint32_t up = (bits_of(most) >> MANTISSA) + 1;
    if (isfinite(most))
        *scale = float_of((up < TOP ? up : TOP) << MANTISSA);
    else
        *scale = NAN;
}

// Adding random bits below the exponent carries into it with just the right odds.
static int digit_natural(const float *scale, float e, uint32_t random)
{
    const uint32_t bits = (bits_of(e) & 0x7fffffffu) + (random >> 9);
    const int top = (int)(bits_of(*scale) >> MANTISSA);
    const int power =
        (int)(bits >> MANTISSA) < TOP ? (int)(bits >> MANTISSA) : (int)TOP;
    int digit = power - top + SPAN;
    digit = power == 0 || digit < 0 ? 0 : digit < SPAN ? digit : (int)SPAN;
    return digit + (e < 0 ? MINUS : 0);
}

static float value_natural(const float *scale, int digit)
{
    const int power =
        (int)(bits_of(*scale) >> MANTISSA) + (digit & SPAN) - SPAN;
    if (!(*scale > 0) || !isfinite(*scale))
        return NAN; // no encoder writes a scale that is 0
    if ((digit & SPAN) == 0 || power < 1)
        return 0;
    const float size = float_of((uint32_t)power << MANTISSA);
    return digit >= MINUS ? -size : size;
}

// ---- blocks --------------------------------------------------------------

static int power_of(int base, int k)
{
    int power = 1;
    for (int i = 0; i < k; i++)
        power *= base;
    return power;
}

static void encode_block(const block_code *c, const tt__ref_job *job,
                         int64_t from, int64_t n, float *scale,
                         unsigned char *bytes)
{
    const double *e = job->e + from;
    const int64_t m = tt_ceil_div(n, job->form->per_byte);
    c->scales(job->params, e, n, scale);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t random =
            tt_packet_random(job->key, (uint32_t)(from + i));
        const int digit = c->digit(scale, (float)e[i], random);
        bytes[i % m] = (unsigned char)(bytes[i % m] +
                                       digit * power_of(c->base, (int)(i / m)));
    }
    if (c->shrink != NULL && job->has_residual)
        *scale *= c->shrink(e, n, *scale);
}

static int64_t encode(const tt__ref_job *job, unsigned char *body)
{
    const block_code *c = job->how;
    const tt_code_params *p = job->params;
    const int64_t blocks = tt_code_blocks(p, job->n);
    const int64_t scales = job->form->scales;
    unsigned char *bytes = body + 4 * scales * blocks;
    for (int64_t b = 0; b < blocks; b++) {
        float scale[2] = {0};
        const int64_t left = job->n - b * p->block;
        const int64_t n = left < p->block ? left : p->block;
        encode_block(c, job, b * p->block, n, scale, bytes);
        memcpy(body + 4 * scales * b, scale, (size_t)(4 * scales));
        bytes += tt_ceil_div(n, job->form->per_byte);
    }
    return bytes - body;
}

static bool decode(const tt__ref_job *job, const unsigned char *body,
                   int64_t bytes, double *d)
{
    const block_code *c = job->how;
    const tt_code_params *p = job->params;
    const int64_t scales = job->form->scales;
    const unsigned char *at = body + 4 * scales * tt_code_blocks(p, job->n);
    if (bytes != tt_packet_body(job->form, p, job->n, TT_F32))
        return false;
    for (int64_t from = 0; from < job->n; from += p->block) {
        float scale[2];
        const int64_t left = job->n - from;
        const int64_t n = left < p->block ? left : p->block;
        const int64_t m = tt_ceil_div(n, job->form->per_byte);
        memcpy(scale, body + 4 * scales * (from / p->block),
               (size_t)(4 * scales));
        for (int64_t i = 0; i < n; i++) {
            const int digit =
                at[i % m] / power_of(c->base, (int)(i / m)) % c->base;
            d[from + i] = (double)c->value(scale, digit);
        }
        at += m;
    }
    return true;
}

static uint32_t digest(const void *params)
{
    return tt_code_digest(params);
}

// ---- int8 --------------------------------------------------------------

static const block_code block_int8 = {256, largest, digit_int8, value_int8,
                                      NULL};

static const tt__ref_code code_int8 = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_int8,
};

TT_KERNEL_RUN(run_int8, tt__ref_encode(&code_int8, site, args))
TT_KERNEL_RUN(run_int8_sum, tt__ref_sum(&code_int8, site, args))

// ---- onebit ------------------------------------------------------------

static const block_code block_onebit = {2, means, digit_side, value_onebit,
                                        NULL};

static const tt__ref_code code_onebit = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_onebit,
};

TT_KERNEL_RUN(run_onebit, tt__ref_encode(&code_onebit, site, args))
TT_KERNEL_RUN(run_onebit_sum, tt__ref_sum(&code_onebit, site, args))

// ---- sign --------------------------------------------------------------

static const block_code block_sign = {2, mean_size, digit_side, value_sign,
                                      NULL};

static const tt__ref_code code_sign = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_sign,
    .is_vote = true,
};

TT_KERNEL_RUN(run_sign, tt__ref_encode(&code_sign, site, args))
TT_KERNEL_RUN(run_sign_sum, tt__ref_sum(&code_sign, site, args))

// ---- twobit ------------------------------------------------------------

static const block_code block_twobit = {4, threshold, digit_twobit,
                                        value_twobit, NULL};

static const tt__ref_code code_twobit = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_twobit,
};

TT_KERNEL_RUN(run_twobit, tt__ref_encode(&code_twobit, site, args))
TT_KERNEL_RUN(run_twobit_sum, tt__ref_sum(&code_twobit, site, args))

// ---- ternary -----------------------------------------------------------

static const block_code block_ternary = {3, largest, digit_ternary,
                                         value_ternary, shrink_ternary};

static const tt__ref_code code_ternary = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_ternary,
};

TT_KERNEL_RUN(run_ternary, tt__ref_encode(&code_ternary, site, args))
TT_KERNEL_RUN(run_ternary_sum, tt__ref_sum(&code_ternary, site, args))

// ---- natural -----------------------------------------------------------

static const block_code block_natural = {256, power_above, digit_natural,
                                         value_natural, NULL};

static const tt__ref_code code_natural = {
    .digest = digest,
    .encode = encode,
    .decode = decode,
    .how = &block_natural,
};

TT_KERNEL_RUN(run_natural, tt__ref_encode(&code_natural, site, args))
TT_KERNEL_RUN(run_natural_sum, tt__ref_sum(&code_natural, site, args))

const tt__ref_code *tt__ref_code_of(const tt_packet_form *form)
{
    static const tt__ref_code *const all[] = {
        [TT_PACKET_INT8] = &code_int8,
        [TT_PACKET_ONEBIT] = &code_onebit,
        [TT_PACKET_SIGN] = &code_sign,
        [TT_PACKET_TWOBIT] = &code_twobit,
        [TT_PACKET_TERNARY] = &code_ternary,
        [TT_PACKET_NATURAL] = &code_natural,
    };
    return all[form->kind];
}

const tt_kernel_def tt__ref_code_blocks_kernels[] = {
    {TT_KERNEL(ref, int8_encode), .prepare = tt__ref_packet_prepare,
     .run = run_int8},
    {TT_KERNEL(ref, int8_sum), .prepare = tt__ref_packet_prepare,
     .run = run_int8_sum},
    {TT_KERNEL(ref, onebit_encode), .prepare = tt__ref_packet_prepare,
     .run = run_onebit},
    {TT_KERNEL(ref, onebit_sum), .prepare = tt__ref_packet_prepare,
     .run = run_onebit_sum},
    {TT_KERNEL(ref, sign_encode), .prepare = tt__ref_packet_prepare,
     .run = run_sign},
    {TT_KERNEL(ref, sign_sum), .prepare = tt__ref_packet_prepare,
     .run = run_sign_sum},
    {TT_KERNEL(ref, twobit_encode), .prepare = tt__ref_packet_prepare,
     .run = run_twobit},
    {TT_KERNEL(ref, twobit_sum), .prepare = tt__ref_packet_prepare,
     .run = run_twobit_sum},
    {TT_KERNEL(ref, ternary_encode), .prepare = tt__ref_packet_prepare,
     .run = run_ternary},
    {TT_KERNEL(ref, ternary_sum), .prepare = tt__ref_packet_prepare,
     .run = run_ternary_sum},
    {TT_KERNEL(ref, natural_encode), .prepare = tt__ref_packet_prepare,
     .run = run_natural},
    {TT_KERNEL(ref, natural_sum), .prepare = tt__ref_packet_prepare,
     .run = run_natural_sum},
    {0},
};
