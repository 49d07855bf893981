// bins - square_bins of floats, vectorised. ops/bins.c has the idea: a square is cut
// into digits of 28 bits, and each bin counts the digits of one place.
//
// Cutting one square after another is slow, because each has its own exponent. Here a
// block of squares is cut together, one bin per round:
//
//   scale   so that the units of the highest bin that any square reaches are 1
//   digit   the whole part of every square, added to the bin; the fraction is kept
//   next    the bin below, on the fractions, until all are 0
//
// As a rule that takes three or four rounds. Every round is a loop over a block that is
// in the first-level cache. The squares of floats are exact in double, and so is what
// is left of them, so the bins are the same as those of the reference kernel.

#include "ops/bins.h"

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

// A library layout is a vector too: padding is zero and adds nothing.
static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__is_simd(site->in[0].dtype);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    int64_t *count = tt_alloc(sizeof(*count));
    if (count == NULL)
        return tt_fail(TT_ERR_NOMEM, "square_bins: no memory for a kernel");
    *count = tt_target_bytes(&backend->target, &site->in[0]) /
             tt_dtype_bytes(site->in[0].dtype);
    prepared_out->state = count;
    return TT_OK;
}

// The bin that has the highest bit of a square, and the factor that makes its units 1.
static int top_bin(double largest, double *scale_out)
{
    const int e = ilogb(largest) + TT_BIN_SHIFT;
    const int b = e / TT_BIN_BITS;
    *scale_out = ldexp(1, TT_BIN_SHIFT - b * TT_BIN_BITS);
    return b;
}

static void add_block(tt_simd_type type, const void *x, int64_t n,
                      int64_t *bins)
{
    double rest[BLOCK], scale = 0;
    const double largest = tt_simd_get()->reduce->squares(type, x, n, rest);
    if (!isfinite(largest)) {
        for (int64_t i = 0; i < n; i++)
            tt_bins_add(bins, rest[i]);
        return;
    }
    if (largest == 0)
        return;
    int b = top_bin(largest, &scale);
    for (double left = 1; left > 0; b--) {
        bins[b] +=
            (int64_t)tt_simd_get()->reduce->digits(rest, n, scale, &left);
        scale = 1 << TT_BIN_BITS;
    }
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const int64_t n = *(const int64_t *)state;
    const tt_simd_type type = tt__simd_type_of(site->in[0].dtype);
    const char *x = args->in[0];
    int64_t bins[TT_BINS] = {0};
#pragma omp parallel for schedule(static) reduction(+ : bins[:TT_BINS]) if (n >= 65536)
    for (int64_t i = 0; i < n; i += BLOCK)
        add_block(type, x + i * tt_simd_type_bytes(type),
                  n - i < BLOCK ? n - i : BLOCK, bins);
    memcpy(args->out[0], bins, sizeof bins);
    return TT_OK;
}

const tt_kernel_def tt__cpu_bins_kernels[] = {
    {TT_KERNEL(cpu, square_bins), .can = can, .prepare = prepare, .run = run},
    {0},
};
