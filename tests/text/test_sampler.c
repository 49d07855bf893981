// Drawing tokens: the distribution is the one that temperature, top_k and top_p
// describe, and a function of seed and index.

#include "test.h"
#include "text/sampler.h"

#include <string.h>

enum { N = 6, DRAWS = 60000 };

static const double logits[N] = {0.5, 2, -1, 2, 1, -HUGE_VAL};

static int32_t draw(tt_sampler *s, const double *from, int64_t n, int64_t index)
{
    int32_t id = -1;
    CHECK_OK(tt_sampler_draw(s, from, n, index, &id));
    CHECK(id >= 0 && id < n);
    return id;
}

// Many draws against probabilities p: Pearson's chi-square with N - 1 degrees of
// freedom is above 25.7 once in ten thousand times, and the draws are fixed.
static void check_distribution(tt_sampler_options o, const double p[N])
{
    tt_sampler *s = NULL;
    double count[N] = {0}, chi = 0;
    CHECK_OK(tt_sampler_create(&o, N, &s));
    for (int64_t i = 0; i < DRAWS; i++)
        count[draw(s, logits, N, i)]++;
    for (int i = 0; i < N; i++) {
        const double expected = p[i] * DRAWS;
        if (p[i] == 0)
            CHECK_MSG(count[i] == 0, "token %d was drawn %g times", i,
                      count[i]);
        else
            chi += (count[i] - expected) * (count[i] - expected) / expected;
    }
    CHECK_MSG(chi < 25.7, "chi-square is %g", chi);
    tt_sampler_destroy(s);
}

// Softmax over the tokens of the mask.
static void softmax(unsigned mask, double temperature, double p[N])
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        p[i] = mask >> i & 1 ? exp(logits[i] / temperature) : 0;
        sum += p[i];
    }
    for (int i = 0; i < N; i++)
        p[i] /= sum;
}

TEST(draws_follow_the_temperature)
{
    static const double temperature[] = {0.3, 0.8, 1, 3};
    for (int i = 0; i < 4; i++) {
        double p[N];
        softmax(63, temperature[i], p);
        check_distribution((tt_sampler_options){temperature[i], 0, 1, 7}, p);
    }
}

TEST(top_k_keeps_the_largest_and_of_equals_the_first)
{
    double p[N];
    softmax(1 << 1, 1, p);
    check_distribution((tt_sampler_options){1, 1, 1, 7}, p);
    softmax(1 << 1 | 1 << 3, 1, p);
    check_distribution((tt_sampler_options){1, 2, 1, 7}, p);
    softmax(1 << 1 | 1 << 3 | 1 << 4, 0.7, p);
    check_distribution((tt_sampler_options){0.7, 3, 1, 7}, p);
    softmax(63, 1, p);
    check_distribution((tt_sampler_options){1, 100, 1, 7}, p);
}

// The probabilities are .37 .37 .14 .08 .02 for tokens 1, 3, 4, 0, 2.
TEST(top_p_keeps_the_fewest_that_reach_it)
{
    double p[N];
    softmax(1 << 1, 1, p);
    check_distribution((tt_sampler_options){1, 0, 0, 7}, p);
    check_distribution((tt_sampler_options){1, 0, 0.3, 7}, p);
    softmax(1 << 1 | 1 << 3, 1, p);
    check_distribution((tt_sampler_options){1, 0, 0.5, 7}, p);
    softmax(1 << 1 | 1 << 3 | 1 << 4, 1, p);
    check_distribution((tt_sampler_options){1, 0, 0.8, 7}, p);
    softmax(31, 1, p);
    check_distribution((tt_sampler_options){1, 0, 0.9999, 7}, p);
}

// Of the two that top_k keeps, one has half of the probability.
TEST(top_p_counts_what_top_k_left)
{
    double p[N];
    softmax(1 << 1, 1, p);
    check_distribution((tt_sampler_options){1, 2, 0.45, 7}, p);
}

TEST(no_temperature_is_greedy)
{
    tt_sampler *s = NULL;
    const double up[] = {-3, -2, -1}, down[] = {3, 2, 1}, flat[] = {1, 1, 1};
    CHECK_OK(tt_sampler_create(&(tt_sampler_options){0, 0, 1, 1}, 3, &s));
    for (int64_t i = 0; i < 100; i++) {
        CHECK(draw(s, up, 3, i) == 2);
        CHECK(draw(s, down, 3, i) == 0);
        CHECK(draw(s, flat, 3, i) == 0);
    }
    tt_sampler_destroy(s);
}

TEST(draws_are_a_function_of_seed_and_index)
{
    tt_sampler *s[3] = {NULL};
    double wide[1000] = {0};
    int differ = 0;
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt_sampler_create(
            &(tt_sampler_options){1, 0, i == 1 ? 1 : 0.99, i == 2 ? 6 : 5},
            1000, &s[i]));
    int32_t first[50];
    for (int i = 0; i < 50; i++)
        first[i] = draw(s[0], wide, 1000, i);
    for (int i = 49; i >= 0; i--) {
        CHECK(draw(s[0], wide, 1000, i) == first[i]);
        differ += draw(s[2], wide, 1000, i) != first[i];
    }
    CHECK(differ > 40);
    CHECK(first[0] != first[1] || first[1] != first[2]);
    for (int i = 0; i < 3; i++)
        tt_sampler_destroy(s[i]);
}

TEST(broken_logits_are_errors)
{
    static const tt_sampler_options options[] = {
        {0, 0, 1, 1}, {1, 0, 1, 1}, {1, 2, 1, 1}, {1, 0, 0.5, 1}};
    for (int i = 0; i < 4; i++) {
        tt_sampler *s = NULL;
        int32_t id = -7;
        CHECK_OK(tt_sampler_create(&options[i], 3, &s));
        const double nan[] = {1, (double)NAN, 2},
                     all[] = {-HUGE_VAL, -HUGE_VAL};
        const double big[] = {1, HUGE_VAL};
        CHECK(tt_sampler_draw(s, nan, 3, 0, &id) == TT_ERR_STATE);
        CHECK(strstr(tt_error_message(), "token 1 is NaN") != NULL);
        CHECK(tt_sampler_draw(s, all, 2, 0, &id) == TT_ERR_STATE);
        CHECK(tt_sampler_draw(s, big, 2, 0, &id) == TT_ERR_STATE);
        CHECK(tt_sampler_draw(s, big, 0, 0, &id) == TT_ERR_ARG);
        CHECK(tt_sampler_draw(s, big, 4, 0, &id) == TT_ERR_ARG);
        CHECK(id == -7);
        tt_sampler_destroy(s);
    }
}
