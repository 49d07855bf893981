// Who came last, how late, and what waiting for it cost.

#include "base/alloc.h"
#include "test.h"
#include "train/arrivals.h"

#include <stdio.h>
#include <string.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

// All are busy from 0.5 ms after their arrival until 1 ms after the last one's.
static void add(tt_arrivals *a, const char *name, double x, double y, double z)
{
    const double when[3] = {x, y, z};
    const double end = fmax(x, fmax(y, z)) + 0.001;
    tt_arrival at[3];
    for (int r = 0; r < 3; r++)
        at[r] = (tt_arrival){when[r], when[r] + 0.0005, end};
    CHECK_OK(tt_arrivals_add(a, name, at));
}

TEST(arrivals_name_the_straggler)
{
    tt_arena *arena = tt_arena_create();
    tt_arrivals *a = NULL;
    tt_rank_row row[3] = {{.host = "a"}, {.host = "b"}, {.host = "c"}};
    tt_ranks ranks = {.n = 3, .rank = row};
    tt_str text = {0};
    CHECK_OK(tt_arrivals_create(3, &a));
    CHECK(isnan(tt_arrivals_recent(a)));
    add(a, "bucket 0", 1.000, 1.001, 1.004);
    add(a, "bucket 1", 2.000, 2.000, 2.002);
    CHECK(is_near(tt_arrivals_recent(a), 0.003));
    add(a, "bucket 0", 3.010, 3.000, 3.001);
    CHECK(is_near(tt_arrivals_recent(a), 0.010));
    CHECK_OK(tt_arrivals_sum(a, arena, row, &ranks));
    CHECK(ranks.n_collectives == 3 && ranks.straggler == 2);
    CHECK(is_near(ranks.spread, 0.016 / 3) && is_near(ranks.spread_max, 0.01));
    CHECK(row[0].n_last == 1 && row[1].n_last == 0 && row[2].n_last == 2);
    CHECK(is_near(row[0].waited, 0.005) && is_near(row[1].waited, 0.0135));
    CHECK(is_near(row[2].waited, 0.0085) && is_near(row[2].late, 0.003));
    CHECK(ranks.n_names == 2);
    CHECK(strcmp(ranks.name[0].name, "bucket 0") == 0 && ranks.name[0].n == 2);
    CHECK(is_near(ranks.name[0].spread, 0.007));
    CHECK(ranks.name[1].straggler == 2 && ranks.name[1].n_last == 1);
    tt_ranks_report_sentence(&ranks, &text);
    CHECK_MSG(strcmp(tt_str_text(&text),
                     "rank 2 (c) came last in 67% of 3 collectives, on "
                     "average 3 ms after the first") == 0,
              "%s", tt_str_text(&text));
    tt_str_fini(&text);
    tt_arrivals_destroy(a);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

TEST(arrivals_at_nothing_blame_nobody)
{
    tt_arena *arena = tt_arena_create();
    tt_arrivals *a = NULL;
    tt_rank_row row[2] = {{.host = "a"}, {.host = "b"}};
    tt_ranks ranks = {.n = 2, .rank = row};
    tt_str text = {0};
    tt_json json = {.out = &text};
    CHECK_OK(tt_arrivals_create(2, &a));
    CHECK_OK(tt_arrivals_sum(a, arena, row, &ranks));
    tt_ranks_report_sentence(&ranks, &text);
    CHECK(ranks.straggler == -1 && ranks.spread == 0 && text.n == 0);
    tt_json_open(&json, NULL, '{');
    tt_ranks_report_print_json(&ranks, &json);
    tt_json_close(&json, '}');
    CHECK(strstr(tt_str_text(&text), "null") == NULL);
    tt_str_fini(&text);
    tt_arrivals_destroy(a);
    tt_arena_destroy(arena);
}

TEST(arrivals_keep_names_within_bounds)
{
    char name[32];
    tt_arena *arena = tt_arena_create();
    tt_arrivals *a = NULL;
    tt_rank_row row[2] = {{.host = "a"}, {.host = "b"}};
    tt_ranks ranks = {.n = 2, .rank = row};
    CHECK_OK(tt_arrivals_create(2, &a));
    for (int i = 0; i < 6000; i++) {
        snprintf(name, sizeof name, "flight %d", i);
        CHECK_OK(tt_arrivals_add(a, name,
                                 (const tt_arrival[]){{0, 0, 2}, {1, 1, 2}}));
    }
    CHECK_OK(tt_arrivals_sum(a, arena, row, &ranks));
    CHECK(ranks.n_collectives == 6000 && row[1].n_last == 6000);
    CHECK(ranks.n_names <= 20 && strcmp(ranks.name[0].name, "others") == 0);
    tt_arrivals_destroy(a);
    tt_arena_destroy(arena);
}
