// Dropout's random numbers: how many are kept, and what keys them.

#include "exec/world.h"
#include "ops/act/activation.h"
#include "test.h"

#include <string.h>

enum { N = 4000 };

// Two dropouts of ones, in one scope.
static void run(double p, double seed, double step, double *a, double *b)
{
    world w;
    static double ones[N];
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:40 b:100");
    (void)tt_scope_push(&w.b, "block");
    tt_output(&w.b, "a", tt_dropout(&w.b, x, p));
    tt_output(&w.b, "b", tt_dropout(&w.b, x, p));
    tt_scope_pop(&w.b, 0);
    world_open(&w, NULL, NULL);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    CHECK_OK(tt_exec_write(w.exec, x, ones));
    CHECK_OK(tt_exec_set_scalar(w.exec, "seed", seed));
    CHECK_OK(tt_exec_set_scalar(w.exec, "step", step));
    CHECK_OK(tt_exec_run(w.exec, NULL, NULL));
    world_read(&w, "a", a);
    world_read(&w, "b", b);
    world_fini(&w);
}

static int n_equal(const double *a, const double *b)
{
    int n = 0;
    for (int i = 0; i < N; i++)
        n += a[i] == b[i];
    return n;
}

TEST(dropout_keeps_its_share_and_the_mean)
{
    static double a[N], b[N];
    run(0.25, 1, 1, a, b);
    int n_kept = 0;
    for (int i = 0; i < N; i++) {
        CHECK(a[i] == 0 || a[i] == 1 / 0.75);
        n_kept += a[i] != 0;
    }
    CHECK(n_kept > 0.72 * N && n_kept < 0.78 * N);
}

TEST(dropout_is_keyed_by_node_seed_and_step)
{
    static double a[N], b[N], again[N], other[N];
    run(0.5, 1, 1, a, b);
    CHECK(n_equal(a, b) < 0.6 * N);
    run(0.5, 1, 1, again, b);
    CHECK(memcmp(a, again, sizeof(a)) == 0);
    run(0.5, 2, 1, other, b);
    CHECK(n_equal(a, other) < 0.6 * N);
    run(0.5, 1, 2, other, b);
    CHECK(n_equal(a, other) < 0.6 * N);
}

TEST(dropout_is_no_node_in_evaluation_or_without_probability)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:4");
    CHECK(tt_dropout(&w.b, x, 0).id == x.id);
    w.b.is_training = false;
    CHECK(tt_dropout(&w.b, x, 0.5).id == x.id);
    world_fini(&w);
}
