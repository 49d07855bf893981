// Arithmetic on vectors of the host.

#include "exchange/vector.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static void fill(float *x, double *wide)
{
    srand(3);
    for (int i = 0; i < N; i++) {
        x[i] = (float)(rand() % 2001 - 1000) / 700;
        wide[i] = (double)x[i];
    }
}

// As workers sum a gradient that lies in several tensors, and one that is a vector.
TEST(squares_of_parts_have_the_bits_of_the_whole)
{
    static const int64_t cut[] = {0, 1, 8, 15, 400, 403, 411, N};
    float x[N];
    double wide[N];
    fill(x, wide);
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        const tt_vector_span all = {is_wide, N};
        const char *at = is_wide ? (const char *)wide : (const char *)x;
        tt_vector_lanes sums = {0};
        double exact = 0;
        for (size_t i = 0; i + 1 < sizeof cut / sizeof cut[0]; i++) {
            const tt_vector_span part = {is_wide, cut[i + 1] - cut[i]};
            tt_vector_lanes_add(&part, at + cut[i] * (is_wide ? 8 : 4), &sums);
        }
        for (int i = 0; i < N; i++)
            exact += wide[i] * wide[i];
        CHECK(tt_vector_lanes_sum(&sums) == tt_vector_squares(&all, at));
        CHECK_CLOSE(tt_vector_lanes_sum(&sums), exact, 1e-9);
    }
}

// In place too, over more than a piece, and a piece that is not whole.
TEST(a_sum_of_vectors_is_as_if_one_was_added_after_another)
{
    enum { M = 4, LONG = 5001 };
    static double wide[M][LONG], wide_sum[LONG];
    static float x[M][LONG], sum[LONG];
    srand(5);
    for (int k = 0; k < M; k++)
        for (int i = 0; i < LONG; i++) {
            wide[k][i] = (rand() % 2001 - 1000) / 700.0 * (1 + 100.0 * k);
            x[k][i] = (float)wide[k][i];
        }
    const void *xs[M] = {x[0], x[1], x[2], x[3]};
    const void *wides[M] = {wide[0], wide[1], wide[2], wide[3]};
    for (int m = 1; m <= M; m++) {
        for (int i = 0; i < LONG; i++) {
            sum[i] = x[0][i];
            wide_sum[i] = wide[0][i];
            for (int k = 1; k < m; k++) {
                sum[i] += x[k][i];
                wide_sum[i] += wide[k][i];
            }
        }
        float *last = x[m - 1];
        double *wide_last = wide[m - 1];
        float kept[LONG];
        double wide_kept[LONG];
        memcpy(kept, last, sizeof kept);
        memcpy(wide_kept, wide_last, sizeof wide_kept);
        tt_vector_sum(&(tt_vector_span){false, LONG}, m, xs, last);
        tt_vector_sum(&(tt_vector_span){true, LONG}, m, wides, wide_last);
        CHECK(memcmp(last, sum, sizeof sum) == 0);
        CHECK(memcmp(wide_last, wide_sum, sizeof wide_sum) == 0);
        memcpy(last, kept, sizeof kept);
        memcpy(wide_last, wide_kept, sizeof wide_kept);
    }
}

TEST(a_number_without_end_is_found_wherever_it_is)
{
    float x[N];
    double wide[N];
    for (int bad = 0; bad <= N; bad++) {
        fill(x, wide);
        if (bad < N) {
            x[bad] = bad % 2 == 0 ? INFINITY : NAN;
            wide[bad] = -(double)INFINITY;
        }
        CHECK(tt_vector_is_finite(&(tt_vector_span){false, N}, x) ==
              (bad == N));
        CHECK(tt_vector_is_finite(&(tt_vector_span){true, N}, wide) ==
              (bad == N));
    }
}
