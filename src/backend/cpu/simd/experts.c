// experts - moves rows between tokens and the slots of experts. Each row is written by
// one thread, from its pairs in order, so the bits do not depend on the number of
// threads.

#include "backend/cpu/simd/experts.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/route.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_experts TT_SYMBOL(tt_simd_experts);

enum { COLS = 64, NONE = -1, SEVERAL = -2 };

TT_INLINE float gate_of(const tt_simd_experts_args *a, int64_t pair)
{
    return a->gate == NULL ? 1 : a->gate[pair];
}

static bool forks(const tt_simd_experts_args *a)
{
    return a->tokens * a->choices * a->cols >= TT_FORK_ELEMENTS;
}

// ---- dispatch ------------------------------------------------------------

// Which pair each row comes from; where slots are given once, it is one at most.
static void find_pairs(const tt_simd_experts_args *a)
{
    const int64_t n = a->tokens * a->choices;
    for (int64_t r = 0; r < a->rows; r++)
        a->pair[r] = NONE;
    for (int64_t i = 0; i < n; i++) {
        const int32_t r = a->row[i];
        if (r >= 0)
            a->pair[r] = a->pair[r] == NONE ? (int32_t)i : SEVERAL;
    }
}

TT_INLINE void write_row(tt_simd_type type, const tt_simd_experts_args *a,
                         int64_t r, int64_t pair)
{
    void *y = at_mut(type, a->y, r * a->cols);
    const void *x = at(type, a->x, pair / a->choices * a->cols);
    const float gate = gate_of(a, pair);
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, y, j, gate * load(type, x, j));
}

// A row with several pairs: all pairs are searched for it. This is rare. A few columns
// at a time are summed in registers.
static void add_row(tt_simd_type type, const tt_simd_experts_args *a, int64_t r)
{
    const int64_t n = a->tokens * a->choices;
    for (int64_t col = 0; col < a->cols; col += COLS) {
        const int64_t width = min_i64(COLS, a->cols - col);
        float sum[COLS] = {0};
        for (int64_t i = 0; i < n; i++) {
            if (a->row[i] != r)
                continue;
            const void *x = at(type, a->x, i / a->choices * a->cols + col);
            const float gate = gate_of(a, i);
            for (int64_t j = 0; j < width; j++)
                sum[j] += gate * load(type, x, j);
        }
        for (int64_t j = 0; j < width; j++)
            store(type, a->y, r * a->cols + col + j, sum[j]);
    }
}

static void dispatch(const tt_simd_experts_args *a)
{
    const int64_t bytes = a->cols * tt_simd_type_bytes(a->type);
    find_pairs(a);
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t r = 0; r < a->rows; r++) {
        if (a->pair[r] == NONE)
            memset((char *)a->y + r * bytes, 0, (size_t)bytes);
        else if (a->pair[r] == SEVERAL)
            add_row(a->type, a, r);
        else if (a->type == TT_SIMD_BF16)
            write_row(TT_SIMD_BF16, a, r, a->pair[r]);
        else
            write_row(TT_SIMD_F32, a, r, a->pair[r]);
    }
}

// ---- combine -------------------------------------------------------------

// The usual two choices at once; a choice without a row is the other one, times 0.
TT_INLINE void add_two(tt_simd_type type, const tt_simd_experts_args *a,
                       int64_t pair, void *y)
{
    const int32_t *row = a->row + pair;
    const int32_t p = row[0] >= 0 ? row[0] : row[1];
    const int32_t q = row[1] >= 0 ? row[1] : row[0];
    const float u = row[0] >= 0 ? gate_of(a, pair) : 0;
    const float v = row[1] >= 0 ? gate_of(a, pair + 1) : 0;
    const void *f = at(type, a->z, p * a->cols);
    const void *g = at(type, a->z, q * a->cols);
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, y, j, u * load(type, f, j) + v * load(type, g, j));
}

TT_INLINE void add_any(tt_simd_type type, const tt_simd_experts_args *a,
                       int64_t pair, void *y)
{
    for (int64_t col = 0; col < a->cols; col += COLS) {
        const int64_t width = min_i64(COLS, a->cols - col);
        float sum[COLS] = {0};
        for (int64_t c = pair; c < pair + a->choices; c++) {
            if (a->row[c] < 0)
                continue;
            const void *z = at(type, a->z, a->row[c] * a->cols + col);
            const float gate = gate_of(a, c);
#pragma omp simd
            for (int64_t j = 0; j < width; j++)
                sum[j] += gate * load(type, z, j);
        }
#pragma omp simd
        for (int64_t j = 0; j < width; j++)
            store(type, y, col + j, sum[j]);
    }
}

TT_INLINE void combine_token(tt_simd_type type, const tt_simd_experts_args *a,
                             int64_t token)
{
    const int64_t pair = token * a->choices;
    void *y = at_mut(type, a->y, token * a->cols);
    if (a->choices == 2 && (a->row[pair] >= 0 || a->row[pair + 1] >= 0))
        add_two(type, a, pair, y);
    else
        add_any(type, a, pair, y);
}

static void combine(const tt_simd_experts_args *a)
{
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t t = 0; t < a->tokens; t++) {
        if (a->type == TT_SIMD_BF16)
            combine_token(TT_SIMD_BF16, a, t);
        else
            combine_token(TT_SIMD_F32, a, t);
    }
}

// ---- gate_grad -----------------------------------------------------------

// Sums in lanes, whose number does not depend on the instruction set's width alone:
// compilers are free to keep them in any registers.
TT_INLINE float dot(tt_simd_type type, const void *x, const void *z, int64_t n)
{
    enum { LANES = 32 };
    float lane[LANES] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            lane[l] += load(type, x, j + l) * load(type, z, j + l);
    for (; j < n; j++)
        lane[j % LANES] += load(type, x, j) * load(type, z, j);
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

TT_INLINE float gate_grad_of(tt_simd_type type, const tt_simd_experts_args *a,
                             int64_t pair)
{
    if (a->row[pair] < 0)
        return 0;
    return dot(type, at(type, a->x, pair / a->choices * a->cols),
               at(type, a->z, a->row[pair] * a->cols), a->cols);
}

static void gate_grad(const tt_simd_experts_args *a)
{
    const int64_t n = a->tokens * a->choices;
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t i = 0; i < n; i++)
        a->dgate[i] = a->type == TT_SIMD_BF16 ? gate_grad_of(TT_SIMD_BF16, a, i)
                                              : gate_grad_of(TT_SIMD_F32, a, i);
}

const tt_simd_experts TT_SYMBOL(tt_simd_experts) = {
    .dispatch = dispatch,
    .combine = combine,
    .gate_grad = gate_grad,
    .route = TT_SYMBOL(tt__experts_route),
    .route_grad = TT_SYMBOL(tt__route_grad),
    .route_scratch_bytes = TT_SYMBOL(tt__route_scratch_bytes),
};
