// Arithmetic on vectors of the host.

#include "exchange/vector.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

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

TEST(sums_of_two_vectors_are_as_if_added_in_place)
{
    float x[N], y[N], z[N];
    double wide[N];
    fill(x, wide);
    for (int i = 0; i < N; i++)
        y[i] = x[N - 1 - i] * 3;
    const tt_vector_span all = {false, N};
    tt_vector_sum(&all, x, y, z);
    tt_vector_add(&all, 1, x, y);
    for (int i = 0; i < N; i++)
        CHECK(z[i] == y[i]);
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
