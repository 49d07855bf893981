// Schedules of pipelines: generators, and the check of tables.

#include "../test.h"
#include "base/rng.h"
#include "carry.h"
#include "pipe/pipe.h"

#include <stdio.h>
#include <string.h>

static tt_pipe *make(const char *name, int ranks, int chunks, int micro)
{
    const tt_pipe_shape shape = {
        .ranks = ranks, .chunks = chunks, .micro = micro};
    const tt_pipe_def *def = tt_pipe_find(name);
    tt_pipe *p = NULL;
    CHECK(def != NULL);
    CHECK_OK(tt_pipe_create(def, &shape, NULL, &p));
    return p;
}

// ---- every table of every def --------------------------------------------

static int check_shape(const tt_pipe_def *def, const tt_pipe_shape *shape)
{
    tt_pipe *p = NULL;
    if (tt_pipe_create(def, shape, NULL, &p) != TT_OK) {
        CHECK(strstr(tt_error_message(), def->name) != NULL);
        return 0;
    }
    int32_t least = 0;
    const char *why = NULL;
    const tt_status status = tt_pipe_check(p, 0);
    if (status != TT_OK)
        tt_test_fail(__FILE__, __LINE__, "P=%d V=%d M=%d N=%d: %s",
                     shape->ranks, shape->chunks, shape->micro, shape->steps,
                     tt_error_message());
    CHECK_OK(tt_pipe_least_capacity(p, &least));
    CHECK_OK(tt_pipe_check(p, least));
    if (!tt_pipe_carry(p, least, 1, &why))
        tt_test_fail(__FILE__, __LINE__, "%s, P=%d V=%d M=%d N=%d: %s",
                     def->name, shape->ranks, shape->chunks, shape->micro,
                     shape->steps, why);
    CHECK(least == 1 || tt_pipe_check(p, least - 1) == TT_ERR_ARG);
    CHECK(least == 1 || !tt_pipe_carry(p, least - 1, 2, &why));
    tt_pipe_destroy(p);
    return 1;
}

TEST_SLOW(every_schedule_is_valid_or_refused_in_a_sentence, 300)
{
    static const int micros[] = {1, 2, 3, 4, 5, 7, 8, 16};
    int n = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    CHECK(n >= 2);
    for (int d = 0; d < n; d++) {
        int made = 0;
        for (int ranks = 1; ranks <= 8; ranks++)
            for (int chunks = 1; chunks <= 4; chunks++)
                for (int i = 0; i < 8; i++)
                    for (int steps = 1; steps <= 3; steps += 2)
                        made += check_shape(
                            all[d],
                            &(tt_pipe_shape){ranks, chunks, micros[i], steps});
        if (made < 20)
            tt_test_fail(__FILE__, __LINE__, "%s: %d tables", all[d]->name,
                         made);
    }
}

TEST(shapes_beyond_the_limits_are_refused)
{
    static const struct {
        tt_pipe_shape shape;
        const char *text;
    } cases[] = {
        {{0, 1, 1, 1}, "0 ranks, 1 micro-batches"},
        {{2, 1, 0, 1}, "2 ranks, 0 micro-batches"},
        {{2000, 1, 4, 1}, "2000 ranks: a schedule has 1 to 1024"},
        {{2, -1, 4, 1}, "-1 chunks per rank"},
        {{1024, 1000, 4, 1}, "1024000 chunks: a schedule has 1 to 65536"},
        {{2, 1, 1 << 30, 1}, "micro-batches per step: a schedule has 1 to"},
        {{2, 1, 1000, 1 << 30}, "steps: a schedule has 1 to"},
        {{2, 1, 4, -3}, "-3 steps: a schedule has 1 to"},
        {{1024, 64, 1 << 20, 1}, "the table would be too large"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tt_pipe *p = NULL;
        CHECK(tt_pipe_create(tt_pipe_find("gpipe"), &cases[i].shape, NULL,
                             &p) == TT_ERR_ARG);
        if (strstr(tt_error_message(), cases[i].text) == NULL)
            tt_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"",
                         tt_error_message(), cases[i].text);
    }
}

// ---- refusals name the row -----------------------------------------------

static void swap(tt_pipe *p, int rank, int a, int b)
{
    const tt_pipe_row row = p->rank[rank].row[a];
    p->rank[rank].row[a] = p->rank[rank].row[b];
    p->rank[rank].row[b] = row;
}

static void says(const tt_pipe *p, int capacity, const char *text)
{
    CHECK(tt_pipe_check(p, capacity) == TT_ERR_ARG);
    if (strstr(tt_error_message(), text) == NULL)
        tt_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"",
                     tt_error_message(), text);
}

TEST(a_backward_row_before_its_forward_is_named)
{
    tt_pipe *p = make("1f1b", 4, 1, 8);
    swap(p, 3, 4, 5); // F2 B2
    says(p, 0,
         "rank 3, row 5: backward of chunk 3, micro-batch 2 comes before its "
         "forward, which is row 6");
    tt_pipe_destroy(p);
}

TEST(ranks_that_wait_for_each_other_are_named)
{
    tt_pipe *p = make("1f1b", 2, 1, 4);
    swap(p, 0, 1, 2); // rank 0: F0 B0 F1
    swap(p, 1, 1, 2); // rank 1: F0 F1 B0
    // Flags and slots must not be what is refused.
    p->rank[0].row[1].is_first = true, p->rank[0].row[2].is_first = false;
    p->rank[1].row[1].slot = 1;
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < p->rank[r].n; i++)
            if (p->rank[r].row[i].phase != TT_PIPE_UPDATE)
                p->rank[r].row[i].slot = p->rank[r].row[i].micro;
    p->n_slots[0] = p->n_slots[1] = 4;
    says(p, 0,
         "deadlock: rank 0, row 2: backward of chunk 0, micro-batch 0 "
         "waits for row 3 of rank 1; rank 1, row 2: forward of chunk 1, "
         "micro-batch 1 waits for row 3 of rank 0");
    tt_pipe_destroy(p);
}

TEST(work_that_is_missing_or_there_twice_is_named)
{
    tt_pipe *p = make("gpipe", 2, 1, 4);
    p->rank[1].row[6].micro = 1;
    says(p, 0,
         "rank 1, row 7: backward of chunk 1, micro-batch 1 is there "
         "already: row 6");
    p->rank[1].row[6] = p->rank[1].row[7];
    p->rank[1].row[7] = p->rank[1].row[8];
    p->rank[1].n--;
    says(p, 0,
         "rank 1 has no backward (or input gradient) of chunk 1, "
         "micro-batch 2");
    tt_pipe_destroy(p);
    p = make("gpipe", 2, 1, 4);
    p->rank[1].n--;
    says(p, 0, "rank 1 has no update of chunk 1 after micro-batch 3");
    tt_pipe_destroy(p);
    p = make("gpipe", 2, 1, 4);
    p->rank[1].row[2].chunk = 0;
    says(p, 0, "rank 1, row 3: chunk 0 of copy 0 lies on rank 0");
    tt_pipe_destroy(p);
}

TEST(slots_flags_and_versions_are_looked_at)
{
    tt_pipe *p = make("1f1b", 2, 1, 4);
    p->rank[0].row[1].slot = 0;
    says(p, 0,
         "rank 0, row 2: forward of chunk 0, micro-batch 1 takes slot 0, "
         "which micro-batch 0 still holds");
    p->rank[0].row[1].slot = 2;
    says(p, 0, "has slot 2; the chunk has slots 0 to 1");
    tt_pipe_destroy(p);
    p = make("1f1b", 2, 1, 4);
    p->rank[0].row[2].is_first = false;
    says(p, 0, "is the first of its step, but not marked so");
    p->rank[0].row[2].is_first = p->rank[0].row[2].is_last = true;
    says(p, 0, "is marked as the last of its step, but is not");
    p->rank[0].row[2].is_last = false;
    p->rank[0].row[2].version = 1;
    says(p, 0, "reads version 1, 0 ahead; by the rule flush it is version 0");
    tt_pipe_destroy(p);
}

TEST(messages_need_room)
{
    // Rank 1 sends four outputs of chunk 1 to rank 0, which takes the first one only
    // after its own four are sent.
    tt_pipe *p = make("gpipe", 2, 2, 8);
    int32_t least = 0;
    CHECK_OK(tt_pipe_check(p, 0));
    CHECK_OK(tt_pipe_least_capacity(p, &least));
    CHECK(least > 1);
    says(p, 1, "waits for room for its message to rank");
    tt_pipe_destroy(p);
}

// ---- mutations -----------------------------------------------------------

static uint64_t drawn;
static int draw(uint64_t key, int n)
{
    return (int)(tt_rng_u32(key, drawn++) % (uint32_t)n);
}

static void mutate(tt_pipe *p, uint64_t key)
{
    tt_pipe_rank *rank = &p->rank[draw(key, p->n_ranks)];
    tt_pipe_row *row = &rank->row[draw(key, rank->n)];
    const int32_t i = (int32_t)(row - rank->row);
    const int at = draw(key, p->n_copies * p->n_chunks);
    switch (draw(key, 15)) {
    case 0: // two neighbours change places
    case 1:
    case 2:
        if (i + 1 < rank->n) {
            const tt_pipe_row other = row[1];
            row[1] = row[0];
            row[0] = other;
        }
        break;
    case 3: { // a row moves
        const int32_t to = draw(key, rank->n);
        const tt_pipe_row moved = *row;
        memmove(row, row + 1, (size_t)(rank->n - 1 - i) * sizeof(*row));
        memmove(&rank->row[to + 1], &rank->row[to],
                (size_t)(rank->n - 1 - to) * sizeof(*row));
        rank->row[to] = moved;
        break;
    }
    case 4:
        row->slot = draw(key, 5) - 1;
        break;
    case 5:
        row->version = draw(key, 4);
        break;
    case 6:
        row->is_first = !row->is_first;
        break;
    case 7:
        row->is_last = !row->is_last;
        break;
    case 8:
        row->ahead += draw(key, 3) - 1;
        break;
    case 9:
        row->copy = draw(key, 2);
        break;
    case 10:
        p->n_versions[at] += draw(key, 3) - 1;
        break;
    case 11:
        p->n_slots[at] += draw(key, 3) - 1;
        break;
    case 12:
        p->place[at] = draw(key, p->n_ranks);
        break;
    case 13:
        row->micro = draw(key, p->n_micro * p->n_steps);
        break;
    default:
        row->phase = (tt_pipe_phase)draw(key, TT_N_PIPE_PHASES);
        break;
    }
}

// A mutated table is valid for the check exactly if it runs.
TEST_SLOW(mutated_tables_run_or_are_refused, 300)
{
    int n = 0, n_valid = 0, n_refused = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < 600 * n; i++) {
        const tt_pipe_def *def = all[i % n];
        const uint64_t key = tt_rng_key(16, def->name, (uint64_t)i);
        drawn = 0;
        const tt_pipe_shape shape = {.ranks = 1 + draw(key, 4),
                                     .chunks = 1 + draw(key, 2),
                                     .micro = 1 + draw(key, 6),
                                     .steps = 1 + draw(key, 3)};
        tt_pipe *p = NULL;
        if (tt_pipe_create(def, &shape, NULL, &p) != TT_OK)
            continue;
        for (int k = 1 + draw(key, 2); k > 0; k--)
            mutate(p, key);
        const int capacity = draw(key, 4);
        const bool is_valid = tt_pipe_check(p, capacity) == TT_OK;
        const char *why = "it runs";
        const bool runs = tt_pipe_carry(p, capacity, key, &why);
        if (runs != is_valid)
            tt_test_fail(
                __FILE__, __LINE__,
                "%s P=%d V=%d M=%d N=%d, mutation %d: %s, but %s", def->name,
                shape.ranks, shape.chunks, shape.micro, shape.steps, i, why,
                is_valid ? "check says that it is valid" : tt_error_message());
        n_valid += is_valid;
        n_refused += !is_valid;
        tt_pipe_destroy(p);
    }
    CHECK(n_valid > 10 * n && n_refused > 100 * n);
}
