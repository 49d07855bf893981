// code_random - kernels of randomk: entries at random places, the same in all replicas
// (ops/codec/sparse.h). Reading and writing memory is all they do.

#include "backend/cpu/wrap.h"
#include "base/rng.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

#include <string.h>

static bool can_take(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ffII", "ff");
}

static bool can_put(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "fIIf", "f");
}

static uint64_t key_of(const tt_args *args, int seed)
{
    return tt_rng_key((uint64_t) * (const int64_t *)args->in[seed], "randomk",
                      (uint64_t) * (const int64_t *)args->in[seed + 1]);
}

static bool is_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

// left = x + residual; whether all of it is finite. `left` may be `residual`.
static bool add_residual(const float *x, const float *residual, float *left,
                         int64_t n)
{
    int32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        const float e = x[i] + residual[i];
        left[i] = e;
        bad |= !is_finite(e);
    }
    return bad == 0;
}

static tt_status run_take(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const int64_t n = tt_operand_count(&site->in[TT_RK_X]);
    const int64_t k = tt_operand_count(&site->out[0]);
    const uint64_t key = key_of(args, TT_RK_SEED);
    const float *x = args->in[TT_RK_X];
    float *value = args->out[0];
    if (!tt_site_has(site, TT_RK_RESIDUAL)) {
        for (int64_t j = 0; j < k; j++) {
            const int64_t length =
                tt_randomk_first(n, k, j + 1) - tt_randomk_first(n, k, j);
            value[j] = x[tt_randomk_place(key, n, k, j)] * (float)length;
        }
        return TT_OK;
    }
    float *left = args->out[1];
    const bool is_clean = add_residual(x, args->in[TT_RK_RESIDUAL], left, n);
    for (int64_t j = 0; j < k; j++) {
        const int64_t at = tt_randomk_place(key, n, k, j);
        value[j] = left[at];
        left[at] = 0;
    }
    for (int64_t i = 0; i < n && !is_clean; i++)
        left[i] = is_finite(left[i]) ? left[i] : 0;
    return TT_OK;
}

static tt_status run_put(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const int64_t n = tt_operand_count(&site->out[0]);
    const int64_t k = tt_operand_count(&site->in[TT_RP_VALUES]);
    const uint64_t key = key_of(args, TT_RP_SEED);
    const float *value = args->in[TT_RP_VALUES];
    float *y = args->out[0];
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t j = 0; j < k; j++)
        y[tt_randomk_place(key, n, k, j)] = value[j];
    return TT_OK;
}

const tt_kernel_def tt__cpu_code_random_kernels[] = {
    {TT_KERNEL(cpu, randomk_take), .can = can_take, .run = run_take},
    {TT_KERNEL(cpu, randomk_put), .can = can_put, .run = run_put},
    {0},
};
