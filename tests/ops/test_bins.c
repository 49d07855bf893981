// Sums of squares in bins: what is added in any order and in any parts is the same in
// every bit, nothing is lost, and what is not finite shows. The fast kernel counts as
// the plain one does, for numbers of every size.

#include "backend/backend.h"
#include "base/rng.h"
#include "ops/bins.h"
#include "ops/ops.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 5003 };

TEST(bins_hold_a_single_square_as_it_is)
{
    static const double value[] = {0x1p-1074, 0x1p-1022, 1e-300,   1e-12,
                                   0.3,       1,         0x1.8p27, 0x1p28,
                                   3e200,     DBL_MAX,   0x1p1023};
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        int64_t bins[TT_BINS] = {0};
        tt_bins_add(bins, value[i]);
        CHECK(tt_bins_sum(bins) == value[i]);
    }
    int64_t none[TT_BINS] = {0};
    tt_bins_add(none, 0);
    CHECK(tt_bins_sum(none) == 0);
}

TEST(bins_lose_nothing)
{
    // 2^40 and 2^20 ones, counted by ones: no double adds them up like this.
    int64_t bins[TT_BINS] = {0};
    tt_bins_add(bins, 0x1p60);
    for (int i = 0; i < 1 << 12; i++)
        tt_bins_add(bins, 1);
    CHECK(tt_bins_sum(bins) == 0x1p60 + 0x1p12);
    tt_bins_add(bins, 0x1p-500);
    CHECK(tt_bins_sum(bins) == 0x1p60 + 0x1p12);
    for (int i = 0; i < 1 << 10; i++)
        tt_bins_add(bins, (double)0x1p27f - 1);
    CHECK(tt_bins_sum(bins) == 0x1p60 + 0x1p12 + 0x1p10 * (0x1p27 - 1));
}

TEST(bins_say_what_is_not_finite)
{
    static const double bad[] = {(double)INFINITY, (double)NAN};
    for (int i = 0; i < 2; i++) {
        int64_t bins[TT_BINS] = {0};
        tt_bins_add(bins, 2);
        tt_bins_add(bins, bad[i]);
        CHECK(!isfinite(tt_bins_sum(bins)));
    }
}

// Numbers whose sizes spread over `powers` of two, both signs, some zero.
static void fill(float *x, int powers, uint64_t seed)
{
    const uint64_t key = tt_rng_key(seed, "bins", 0);
    for (int i = 0; i < N; i++) {
        const double u = tt_rng_uniform(key, (uint64_t)(3 * i));
        const double e = tt_rng_uniform(key, (uint64_t)(3 * i + 1));
        const int power = (int)((e - 0.5) * powers);
        x[i] = i % 17 == 3 ? 0 : (float)ldexp(2 * u - 1, power);
    }
}

static void run(const char *device, const float *x, int64_t n, int64_t *bins)
{
    const tt_backend_options options = {.n_threads = 2};
    tt_backend *backend = NULL;
    tt_operand in = {.dtype = TT_F32}, out = {.dtype = TT_I64};
    tt_shape shape = {0}, counts = {0};
    CHECK_OK(tt_shape_push(&shape, "a", n));
    CHECK_OK(tt_shape_push(&counts, "bin", TT_BINS));
    tt_local_whole(&shape, &in.local);
    tt_local_whole(&counts, &out.local);
    tt_operand_set_dense(&in);
    tt_operand_set_dense(&out);
    tt_site site = {.op = &tt_op_square_bins,
                    .origin = "test",
                    .n_in = 1,
                    .n_out = 1,
                    .in = &in,
                    .out = &out};
    tt_choice choice;
    CHECK_OK(tt_backend_open(tt_backend_find(device), &options, &backend));
    CHECK_OK(backend->target.choose(&backend->target, &site, &choice));
    const tt_args args = {.in = (const void *const[]){x},
                          .out = (void *const[]){bins}};
    CHECK_OK(tt_kernel_run(choice.kernel, &args));
    tt_kernel_free(choice.kernel);
    tt_backend_close(backend);
}

TEST(bins_of_parts_are_those_of_the_whole_on_every_device)
{
    static const int powers[] = {0, 8, 60, 250};
    static const char *const device[] = {"ref", "cpu"};
    static float x[N];
    for (uint64_t i = 0; i < 4; i++) {
        int64_t want[TT_BINS] = {0};
        fill(x, powers[i], i);
        for (int k = N - 1; k >= 0; k--) // the other way round
            tt_bins_add(want, (double)x[k] * (double)x[k]);
        for (int d = 0; d < 2; d++) {
            int64_t whole[TT_BINS], left[TT_BINS], right[TT_BINS];
            run(device[d], x, N, whole);
            CHECK_MSG(memcmp(whole, want, sizeof want) == 0,
                      "%s over %d powers", device[d], powers[i]);
            run(device[d], x, 1300, left);
            run(device[d], x + 1300, N - 1300, right);
            for (int b = 0; b < TT_BINS; b++)
                CHECK(left[b] + right[b] == want[b]);
        }
    }
}

TEST(bins_of_what_is_not_finite_are_counted_on_every_device)
{
    static const char *const device[] = {"ref", "cpu"};
    static float x[N];
    for (int d = 0; d < 2; d++)
        for (int bad = 0; bad < 2; bad++) {
            int64_t bins[TT_BINS], want[TT_BINS] = {0};
            fill(x, 8, 5);
            x[3500] = x[N - 2] = bad == 0 ? NAN : -INFINITY;
            for (int i = 0; i < N; i++)
                tt_bins_add(want, (double)x[i] * (double)x[i]);
            run(device[d], x, N, bins);
            CHECK(bins[TT_BINS - 1] == 2);
            CHECK(!isfinite(tt_bins_sum(bins)));
            CHECK(memcmp(bins, want, sizeof want) == 0);
        }
}

TEST(bins_give_the_norm_that_doubles_give)
{
    static float x[N];
    int64_t bins[TT_BINS] = {0};
    double sum = 0;
    fill(x, 12, 9);
    for (int i = 0; i < N; i++)
        sum += (double)x[i] * (double)x[i];
    run("cpu", x, N, bins);
    CHECK_CLOSE(tt_bins_sum(bins) / sum, 1, 1e-13);
}
