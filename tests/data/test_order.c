// The order of samples: permutations and windows.

#include "data/order.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static bool is_permutation(uint64_t seed, int64_t n, int64_t epoch)
{
    const tt_order_of order = {.seed = seed, .n = n, .shuffle = true};
    char *seen = calloc((size_t)n, 1);
    CHECK(seen != NULL);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = tt_order_index(&order, epoch * n + i);
        CHECK(k >= 0 && k < n);
        count += !seen[k];
        seen[k] = 1;
    }
    free(seen);
    return count == n;
}

TEST(order_gives_every_index_once_per_epoch)
{
    static const int64_t sizes[] = {1,  2,   3,   4,    5,    7,    8,
                                    9,  15,  16,  17,   31,   64,   65,
                                    99, 100, 101, 1000, 4096, 4097, 65537};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
        for (int64_t epoch = 0; epoch < 3; epoch++)
            CHECK_MSG(is_permutation(42, sizes[i], epoch), "n = %lld",
                      (long long)sizes[i]);
}

TEST(order_without_shuffle_counts)
{
    const tt_order_of order = {.seed = 1, .n = 7};
    for (int64_t i = 0; i < 21; i++) {
        CHECK(tt_order_index(&order, i) == i % 7);
        CHECK(tt_order_epoch(&order, i) == i / 7);
    }
}

// Positions at which two orders of n agree. By chance it is one.
static int64_t agreements(const tt_order_of *a, const tt_order_of *b,
                          int64_t from_a, int64_t from_b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->n; i++)
        n += tt_order_index(a, from_a + i) == tt_order_index(b, from_b + i);
    return n;
}

TEST(order_differs_between_epochs_and_seeds)
{
    const int64_t n = 10000;
    const tt_order_of a = {.seed = 1, .n = n, .shuffle = true};
    const tt_order_of b = {.seed = 2, .n = n, .shuffle = true};
    CHECK(agreements(&a, &b, 0, 0) < 10);
    CHECK(agreements(&a, &a, 0, n) < 10);
    CHECK(agreements(&a, &a, n, 2 * n) < 10);
    CHECK(agreements(&a, &a, 0, 0) == n);
}

TEST(order_of_neighbours_is_not_correlated)
{
    const int64_t n = 40000;
    const tt_order_of order = {.seed = 7, .n = n, .shuffle = true};
    const double mean = (double)(n - 1) / 2,
                 variance = (double)n * (double)n / 12;
    for (int64_t lag = 1; lag <= 200; lag += lag == 1 ? 1 : 66) {
        double sum = 0;
        for (int64_t i = 0; i + lag < n; i++)
            sum += ((double)tt_order_index(&order, i) - mean) *
                   ((double)tt_order_index(&order, i + lag) - mean);
        const double correlation = sum / (double)n / variance;
        CHECK_MSG(fabs(correlation) < 5 / sqrt((double)n), "lag %lld: %g",
                  (long long)lag, correlation);
    }
}

// How often each of the n! orders comes, as chi-squared over its mean.
TEST(order_of_few_is_uniform)
{
    int count[6] = {0};
    enum { DRAWS = 6000 };
    const tt_order_of order = {.seed = 3, .n = 3, .shuffle = true};
    for (int64_t e = 0; e < DRAWS; e++) {
        const int64_t a = tt_order_index(&order, 3 * e);
        const int64_t b = tt_order_index(&order, 3 * e + 1);
        count[2 * a + (b > 3 - a - b)]++;
    }
    double chi = 0;
    for (int i = 0; i < 6; i++)
        chi += pow(count[i] - DRAWS / 6.0, 2) / (DRAWS / 6.0);
    CHECK_MSG(chi < 25, "chi-squared %g", chi); // 5 degrees: one in 7,000
}

TEST(order_of_two_takes_turns)
{
    const tt_order_of order = {.seed = 3, .n = 2, .shuffle = true};
    int first = 0;
    for (int64_t e = 0; e < 1000; e++)
        first += tt_order_index(&order, 2 * e) == 0;
    CHECK(first > 400 && first < 600);
}

TEST(order_of_2_to_40_stays_inside_and_spreads)
{
    const tt_order_of order = {
        .seed = 5, .n = (int64_t)1 << 40, .shuffle = true};
    int eighth[8] = {0};
    for (int64_t i = 0; i < 8000; i++) {
        const int64_t k = tt_order_index(&order, i);
        CHECK(k >= 0 && k < order.n);
        eighth[k >> 37]++;
    }
    for (int i = 0; i < 8; i++)
        CHECK_MSG(eighth[i] > 850 && eighth[i] < 1150, "%d", eighth[i]);
    const tt_order_of huge = {.seed = 5, .n = INT64_MAX / 2, .shuffle = true};
    CHECK(tt_order_index(&huge, huge.n - 1) < huge.n);
}

TEST(windows_cover_the_stream_and_never_leave_it)
{
    for (int64_t tokens = 2; tokens < 60; tokens++)
        for (int64_t seq = 1; seq < tokens; seq++) {
            tt_order_of order = {
                .seed = 1, .n = tt_window_count(tokens, seq), .shuffle = true};
            CHECK(order.n == (tokens - 1) / seq && order.n > 0);
            for (int64_t epoch = 0; epoch < 4; epoch++) {
                char seen[64] = {0};
                int64_t missed = 0;
                for (int64_t i = 0; i < order.n; i++) {
                    const int64_t first = tt_window_first(&order, tokens, seq,
                                                          epoch * order.n + i);
                    CHECK(first >= 0 && first + seq < tokens);
                    memset(seen + first, 1, (size_t)seq);
                }
                for (int64_t i = 0; i < tokens - 1; i++)
                    missed += !seen[i];
                CHECK_MSG(missed < seq, "%lld tokens, seq %lld: %lld missed",
                          (long long)tokens, (long long)seq, (long long)missed);
            }
        }
}

TEST(windows_move_between_epochs)
{
    const tt_order_of order = {
        .seed = 1, .n = tt_window_count(1000, 10), .shuffle = true};
    char seen[10] = {0};
    for (int64_t e = 0; e < 100; e++)
        seen[tt_window_first(&order, 1000, 10, e * order.n) % 10] = 1;
    for (int i = 0; i < 10; i++)
        CHECK(seen[i]);
    const tt_order_of plain = {.seed = 1, .n = order.n};
    for (int64_t i = 0; i < 2 * plain.n; i++)
        CHECK(tt_window_first(&plain, 1000, 10, i) == i % plain.n * 10);
}

TEST(windows_of_a_short_stream_are_none)
{
    CHECK(tt_window_count(10, 10) == 0);
    CHECK(tt_window_count(11, 10) == 1);
    CHECK(tt_window_count(0, 10) == 0);
    CHECK(tt_window_count(10, 0) == 0);
}
