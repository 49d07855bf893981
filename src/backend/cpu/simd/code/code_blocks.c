// code_blocks - codecs in blocks: scales, digits, and digits in bytes.
//
// A block is a few kilobytes, so that the passes over it (scale, digits, bytes, what is
// left) work in the cache and memory is read and written once. Digits lie in bytes as
// parts of the block, not as neighbours (codes.h), so packing is adding vectors.

#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/code/code_tools.h"
#include "backend/cpu/simd/parallel.h"

extern const tt_simd_code TT_SYMBOL(tt_simd_code);

enum { MOST = TT_CODE_BLOCK_MOST };

typedef uint32_t u16x __attribute__((vector_size(64), aligned(1), may_alias));

// ---- check ---------------------------------------------------------------

TT_INLINE void hash_step(u16x *lane, const void *word)
{
    *lane ^= *(const u16x *)word;
    *lane = (*lane << 13 | *lane >> 19) + 0x9e3779b1u;
}

TT_INLINE uint32_t hash_segment(const char *p, int64_t bytes)
{
    const int64_t stripe = 4 * (int64_t)TT_PACKET_LANES;
    uint32_t lane[TT_PACKET_LANES], sum = 0;
    for (int l = 0; l < TT_PACKET_LANES; l++)
        lane[l] = (uint32_t)l;
    u16x a = *(const u16x *)lane, b = *(const u16x *)(lane + 16);
    int64_t i = 0;
    for (; i + stripe <= bytes; i += stripe) {
        hash_step(&a, p + i);
        hash_step(&b, p + i + 64);
    }
    if (i < bytes) {
        uint32_t word[TT_PACKET_LANES] = {0};
        memcpy(word, p + i, (size_t)(bytes - i));
        hash_step(&a, word);
        hash_step(&b, word + 16);
    }
    memcpy(lane, &a, sizeof a);
    memcpy(lane + 16, &b, sizeof b);
#pragma omp simd reduction(+ : sum)
    for (int l = 0; l < TT_PACKET_LANES; l++)
        sum += tt_packet_mix(lane[l] ^ (uint32_t)l * 0x9e3779b1u);
    return sum;
}

// As tt_packet_hash, 16 lanes in a vector.
static uint32_t hash(const void *data, int64_t bytes)
{
    uint32_t sum = tt_packet_mix((uint32_t)bytes);
    for (int64_t i = 0, s = 0; i < bytes; i += TT_PACKET_SEGMENT, s++)
        sum +=
            tt_packet_term(hash_segment((const char *)data + i,
                                        min_i64(TT_PACKET_SEGMENT, bytes - i)),
                           s);
    return sum;
}

// ---- the codecs ----------------------------------------------------------

typedef enum code { INT8, ONEBIT, SIGN, TWOBIT, TERNARY, NATURAL } code;

enum { MANTISSA = 23, TOP = 254, SPAN = 127, MINUS = 128 };

TT_INLINE void scales_of(code c, const tt_simd_code_args *a, const float *e,
                         int64_t n, float *scale)
{
    if (c == INT8 || c == TERNARY) {
        *scale = largest(e, n);
    } else if (c == NATURAL) {
        const float most = largest(e, n);
        const uint32_t up = (bits_of(most) >> MANTISSA) + 1;
        *scale = !is_finite(most) ? NAN
                                  : float_of((up < TOP ? up : TOP) << MANTISSA);
    } else if (c == ONEBIT) {
        int32_t above = 0;
#pragma omp simd reduction(+ : above)
        for (int64_t i = 0; i < n; i++)
            above += e[i] >= 0;
        scale[0] = above == n ? 0 : sum_of(BELOW, e, n) / (float)(n - above);
        scale[1] = above == 0 ? 0 : sum_of(ABOVE, e, n) / (float)above;
    } else {
        *scale = sum_of(SIZE, e, n) / (float)n;
        if (c == TWOBIT && a->threshold > 0 && is_finite(*scale))
            *scale = a->threshold;
    }
}

// by: the inverse of the scale, where there is one.
TT_INLINE uint8_t digit_of(code c, float scale, float by, float e,
                           uint32_t random)
{
    if (c == INT8) {
        float v = e * by + 0.5f;
        v = v >= -127.0f ? v : -127.0f;
        v = v <= 127.0f ? v : 127.0f;
        return (uint8_t)(floor_of(v) + 128);
    }
    if (c == ONEBIT || c == SIGN)
        return e >= 0;
    if (c == TWOBIT) {
        const int above = e >= scale, below = e <= -scale;
        return (uint8_t)(scale > 0 ? above | (below & ~above) << 1 : 0);
    }
    if (c == TERNARY) {
        const float u = (float)(int32_t)(random >> 8) * 0x1p-24f;
        const float size = float_of(bits_of(e) & 0x7fffffffu);
        const int level = e < 0 ? -1 : 1;
        return (uint8_t)(1 + (u < size * by ? level : 0));
    }
    const int32_t top = (int32_t)(bits_of(scale) >> MANTISSA);
    const int32_t carried =
        (int32_t)(((bits_of(e) & 0x7fffffffu) + (random >> 9)) >> MANTISSA);
    const int32_t power = carried < TOP ? carried : TOP;
    int32_t digit = power - top + SPAN;
    digit = digit < 0 ? 0 : digit;
    digit = digit < SPAN ? digit : SPAN;
    digit = power == 0 ? 0 : digit;
    return (uint8_t)(digit + (e < 0 ? MINUS : 0));
}

// unit: what one level is worth (int8); the scale of the others.
TT_INLINE float value_of(code c, const float *scale, float unit, uint8_t digit)
{
    if (c == INT8)
        return (float)((int32_t)digit - 128) * unit;
    if (c == ONEBIT)
        return digit != 0 ? scale[1] : scale[0];
    if (c == SIGN)
        return digit != 0 ? unit : -unit;
    if (c == TWOBIT)
        return (float)((digit == 1) - (digit == 2)) * unit;
    if (c == TERNARY)
        return (float)((int32_t)digit - 1) * unit;
    const int32_t power =
        (int32_t)(bits_of(unit) >> MANTISSA) + (digit & SPAN) - SPAN;
    const uint32_t size = (uint32_t)power << MANTISSA;
    const uint32_t sign = (uint32_t)(digit & MINUS) << 24;
    const bool is_zero = (digit & SPAN) == 0 || power < 1;
    const float value = float_of(is_zero ? 0 : size | sign);
    return unit > 0 && is_finite(unit) ? value : NAN;
}

TT_INLINE float unit_of(code c, const float *scale)
{
    return c == INT8 ? scale[0] / 127 : scale[0];
}

TT_INLINE int per_byte(code c)
{
    return c == ONEBIT || c == SIGN ? 8
           : c == TWOBIT            ? 4
           : c == TERNARY           ? 5
                                    : 1;
}

TT_INLINE int base_of(code c)
{
    return c == ONEBIT || c == SIGN ? 2 : c == TWOBIT ? 4 : 3;
}

TT_INLINE void encode_block(code c, const tt_simd_code_args *a, int64_t from,
                            int64_t n, float *scale, unsigned char *to)
{
    uint8_t
        digit[MOST]; // not `to`: bytes there might be anything's, to a compiler
    const float *e = a->x + from;
    float *left = a->residual != NULL ? a->left + from : NULL;
    if (left != NULL) {
        const float *r = a->residual + from;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            left[i] = e[i] + r[i];
        e = left;
    }
    scales_of(c, a, e, n, scale);
    const float by = inverse(c == INT8 ? 127 : 1, scale[0]), s = scale[0];
    const uint32_t first = (uint32_t)from;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        digit[i] = digit_of(c, s, by, e[i],
                            c == TERNARY || c == NATURAL
                                ? tt_packet_random(a->key, first + (uint32_t)i)
                                : 0);
    if (per_byte(c) > 1)
        pack(per_byte(c), base_of(c), digit, n, to);
    else
        memcpy(to, digit, (size_t)n);
    if (left == NULL)
        return;
    if (c == TERNARY) {
        const float shrink =
            sum_of(SQUARE, e, n) / (scale[0] * sum_of(SIZE, e, n));
        scale[0] *= shrink < 1 ? shrink : 1;
    }
    const float unit = unit_of(c, scale);
    const float both[2] = {scale[0], c == ONEBIT ? scale[1] : 0};
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float rest = left[i] - value_of(c, both, unit, digit[i]);
        left[i] = is_finite(rest) ? rest : 0;
    }
}

// One copy of the loops for each codec: a parallel region is a function of its own, which
// does not see that its caller passes a constant.
static void encode_any(code c, const tt_simd_code_args *a, int64_t from,
                       int64_t n, float *scale, unsigned char *to)
{
    switch (c) {
    case INT8:
        encode_block(INT8, a, from, n, scale, to);
        break;
    case ONEBIT:
        encode_block(ONEBIT, a, from, n, scale, to);
        break;
    case SIGN:
        encode_block(SIGN, a, from, n, scale, to);
        break;
    case TWOBIT:
        encode_block(TWOBIT, a, from, n, scale, to);
        break;
    case TERNARY:
        encode_block(TERNARY, a, from, n, scale, to);
        break;
    case NATURAL:
        encode_block(NATURAL, a, from, n, scale, to);
        break;
    }
}

static void encode(code c, const tt_simd_code_args *a)
{
    const int64_t scales = c == ONEBIT ? 2 : 1;
    const int64_t blocks = tt__simd_blocks(a->n, a->block);
    const int64_t each = (a->block + per_byte(c) - 1) / per_byte(c);
    unsigned char *bytes = a->body + 4 * scales * blocks;
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t b = 0; b < blocks; b++) {
        float scale[2] = {0};
        encode_any(c, a, b * a->block, min_i64(a->block, a->n - b * a->block),
                   scale, bytes + b * each);
        memcpy(a->body + 4 * scales * b, scale, (size_t)(4 * scales));
    }
}

TT_INLINE void add_block(code c, const float *scale, const uint8_t *digit,
                         float *y, int64_t n, bool is_first)
{
    uint8_t room[MOST];
    if (per_byte(c) > 1) {
        unpack(per_byte(c), base_of(c), digit, n, room);
        digit = room;
    }
    const float unit = unit_of(c, scale);
    const float both[2] = {scale[0], scale[1]};
    if (is_first) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = value_of(c, both, unit, digit[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] += value_of(c, both, unit, digit[i]);
    }
}

static void add_any(code c, const float *scale, const uint8_t *digit, float *y,
                    int64_t n, bool is_first)
{
    switch (c) {
    case INT8:
        add_block(INT8, scale, digit, y, n, is_first);
        break;
    case ONEBIT:
        add_block(ONEBIT, scale, digit, y, n, is_first);
        break;
    case TWOBIT:
        add_block(TWOBIT, scale, digit, y, n, is_first);
        break;
    case TERNARY:
        add_block(TERNARY, scale, digit, y, n, is_first);
        break;
    case NATURAL:
        add_block(NATURAL, scale, digit, y, n, is_first);
        break;
    case SIGN:
        break; // votes
    }
}

static void add(code c, const tt_simd_code_add *a)
{
    const int64_t scales = c == ONEBIT ? 2 : 1;
    const int64_t blocks = tt__simd_blocks(a->n, a->block);
    const int64_t each = (a->block + per_byte(c) - 1) / per_byte(c);
    const unsigned char *bytes = a->body + 4 * scales * blocks;
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t b = 0; b < blocks; b++) {
        float scale[2] = {0};
        memcpy(scale, a->body + 4 * scales * b, (size_t)(4 * scales));
        add_any(c, scale, bytes + b * each, a->y + b * a->block,
                min_i64(a->block, a->n - b * a->block), a->is_first);
    }
}

// Adds the signs of one body to what was counted, eight bits of a byte for eight parts of
// the block (codes.h).
TT_INLINE void count_signs(const unsigned char *bytes, int64_t n,
                           uint8_t *count)
{
    const int64_t m = (n + 7) / 8;
    for (int k = 0; k < 8; k++) {
        uint8_t *part = count + k * m;
        const int64_t end = min_i64(m, n - k * m);
#pragma omp simd
        for (int64_t j = 0; j < end; j++)
            part[j] = (uint8_t)(part[j] + (bytes[j] >> k & 1));
    }
}

// Counts of peers from `first` on, as many as a byte can count: their plus votes less
// their minus votes are added to `votes`.
static void vote_some(const tt_simd_code_vote *a, int64_t b, int64_t first,
                      int64_t peers, int32_t *votes)
{
    uint8_t count[MOST] = {0};
    const int64_t blocks = tt__simd_blocks(a->n, a->block);
    const int64_t n = min_i64(a->block, a->n - b * a->block);
    const int64_t from = 4 * blocks + b * ((a->block + 7) / 8);
    for (int64_t p = first; p < first + peers; p++)
        count_signs(a->body + p * a->stride + from, n, count);
    const int32_t all = (int32_t)peers;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        votes[i] = (first == 0 ? 0 : votes[i]) + 2 * (int32_t)count[i] - all;
}

// The sum of scales where most signs are plus, minus it where most are minus.
static void vote(const tt_simd_code_vote *a)
{
    const int64_t blocks = tt__simd_blocks(a->n, a->block);
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t b = 0; b < blocks; b++) {
        int32_t votes[MOST];
        votes[0] = 0;
        const int64_t n = min_i64(a->block, a->n - b * a->block);
        float sum = 0, *y = a->y + b * a->block;
        for (int64_t p = 0; p < a->peers; p++) {
            float scale;
            memcpy(&scale, a->body + p * a->stride + 4 * b, sizeof scale);
            scale = float_of(bits_of(scale) & 0x7fffffffu);
            sum = p == 0 ? scale : sum + scale;
        }
        for (int64_t p = 0; p < a->peers; p += UINT8_MAX)
            vote_some(a, b, p, min_i64(UINT8_MAX, a->peers - p), votes);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const int32_t sign =
                (votes[i] > 0 ? 1 : 0) - (votes[i] < 0 ? 1 : 0);
            y[i] = sum * (float)sign;
        }
    }
}

static void int8(const tt_simd_code_args *a)
{
    encode(INT8, a);
}
static void onebit(const tt_simd_code_args *a)
{
    encode(ONEBIT, a);
}
static void sign(const tt_simd_code_args *a)
{
    encode(SIGN, a);
}
static void twobit(const tt_simd_code_args *a)
{
    encode(TWOBIT, a);
}
static void ternary(const tt_simd_code_args *a)
{
    encode(TERNARY, a);
}
static void natural(const tt_simd_code_args *a)
{
    encode(NATURAL, a);
}
static void int8_add(const tt_simd_code_add *a)
{
    add(INT8, a);
}
static void onebit_add(const tt_simd_code_add *a)
{
    add(ONEBIT, a);
}
static void twobit_add(const tt_simd_code_add *a)
{
    add(TWOBIT, a);
}
static void ternary_add(const tt_simd_code_add *a)
{
    add(TERNARY, a);
}
static void natural_add(const tt_simd_code_add *a)
{
    add(NATURAL, a);
}

const tt_simd_code TT_SYMBOL(tt_simd_code) = {
    .hash = hash,
    .int8 = int8,
    .onebit = onebit,
    .sign = sign,
    .twobit = twobit,
    .ternary = ternary,
    .natural = natural,
    .int8_add = int8_add,
    .onebit_add = onebit_add,
    .twobit_add = twobit_add,
    .ternary_add = ternary_add,
    .natural_add = natural_add,
    .vote = vote,
};
