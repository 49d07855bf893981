// simd_check - see the header.

#include "backend/simd_check.h"

#include "test.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 4096 };

static void *blocks[MAX_BLOCKS];
static int n_blocks;
static uint64_t random_state = 1;

static void *block(int64_t bytes)
{
    CHECK(n_blocks < MAX_BLOCKS);
    const size_t whole = ((size_t)bytes + 63) / 64 * 64 + 64;
    void *p = aligned_alloc(64, whole);
    CHECK(p != NULL);
    memset(p, 0, whole);
    blocks[n_blocks++] = p;
    return p;
}

static double random_number(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 9007199254740992.0 * 2.0 - 1.0;
}

double buf_get(const buf *b, int64_t i)
{
    if (b->type == TT_SIMD_F32)
        return (double)((const float *)b->data)[i];
    const uint32_t u = (uint32_t)((const uint16_t *)b->data)[i] << 16;
    float x;
    memcpy(&x, &u, sizeof(x));
    return (double)x;
}

void buf_set(const buf *b, int64_t i, double value)
{
    const float x = (float)value;
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    if (b->type == TT_SIMD_F32)
        ((float *)b->data)[i] = x;
    else // cut off: any bf16 number will do
        ((uint16_t *)b->data)[i] = (uint16_t)(u >> 16);
}

buf buf_filled(tt_simd_type type, int64_t n, double value)
{
    const buf b = {type, n, block(n * tt_simd_type_bytes(type))};
    for (int64_t i = 0; i < n; i++)
        buf_set(&b, i, value);
    return b;
}

buf buf_random(tt_simd_type type, int64_t n, double size)
{
    const buf b = buf_filled(type, n, 0.0);
    for (int64_t i = 0; i < n; i++)
        buf_set(&b, i, size * random_number());
    return b;
}

buf buf_copy(const buf *b)
{
    const int64_t bytes = b->n * tt_simd_type_bytes(b->type);
    const buf copy = {b->type, b->n, block(bytes)};
    memcpy(copy.data, b->data, (size_t)bytes);
    return copy;
}

void buf_check_same(const buf *a, const buf *b, const char *what)
{
    const int64_t bytes = a->n * tt_simd_type_bytes(a->type);
    CHECK_MSG(memcmp(a->data, b->data, (size_t)bytes) == 0,
              "%s: the bits depend on the number of threads", what);
}

void buf_check(const buf *got, const double *want, const char *what)
{
    buf_check_loose(got, want, 1.0, what);
}

void buf_check_loose(const buf *got, const double *want, double times,
                     const char *what)
{
    const double tol = got->type == TT_SIMD_F32 ? 1e-5 : 0.00391 * times;
    for (int64_t i = 0; i < got->n; i++) {
        const double x = buf_get(got, i);
        if (x == want[i] || (isnan(x) && isnan(want[i])))
            continue;
        const double limit = tol * fmax(1.0, fabs(want[i]));
        CHECK_MSG(fabs(x - want[i]) <= limit,
                  "%s (%s): element %lld of %lld is %.9g, not %.9g", what,
                  got->type == TT_SIMD_F32 ? "fp32" : "bf16", (long long)i,
                  (long long)got->n, x, want[i]);
    }
}

double *doubles(int64_t n)
{
    return block(n * 8);
}

void simd_each(simd_case_fn *run)
{
    for (int i = 0; tt_simd_at(i) != NULL; i++)
        for (int type = TT_SIMD_F32; type <= TT_SIMD_BF16; type++) {
            random_state = 1;
            run(tt_simd_at(i), (tt_simd_type)type);
            while (n_blocks > 0)
                free(blocks[--n_blocks]);
        }
}

void use_threads(int n)
{
    omp_set_num_threads(n);
}
