// Proxies between workers and a server: sums leave with the last of a group and arrive in time's
// order; states go to numbers and back, and damaged ones are refused.

#include "exchange/tree.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { W = 6, P = 3, N = W + P };

static const tt_tree_rules rules = {.workers = W, .proxies = P, .delay = 0.5};

TEST(a_sum_leaves_with_the_last_gradient_of_its_group)
{
    tt_arena *arena = tt_arena_create();
    tt_tree t;
    double now = -1;
    CHECK_OK(tt_tree_init(&t, &rules, arena));
    tt_tree_arrive(&t, 4, 1);
    tt_tree_arrive(&t, 0, 2);
    CHECK(tt_tree_next(&t, HUGE_VAL, &now) == -1);
    tt_tree_arrive(&t, 1, 3);
    tt_tree_arrive(&t, 5, 3.25);
    CHECK(tt_tree_next(&t, 3.4, &now) == -1); // both are on their way
    CHECK(tt_tree_next(&t, HUGE_VAL, &now) == 0 && now == 3.5);
    CHECK(!t.is_here[0] && !t.is_here[1] && t.is_here[4] && t.is_here[5]);
    CHECK(tt_tree_next(&t, 3.75, &now) == 2 && now == 3.75);
    CHECK(tt_tree_next(&t, HUGE_VAL, &now) == -1);
    tt_arena_destroy(arena);
}

TEST(every_worker_is_in_the_group_of_its_proxy)
{
    tt_arena *arena = tt_arena_create();
    tt_tree t;
    int32_t seen = 0;
    CHECK_OK(tt_tree_init(&t, &rules, arena));
    for (int32_t p = 0; p < P; p++) {
        int32_t first = 0, n = 0;
        tt_tree_group(&t, p, &first, &n);
        for (int32_t i = first; i < first + n; i++, seen++)
            CHECK(tt_tree_proxy(&t, i) == p);
    }
    CHECK(seen == W);
    tt_arena_destroy(arena);
}

TEST(a_tree_goes_to_numbers_and_back)
{
    tt_arena *arena = tt_arena_create();
    tt_tree a, b;
    double v[N], w[N], now = 0;
    CHECK(tt_tree_count(&rules) == N);
    CHECK_OK(tt_tree_init(&a, &rules, arena));
    CHECK_OK(tt_tree_init(&b, &rules, arena));
    tt_tree_arrive(&a, 2, 1);
    tt_tree_arrive(&a, 3, 2);
    tt_tree_arrive(&a, 5, 2);
    a.is_refused[5] = true;
    tt_tree_save(&a, v);
    CHECK_OK(tt_tree_load(&b, v));
    tt_tree_save(&b, w);
    CHECK(memcmp(v, w, sizeof v) == 0);
    CHECK(b.is_refused[5] && !b.is_refused[2]);
    CHECK(tt_tree_next(&b, HUGE_VAL, &now) == 1 && now == 2.5);
    for (int i = 0; i < N; i++) {
        static const double wrong[] = {-2, 0.5, 7, HUGE_VAL, (double)NAN};
        for (int k = 0; k < 5; k++) {
            memcpy(w, v, sizeof w);
            w[i] = wrong[k];
            const bool is_time = i == 1 && (k == 1 || k == 2);
            CHECK((tt_tree_load(&b, w) == TT_OK) == is_time);
        }
    }
    memcpy(w, v, sizeof w);
    w[P + 4] = 1; // a whole group whose sum is not on its way
    CHECK(tt_tree_load(&b, w) != TT_OK);
    tt_arena_destroy(arena);
}
