// What a federation tells about a client: the accountant against published values; masks.

#include "base/rng.h"
#include "exchange/masks.h"
#include "exchange/privacy.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Abadi et al. 2016: q = 0.01, sigma = 4, 10,000 steps, delta 1e-5: about 1.26.
TEST(the_accountant_has_the_published_epsilon)
{
    CHECK(fabs(tt_privacy_epsilon(0.01, 4, 10000, 1e-5) - 1.26) < 0.01);
}

// Without sampling the Gaussian mechanism has a closed form at the best order:
// T / (2 s^2) + sqrt(2 T log(1 / delta)) / s.
TEST(the_accountant_has_the_closed_form_without_sampling)
{
    const double s = 20, rounds = 10, d = 1e-5;
    const double closed =
        rounds / (2 * s * s) + sqrt(2 * rounds * log(1 / d)) / s;
    const double epsilon = tt_privacy_epsilon(1, s, (int64_t)rounds, d);
    CHECK(epsilon >= closed && epsilon < 1.001 * closed);
}

TEST(epsilon_grows_with_rounds_and_falls_with_noise)
{
    CHECK(tt_privacy_epsilon(0.1, 1, 0, 1e-5) == 0);
    CHECK(isinf(tt_privacy_epsilon(0.1, 0, 1, 1e-5)));
    CHECK(tt_privacy_epsilon(0.1, 1, 10, 1e-5) <
          tt_privacy_epsilon(0.1, 1, 20, 1e-5));
    CHECK(tt_privacy_epsilon(0.1, 2, 10, 1e-5) <
          tt_privacy_epsilon(0.1, 1, 10, 1e-5));
    CHECK(tt_privacy_epsilon(0.05, 1, 10, 1e-5) <
          tt_privacy_epsilon(0.1, 1, 10, 1e-5));
}

// ---- masks ---------------------------------------------------------------

enum { CLIENTS = 9, N = 1001 };

static void fill(uint64_t v[N], int32_t client)
{
    for (int i = 0; i < N; i++)
        v[i] = tt_masks_encode(tt_rng_normal((uint64_t)client, (uint64_t)i));
}

static void check_sum(const bool *is_there)
{
    const tt_masks masks = tt_masks_of(5, 3, CLIENTS);
    static uint64_t sum[N], plain[N], v[N];
    memset(sum, 0, sizeof sum);
    memset(plain, 0, sizeof plain);
    for (int32_t k = 0; k < CLIENTS; k++) {
        fill(v, k);
        for (int i = 0; is_there[k] && i < N; i++)
            plain[i] += v[i];
        tt_masks_hide(&masks, k, v, N);
        for (int i = 0; is_there[k] && i < N; i++)
            sum[i] += v[i];
    }
    CHECK(memcmp(sum, plain, sizeof sum) != 0);
    CHECK_OK(tt_masks_reveal(&masks, is_there, sum, N));
    CHECK(memcmp(sum, plain, sizeof sum) == 0);
}

TEST(masks_cancel_in_the_sum)
{
    bool is_there[CLIENTS];
    memset(is_there, true, sizeof is_there);
    check_sum(is_there);
}

TEST(masks_of_those_who_are_gone_are_taken_out)
{
    for (int gone = 1; gone <= 4; gone++)
        for (int first = 0; first + gone <= CLIENTS; first++) {
            bool is_there[CLIENTS];
            memset(is_there, true, sizeof is_there);
            for (int i = 0; i < gone; i++)
                is_there[(first + 2 * i) % CLIENTS] = false;
            check_sum(is_there);
        }
}

TEST(too_few_cannot_take_masks_out)
{
    const tt_masks masks = tt_masks_of(5, 3, CLIENTS);
    const bool is_there[CLIENTS] = {true, true, true, true};
    uint64_t sum[1] = {0};
    CHECK(tt_masks_reveal(&masks, is_there, sum, 1) == TT_ERR_STATE);
}

// What the server sees of one client: bits are even, whatever was hidden.
TEST(a_masked_change_looks_uniform)
{
    const tt_masks masks = tt_masks_of(5, 3, CLIENTS);
    for (int32_t k = 0; k < CLIENTS; k++) {
        uint64_t v[N] = {0};
        int bins[16] = {0};
        double squares = 0;
        tt_masks_hide(&masks, k, v, N);
        for (int b = 0; b < 64; b++) {
            int ones = 0;
            for (int i = 0; i < N; i++)
                ones += (int)(v[i] >> b & 1);
            CHECK(abs(ones - N / 2) < 80); // five deviations
        }
        for (int i = 0; i < N; i++)
            bins[v[i] >> 60]++;
        for (int i = 0; i < 16; i++)
            squares += (bins[i] - N / 16.0) * (bins[i] - N / 16.0);
        CHECK(squares / (N / 16.0) <
              45); // chi-squared of 15: one in ten thousand
    }
}

TEST(fewer_shares_than_the_threshold_fit_any_secret)
{
    const int32_t who[] = {6, 1, 3, 0};
    uint64_t share[4];
    for (int i = 0; i < 4; i++)
        share[i] = tt_masks_share(123456789, 77, 4, who[i]);
    CHECK(tt_masks_join(who, share, 4) == 123456789);
    CHECK(tt_masks_join(who, share, 3) != 123456789);
    share[3]++; // for every value of the last share there is another secret
    CHECK(tt_masks_join(who, share, 4) != 123456789);
}

TEST(fixed_point_keeps_nine_digits)
{
    const double x[] = {0, 1, -1, 0.1, -1e-3, 12345.678};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        CHECK(fabs(tt_masks_decode(tt_masks_encode(x[i])) - x[i]) < 2e-10);
    CHECK(tt_masks_fits(1e6, 100) && !tt_masks_fits(1e9, 100));
}
