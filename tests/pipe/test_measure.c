// Times of schedules, slots and versions. The law `pipe` compares with formulas.

#include "../test.h"
#include "pipe/measure.h"

#include <stdlib.h>
#include <string.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static tt_pipe *make(const char *name, const char *options, int ranks,
                     int micro, int steps)
{
    const tt_pipe_shape shape = {ranks, 1, micro, steps};
    tt_pipe *p = NULL;
    CHECK_OK(tt_pipe_create(tt_pipe_find(name), &shape, options, &p));
    CHECK_OK(tt_pipe_check(p, 0));
    return p;
}

static double bubble_of(const char *name, const char *options, int ranks,
                        int micro)
{
    tt_pipe *p = make(name, options, ranks, micro, 1);
    tt_pipe_times *t = NULL;
    CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){1, 1, 1}, &t));
    const double bubble = t->bubble;
    tt_pipe_times_destroy(t);
    tt_pipe_destroy(p);
    return bubble;
}

TEST(zero_bubble_beats_1f1b_at_equal_memory_and_more_memory_helps)
{
    CHECK(is_near(bubble_of("1f1b", NULL, 4, 12), 9));
    CHECK(is_near(bubble_of("zb-h1", NULL, 4, 12), 3));
    CHECK(is_near(bubble_of("zb-h2", "slots=4", 4, 12), 3));
    CHECK(bubble_of("zb-h2", "slots=5", 4, 12) < 3);
    CHECK(bubble_of("zb-h2", NULL, 4, 12) < 1e-9);
    CHECK(bubble_of("zb-h2", "slots=2", 4, 12) > 3);
}

// Megatron refuses these: 7 micro-batches on 4 ranks, two chunks each.
TEST(interleaved_takes_any_number_of_micro_batches)
{
    for (int micro = 4; micro <= 13; micro++) {
        const tt_pipe_shape shape = {4, 2, micro, 1};
        tt_pipe *p = NULL;
        tt_pipe_times *t = NULL;
        CHECK_OK(tt_pipe_create(tt_pipe_find("interleaved"), &shape, NULL, &p));
        CHECK_OK(tt_pipe_check(p, 0));
        CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){1, 1, 1}, &t));
        CHECK(is_near(t->bubble, 9));
        CHECK(t->rank[0].n_live <= 6 + 4 + micro % 4 + 1);
        tt_pipe_times_destroy(t);
        tt_pipe_destroy(p);
    }
}

TEST(fewer_slots_make_a_message_driven_pipe_wait)
{
    CHECK(is_near(bubble_of("message-driven", NULL, 4, 12), 9));
    CHECK(bubble_of("message-driven", "slots=2", 4, 12) > 9);
    tt_pipe *p = make("message-driven", "slots=3", 4, 12, 1);
    for (int r = 0; r < 4; r++)
        CHECK(p->n_slots[r] <= 3);
    CHECK(p->bound == 3);
    tt_pipe_destroy(p);
}

TEST(chimera_has_between_half_and_all_ranks_in_flight)
{
    for (int ranks = 2; ranks <= 8; ranks += 2)
        for (int k = 1; k <= 3; k++) {
            tt_pipe *p = make("chimera", NULL, ranks, k * ranks, 1);
            tt_pipe_times *t = NULL;
            CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){2, 1, 1}, &t));
            for (int r = 0; r < ranks; r++)
                CHECK(t->rank[r].n_live >= ranks / 2 &&
                      t->rank[r].n_live <= ranks);
            tt_pipe_times_destroy(t);
            tt_pipe_destroy(p);
        }
}

// Versions that rows still have to read, and the newest, at each row.
static int live_versions(const tt_pipe *p, int rank)
{
    enum { MOST = 256 };
    const tt_pipe_rank *k = &p->rank[rank];
    int last_read[MOST] = {0}, made = 0, most = 0;
    for (int i = 0; i < k->n; i++)
        last_read[k->row[i].version] = i;
    for (int i = 0; i < k->n; i++) {
        int n = 0;
        made += k->row[i].phase == TT_PIPE_UPDATE;
        for (int v = 0; v <= made; v++)
            n += v == made || last_read[v] > i;
        most = n > most ? n : most;
    }
    return most;
}

TEST(pipedream_keeps_as_many_versions_as_there_are_ranks_after_it)
{
    for (int ranks = 1; ranks <= 8; ranks++) {
        tt_pipe *p = make("pipedream", NULL, ranks, 1, 24);
        for (int r = 0; r < ranks; r++) {
            CHECK(p->n_versions[r] == ranks - r);
            CHECK(live_versions(p, r) == ranks - r);
            CHECK(p->n_slots[r] == ranks - r);
        }
        tt_pipe_destroy(p);
        p = make("pipedream", NULL, ranks, 3, 12);
        for (int r = 0; r < ranks; r++)
            CHECK(live_versions(p, r) == p->n_versions[r]);
        tt_pipe_destroy(p);
    }
}

TEST(two_versions_are_needed_and_enough_for_2bw)
{
    for (int ranks = 2; ranks <= 8; ranks++) {
        tt_pipe *p = make("2bw", NULL, ranks, ranks - 1, 4);
        for (int r = 0; r < ranks; r++) {
            CHECK(p->n_versions[r] == 2);
            CHECK(live_versions(p, r) == 2);
            for (int i = 0; i < p->rank[r].n; i++) {
                const tt_pipe_row *row = &p->rank[r].row[i];
                const int step = row->micro / p->n_micro;
                CHECK(row->phase == TT_PIPE_UPDATE ||
                      row->version == (step > 0 ? step - 1 : 0));
            }
        }
        p->n_versions[0] = 1;
        CHECK(tt_pipe_check(p, 0) == TT_ERR_ARG);
        CHECK(strstr(tt_error_message(), "which is overwritten") != NULL);
        tt_pipe_destroy(p);
    }
}

TEST(two_versions_are_not_enough_for_2bw_with_fewer_micro_batches)
{
    const tt_pipe_shape shape = {5, 1, 3, 4};
    tt_pipe *p = NULL;
    CHECK(tt_pipe_create(tt_pipe_find("2bw"), &shape, NULL, &p) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "only with at least 4") != NULL);
    // The same order, with the rule of 2bw.
    CHECK_OK(tt_pipe_create(tt_pipe_find("pipedream"), &shape, NULL, &p));
    p->rule = TT_PIPE_DOUBLE;
    for (int r = 0; r < 5; r++) {
        p->n_versions[r] = 2;
        for (int i = 0; i < p->rank[r].n; i++) {
            tt_pipe_row *row = &p->rank[r].row[i];
            const int step = row->micro / 3;
            if (row->phase != TT_PIPE_UPDATE)
                row->version = step > 0 ? step - 1 : 0;
        }
    }
    CHECK(tt_pipe_check(p, 0) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "before the update that makes it") !=
          NULL);
    tt_pipe_destroy(p);
}

TEST(predictions_reach_as_far_as_published)
{
    enum { RANKS = 5 };
    tt_pipe *p = make("predict", NULL, RANKS, 1, 20);
    for (int r = 0; r < RANKS; r++) {
        CHECK(p->n_versions[r] == 1);
        for (int i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *row = &p->rank[r].row[i];
            if (row->micro < RANKS) // the pipe fills
                continue;
            if (row->phase == TT_PIPE_FORWARD)
                CHECK(row->ahead == r / 2 + RANKS - r - 1);
            if (row->phase == TT_PIPE_BACKWARD)
                CHECK(row->ahead == r / 2);
        }
    }
    tt_pipe_destroy(p);
}

TEST(a_bubble_is_the_sum_of_waits_for_neighbours)
{
    int n = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int d = 0; d < n; d++) {
        const int ranks = strcmp(all[d]->name, "late") == 0 ? 1 : 4;
        tt_pipe *p = make(all[d]->name, NULL, ranks, 8, 2);
        tt_pipe_times *t = NULL;
        CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){1, 2, 1.5}, &t));
        for (int r = 0; r < ranks; r++) {
            double sum = 0;
            for (int i = 0; i < ranks; i++) {
                sum += t->rank[r].waits[i];
                CHECK(t->rank[r].waits[i] == 0 || i != r);
                CHECK(t->rank[r].waits[i] == 0 || all[d]->n_copies == 2 ||
                      abs(i - r) == 1);
            }
            CHECK(is_near(sum, t->rank[r].bubble));
        }
        tt_pipe_times_destroy(t);
        tt_pipe_destroy(p);
    }
}

TEST(uneven_chunks_and_transfers_are_timed)
{
    // rank 0   F0 F0 F1 F1 .  .  .  .  .  .  B0 B1         forward 2, backward 1
    // rank 1   .  .  .  F0 .  F1 B0 B0 B0 B1 B1 B1         forward 1, backward 3
    const double f[] = {2, 1}, b[] = {1, 3}, u[] = {5, 7}, move[] = {1};
    const tt_pipe_seconds seconds = {.row = {[TT_PIPE_FORWARD] = f,
                                             [TT_PIPE_BACKWARD] = b,
                                             [TT_PIPE_UPDATE] = u},
                                     .move = move};
    tt_pipe *p = make("gpipe", NULL, 2, 2, 1);
    tt_pipe_times *t = NULL;
    CHECK_OK(tt_pipe_measure(p, &seconds, &t));
    CHECK(t->rank[1].start[0] == 3 && t->rank[1].start[1] == 5);
    CHECK(t->rank[1].start[2] == 6 && t->rank[1].finish[3] == 12);
    CHECK(t->rank[0].start[2] == 10 && t->rank[0].start[3] == 13);
    CHECK(t->rank[0].finish[3] == 14 && t->rank[0].finish[4] == 19);
    CHECK(t->makespan == 19 && t->rank[0].busy == 11);
    CHECK(t->rank[0].bubble == 8 && t->rank[1].bubble == 1);
    CHECK(t->rank[1].last == 19 && t->bubble == 8);
    CHECK(t->rank[0].waits[1] == 8 && t->rank[0].waits[0] == 0);
    CHECK(t->rank[1].waits[0] == 1);
    tt_pipe_times_destroy(t);
    const double bad[] = {1, -1};
    CHECK(tt_pipe_measure(p,
                          &(tt_pipe_seconds){.row = {[TT_PIPE_FORWARD] = bad}},
                          &t) == TT_ERR_ARG);
    tt_pipe_destroy(p);
}
