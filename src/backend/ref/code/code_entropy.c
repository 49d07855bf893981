// code_entropy - reference kernels of the codecs of unknown length (entropy.h).

#include "backend/ref/code/packets.h"
#include "ops/codec/entropy.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static uint32_t digest(const void *params)
{
    return tt_code_digest(params);
}

// ---- bits ----------------------------------------------------------------

// Bits from the lowest of each byte on. A reader that asks for more than there is gets
// zeros, and is_over.
typedef struct bits {
    unsigned char *to;
    const unsigned char *from;
    int64_t at, end; // in bits
    bool is_over;
} bits;

static void put_bit(bits *b, int bit)
{
    if (b->at < b->end && bit != 0)
        b->to[b->at / 8] = (unsigned char)(b->to[b->at / 8] | 1 << b->at % 8);
    b->is_over |= b->at >= b->end;
    b->at++;
}

static int get_bit(bits *b)
{
    if (b->at >= b->end) {
        b->is_over = true;
        return 0;
    }
    const int bit = b->from[b->at / 8] >> b->at % 8 & 1;
    b->at++;
    return bit;
}

static void put_gamma(bits *b, uint32_t x)
{
    int length = 0;
    while (x >> length > 1)
        length++;
    for (int i = 0; i < length; i++)
        put_bit(b, 0);
    for (int i = length; i >= 0; i--)
        put_bit(b, (int)(x >> i & 1));
}

// 0: there is none.
static uint32_t get_gamma(bits *b)
{
    int length = 0;
    while (!b->is_over && get_bit(b) == 0)
        length++;
    uint32_t x = 1;
    for (int i = 0; i < length; i++)
        x = x << 1 | (uint32_t)get_bit(b);
    return b->is_over || length > 16 ? 0 : x;
}

// ---- qsgd ----------------------------------------------------------------

// The levels of a block, with signs; returns its norm.
static float levels_of(const tt__ref_job *job, int64_t from, int64_t n,
                       int *level)
{
    const tt_code_params *p = job->params;
    double e[TT_CODE_BLOCK_MOST];
    for (int64_t i = 0; i < n; i++)
        e[i] = (double)(float)job->e[from + i];
    const float norm = (float)sqrt(tt__ref_squares(e, n));
    const float inverse = (float)p->levels / norm;
    const float by =
        norm > 0 && isfinite(inverse) && isfinite(norm) ? inverse : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t random =
            tt_packet_random(job->key, (uint32_t)(from + i));
        const float u = (float)(random >> 8) * 0x1p-24f;
        const float size = floorf(fabsf((float)e[i]) * by + u);
        const int most = (int)p->levels;
        level[i] = size >= 0 && size < (float)most ? (int)size : most;
        level[i] = e[i] < 0 ? -level[i] : level[i];
    }
    return norm;
}

// Bytes of the block; 0: they are not fewer than `most`.
static int64_t write_elias(const int *level, int64_t n, unsigned char *to,
                           int64_t most)
{
    bits b = {.to = to, .end = 8 * most};
    int64_t before = -1;
    for (int64_t i = 0; i < n; i++) {
        if (level[i] == 0)
            continue;
        put_gamma(&b, (uint32_t)(i - before));
        put_bit(&b, level[i] < 0);
        put_gamma(&b, (uint32_t)(level[i] < 0 ? -level[i] : level[i]));
        before = i;
    }
    const int64_t bytes = tt_ceil_div(b.at, 8);
    return b.is_over || bytes >= most ? 0 : bytes;
}

static uint16_t write_block(const tt_code_params *p, const int *level,
                            int64_t n, unsigned char *to)
{
    const int64_t dense = tt_qsgd_dense_bytes(p, n);
    bool is_empty = true;
    for (int64_t i = 0; i < n; i++)
        is_empty &= level[i] == 0;
    if (is_empty)
        return 0;
    memset(to, 0, (size_t)dense);
    const int64_t bytes = write_elias(level, n, to, dense);
    if (bytes > 0) {
        memset(to + bytes, 0, (size_t)(dense - bytes));
        return (uint16_t)bytes;
    }
    memset(to, 0, (size_t)dense);
    bits b = {.to = to, .end = 8 * dense};
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < tt_qsgd_bits(p); k++)
            put_bit(&b, (level[i] + (int)p->levels) >> k & 1);
    return (uint16_t)(dense | TT_QSGD_DENSE);
}

static int64_t encode_qsgd(const tt__ref_job *job, unsigned char *body)
{
    const tt_code_params *p = job->params;
    const int64_t blocks = tt_code_blocks(p, job->n);
    unsigned char *sizes = body + 4 * blocks, *at = body + 6 * blocks;
    int level[TT_CODE_BLOCK_MOST];
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t left = job->n - b * p->block;
        const int64_t n = left < p->block ? left : p->block;
        float norm = levels_of(job, b * p->block, n, level);
        norm *= job->has_residual ? tt_qsgd_shrink(p) : 1;
        const uint16_t size = write_block(p, level, n, at);
        memcpy(body + 4 * b, &norm, sizeof norm);
        memcpy(sizes + 2 * b, &size, sizeof size);
        at += size & ~TT_QSGD_DENSE;
    }
    return at - body;
}

static bool read_dense(const tt_code_params *p, const unsigned char *from,
                       int64_t n, int *level)
{
    bits b = {.from = from, .end = 8 * tt_qsgd_dense_bytes(p, n)};
    for (int64_t i = 0; i < n; i++) {
        level[i] = 0;
        for (int k = 0; k < tt_qsgd_bits(p); k++)
            level[i] |= get_bit(&b) << k;
        level[i] -= (int)p->levels;
        if (level[i] > p->levels)
            return false;
    }
    return true;
}

// Whether nothing but the unused bits of the last byte is left.
static bool is_done(bits b)
{
    bool is_zero = b.end - b.at < 8;
    while (is_zero && b.at < b.end)
        is_zero = get_bit(&b) == 0;
    return is_zero;
}

static bool read_elias(const tt_code_params *p, const unsigned char *from,
                       int64_t bytes, int64_t n, int *level)
{
    bits b = {.from = from, .end = 8 * bytes};
    int64_t at = -1;
    memset(level, 0, (size_t)n * sizeof *level);
    while (!is_done(b)) {
        const uint32_t gap = get_gamma(&b);
        const int is_minus = get_bit(&b);
        const uint32_t size = get_gamma(&b);
        at += gap;
        if (gap == 0 || size == 0 || size > p->levels || at >= n)
            return false;
        level[at] = is_minus ? -(int)size : (int)size;
    }
    return true;
}

static bool decode_qsgd(const tt__ref_job *job, const unsigned char *body,
                        int64_t bytes, double *d)
{
    const tt_code_params *p = job->params;
    const int64_t blocks = tt_code_blocks(p, job->n);
    int64_t at = 6 * blocks;
    int level[TT_CODE_BLOCK_MOST];
    if (bytes < at)
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t left = job->n - b * p->block;
        const int64_t n = left < p->block ? left : p->block;
        float norm;
        uint16_t size;
        memcpy(&norm, body + 4 * b, sizeof norm);
        memcpy(&size, body + 4 * blocks + 2 * b, sizeof size);
        const int64_t length = size & ~TT_QSGD_DENSE;
        const bool is_dense = (size & TT_QSGD_DENSE) != 0;
        if (at + length > bytes ||
            is_dense != (length == tt_qsgd_dense_bytes(p, n)) ||
            length > tt_qsgd_dense_bytes(p, n) ||
            !(is_dense ? read_dense(p, body + at, n, level)
                       : read_elias(p, body + at, length, n, level)))
            return false;
        const float unit = norm / (float)p->levels;
        for (int64_t i = 0; i < n; i++)
            d[b * p->block + i] = (double)((float)level[i] * unit);
        at += length;
    }
    return at == bytes;
}

static const tt__ref_code code_qsgd = {
    .digest = digest,
    .encode = encode_qsgd,
    .decode = decode_qsgd,
};

TT_KERNEL_RUN(run_qsgd, tt__ref_encode(&code_qsgd, site, args))
TT_KERNEL_RUN(run_qsgd_sum, tt__ref_sum(&code_qsgd, site, args))

// ---- 3lc -----------------------------------------------------------------

static const int weight[TT_THREELC_PER_BYTE] = {1, 3, 9, 27, 81};

static float pack_block(const tt__ref_job *job, int64_t from, int64_t n,
                        unsigned char *bytes)
{
    const tt_code_params *p = job->params;
    const int64_t m = tt_ceil_div(n, TT_THREELC_PER_BYTE);
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const float e = (float)job->e[from + i];
        uint32_t size;
        memcpy(&size, &e, sizeof size);
        size &= 0x7fffffffu;
        most = size > most ? size : most;
    }
    float scale;
    memcpy(&scale, &most, sizeof scale);
    scale *= (float)p->sparsity;
    const float inverse = 1 / scale;
    const float by =
        scale > 0 && isfinite(inverse) && isfinite(scale) ? inverse : 0;
    memset(bytes, 0, (size_t)m);
    for (int64_t i = 0; i < m * TT_THREELC_PER_BYTE; i++) {
        const float e = i < n ? (float)job->e[from + i] : 0;
        const float level = floorf(e * by + 0.5f);
        const int digit = level >= -1 ? (int)fminf(level, 1) + 1 : 0;
        bytes[i % m] = (unsigned char)(bytes[i % m] + digit * weight[i / m]);
    }
    return scale;
}

// Writes runs of zeros short; returns the bytes.
static int64_t shorten(const unsigned char *from, int64_t n, unsigned char *to)
{
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        int64_t run = 0;
        while (i + run < n && run < TT_THREELC_LONGEST &&
               from[i + run] == TT_THREELC_ZEROS)
            run++;
        to[out++] =
            run < 2 ? from[i] : (unsigned char)(TT_THREELC_RUN + run - 2);
        i += run < 2 ? 1 : run;
    }
    return out;
}

static int64_t encode_threelc(const tt__ref_job *job, unsigned char *body)
{
    const tt_code_params *p = job->params;
    const int64_t blocks = tt_code_blocks(p, job->n);
    unsigned char *packed = job->room;
    int64_t length = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t left = job->n - b * p->block;
        const int64_t n = left < p->block ? left : p->block;
        const float scale = pack_block(job, b * p->block, n, packed + length);
        memcpy(body + 4 * b, &scale, sizeof scale);
        length += tt_ceil_div(n, TT_THREELC_PER_BYTE);
    }
    return 4 * blocks + shorten(packed, length, body + 4 * blocks);
}

// The packed bytes of n at most; false: they are not just n.
static bool lengthen(const unsigned char *from, int64_t bytes,
                     unsigned char *to, int64_t n)
{
    int64_t out = 0;
    for (int64_t i = 0; i < bytes; i++) {
        const int64_t run =
            from[i] < TT_THREELC_RUN ? 1 : from[i] - TT_THREELC_RUN + 2;
        if (out + run > n)
            return false;
        memset(to + out, from[i] < TT_THREELC_RUN ? from[i] : TT_THREELC_ZEROS,
               (size_t)run);
        out += run;
    }
    return out == n;
}

static bool decode_threelc(const tt__ref_job *job, const unsigned char *body,
                           int64_t bytes, double *d)
{
    const tt_code_params *p = job->params;
    const int64_t blocks = tt_code_blocks(p, job->n);
    const int64_t length = tt_code_digits_bytes(p, TT_THREELC_PER_BYTE, job->n);
    unsigned char *packed = job->room;
    if (bytes < 4 * blocks ||
        !lengthen(body + 4 * blocks, bytes - 4 * blocks, packed, length))
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t left = job->n - b * p->block;
        const int64_t n = left < p->block ? left : p->block;
        const int64_t m = tt_ceil_div(n, TT_THREELC_PER_BYTE);
        float scale;
        memcpy(&scale, body + 4 * b, sizeof scale);
        for (int64_t i = 0; i < n; i++) {
            const int digit = packed[i % m] / weight[i / m] % 3;
            d[b * p->block + i] = (double)((float)(digit - 1) * scale);
        }
        packed += m;
    }
    return true;
}

static const tt__ref_code code_threelc = {
    .digest = digest,
    .encode = encode_threelc,
    .decode = decode_threelc,
};

TT_KERNEL_RUN(run_threelc, tt__ref_encode(&code_threelc, site, args))
TT_KERNEL_RUN(run_threelc_sum, tt__ref_sum(&code_threelc, site, args))

const tt_kernel_def tt__ref_code_entropy_kernels[] = {
    {TT_KERNEL(ref, qsgd_encode), .prepare = tt__ref_packet_prepare,
     .run = run_qsgd},
    {TT_KERNEL(ref, qsgd_sum), .prepare = tt__ref_packet_prepare,
     .run = run_qsgd_sum},
    {TT_KERNEL(ref, threelc_encode), .prepare = tt__ref_packet_prepare,
     .run = run_threelc},
    {TT_KERNEL(ref, threelc_sum), .prepare = tt__ref_packet_prepare,
     .run = run_threelc_sum},
    {0},
};
