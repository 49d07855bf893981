// code_entropy - codes of unknown length: 3lc (ops/codec/entropy.h). A block's bytes are
// made as those of codecs in blocks; making runs short goes byte by byte, but there is one
// byte for five numbers.

#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/code/code_tools.h"
#include "ops/codec/entropy.h"

extern const tt_simd_code_entropy TT_SYMBOL(tt_simd_code_entropy);

enum {
    MOST = TT_CODE_BLOCK_MOST,
    PER = TT_THREELC_PER_BYTE,
    BYTES = (MOST + PER - 1) / PER,
};

// Digits of a block and what is left of it; returns the scale.
TT_INLINE float digits_of(const tt_simd_code_args *a, int64_t from, int64_t n,
                          uint8_t *digit)
{
    const float *e = a->x + from;
    float *left = a->residual != NULL ? a->left + from : NULL;
    if (left != NULL) {
        const float *r = a->residual + from;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            left[i] = e[i] + r[i];
        e = left;
    }
    const float scale = largest(e, n) * a->sparsity;
    const float by = inverse(1, scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = e[i] * by + 0.5f;
        v = v >= -1.0f ? v : -1.0f;
        v = v <= 1.0f ? v : 1.0f;
        digit[i] = (uint8_t)(floor_of(v) + 1);
    }
    if (left == NULL)
        return scale;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float rest = left[i] - (float)((int32_t)digit[i] - 1) * scale;
        left[i] = is_finite(rest) ? rest : 0;
    }
    return scale;
}

// A run of zeros that has not been written yet.
static unsigned char *put_run(unsigned char *to, int64_t run)
{
    if (run > 0)
        *to++ = (unsigned char)(run == 1 ? TT_THREELC_ZEROS
                                         : TT_THREELC_RUN + run - 2);
    return to;
}

static int64_t threelc(const tt_simd_code_args *a)
{
    uint8_t digit[MOST + PER];
    unsigned char bytes[BYTES];
    const int64_t blocks = (a->n + a->block - 1) / a->block;
    unsigned char *to = a->body + 4 * blocks;
    int64_t run = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t n = min_i64(a->block, a->n - b * a->block);
        const int64_t m = (n + PER - 1) / PER;
        const float scale = digits_of(a, b * a->block, n, digit);
        memcpy(a->body + 4 * b, &scale, sizeof scale);
        memset(digit + n, 1, (size_t)(m * PER - n));
        pack(PER, 3, digit, m * PER, bytes);
        for (int64_t j = 0; j < m; j++) {
            if (bytes[j] == TT_THREELC_ZEROS && ++run < TT_THREELC_LONGEST)
                continue;
            to = put_run(to, run);
            if (bytes[j] != TT_THREELC_ZEROS)
                *to++ = bytes[j];
            run = 0;
        }
    }
    return put_run(to, run) - a->body;
}

// The next m bytes with runs made long; false: there are not as many.
static bool get_bytes(const tt_simd_code_add *a, int64_t *at, int64_t *run,
                      unsigned char *to, int64_t m)
{
    for (int64_t j = 0; j < m; j++) {
        if (*run > 0) {
            to[j] = TT_THREELC_ZEROS;
            (*run)--;
            continue;
        }
        if (*at == a->bytes)
            return false;
        const unsigned char byte = a->body[(*at)++];
        to[j] = byte < TT_THREELC_RUN ? byte : TT_THREELC_ZEROS;
        *run = byte < TT_THREELC_RUN ? 0 : byte - TT_THREELC_RUN + 1;
    }
    return true;
}

static bool threelc_add(const tt_simd_code_add *a)
{
    uint8_t digit[MOST];
    unsigned char bytes[BYTES] = {0};
    const int64_t blocks = (a->n + a->block - 1) / a->block;
    int64_t at = 4 * blocks, run = 0;
    if (a->bytes < at)
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t n = min_i64(a->block, a->n - b * a->block);
        float scale, *y = a->y + b * a->block;
        memcpy(&scale, a->body + 4 * b, sizeof scale);
        if (!get_bytes(a, &at, &run, bytes, (n + PER - 1) / PER))
            return false;
        unpack(PER, 3, bytes, n, digit);
        const bool is_first = a->is_first;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float v = (float)((int32_t)digit[i] - 1) * scale;
            y[i] = is_first ? v : y[i] + v;
        }
    }
    return at == a->bytes && run == 0;
}

const tt_simd_code_entropy TT_SYMBOL(tt_simd_code_entropy) = {
    .threelc = threelc,
    .threelc_add = threelc_add,
};
