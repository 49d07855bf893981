// Tables as text.

#include "../test.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "pipe/measure.h"
#include "pipe/text.h"

#include <string.h>

static bool are_equal(const tt_pipe *a, const tt_pipe *b)
{
    const int n = a->n_copies * a->n_chunks;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    if (strcmp(a->name, b->name) != 0 || a->n_ranks != b->n_ranks ||
        a->n_chunks != b->n_chunks || a->n_copies != b->n_copies ||
        a->n_micro != b->n_micro || a->n_steps != b->n_steps ||
        a->rule != b->rule || a->bound != b->bound ||
        memcmp(a->place, b->place, bytes) != 0 ||
        memcmp(a->n_versions, b->n_versions, bytes) != 0 ||
        memcmp(a->n_slots, b->n_slots, bytes) != 0)
        return false;
    for (int r = 0; r < a->n_ranks; r++) {
        if (a->rank[r].n != b->rank[r].n)
            return false;
        for (int i = 0; i < a->rank[r].n; i++) {
            const tt_pipe_row *x = &a->rank[r].row[i], *y = &b->rank[r].row[i];
            if (x->phase != y->phase || x->chunk != y->chunk ||
                x->copy != y->copy || x->micro != y->micro ||
                x->slot != y->slot || x->version != y->version ||
                x->ahead != y->ahead || x->is_first != y->is_first ||
                x->is_last != y->is_last)
                return false;
        }
    }
    return true;
}

// The rows without slots, versions and marks, with the line `fill`.
static void print_bare(const tt_pipe *p, tt_str *out)
{
    tt_str_addf(out, "schedule %s\nfill\nranks %d\nchunks %d\ncopies %d\n",
                p->name, p->n_ranks, p->n_chunks, p->n_copies);
    tt_str_addf(out, "micro %d\nsteps %d\nrule %s\nbound %d\nversions",
                p->n_micro, p->n_steps, tt_pipe_rule_name(p->rule), p->bound);
    for (int i = 0; i < p->n_copies * p->n_chunks; i++)
        tt_str_addf(out, " %d", p->n_versions[i]);
    for (int r = 0; r < p->n_ranks; r++) {
        tt_str_addf(out, "\nrank %d # its rows\n", r);
        for (int i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *row = &p->rank[r].row[i];
            tt_str_addf(out, "%c%d%s.%d\n", "FBIWU"[row->phase], row -> chunk,
                        row -> copy ? "'" : "", row->micro);
        }
    }
}

static tt_pipe *parse(const tt_str *text)
{
    tt_pipe *p = NULL;
    CHECK_OK(tt_str_status(text));
    if (tt_pipe_parse(tt_str_text(text), text->n, "table", &p) != TT_OK)
        tt_test_fail(__FILE__, __LINE__, "%s\n%s", tt_error_message(),
                     tt_str_text(text));
    return p;
}

TEST(every_table_is_printed_and_read_back_equal)
{
    int n = 0, n_tables = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int d = 0; d < n; d++)
        for (int ranks = 1; ranks <= 5; ranks++)
            for (int chunks = 1; chunks <= 3; chunks++)
                for (int micro = 1; micro <= 10; micro += 3) {
                    const tt_pipe_shape shape = {ranks, chunks, micro, 2};
                    tt_pipe *p = NULL;
                    tt_str text = {0}, bare = {0};
                    if (tt_pipe_create(all[d], &shape, NULL, &p) != TT_OK)
                        continue;
                    tt_pipe_print(p, &text);
                    tt_pipe *read = parse(&text);
                    CHECK(are_equal(p, read));
                    print_bare(p, &bare);
                    tt_pipe *filled = parse(&bare);
                    CHECK(are_equal(p, filled));
                    tt_pipe_destroy(p);
                    tt_pipe_destroy(read);
                    tt_pipe_destroy(filled);
                    tt_str_fini(&text);
                    tt_str_fini(&bare);
                    n_tables++;
                }
    CHECK(n_tables > 100);
}

static void refuses(const char *text, const char *message)
{
    tt_pipe *p = NULL;
    CHECK(tt_pipe_parse(text, (int64_t)strlen(text), "my.pipe", &p) ==
          TT_ERR_ARG);
    if (strstr(tt_error_message(), message) == NULL)
        tt_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"",
                     tt_error_message(), message);
}

#define HEAD "ranks 2\nchunks 2\nmicro 2\n"

TEST(mistakes_in_a_table_are_named_with_their_line)
{
    refuses("", "my.pipe is empty");
    refuses("# nothing\n", "my.pipe: there is no line `rank 0`");
    refuses("ranks two\n", "my.pipe:1: \"two\": not a whole number");
    refuses("ranks 2\nchunk 2\n", "my.pipe:2: \"chunk\": not known here");
    refuses("ranks 2\nmicro 2 3\n", "my.pipe:2: \"3\": the line should end");
    refuses("rule none\n", "a rule is flush, stash, double or predict");
    refuses("ranks 99999999999\n", "not a whole number");
    refuses("rank 0\n", "my.pipe:1: above this line: 0 ranks");
    refuses("ranks 2\nchunks 70000\nmicro 2\nrank 0\n", "70000 chunks");
    refuses(HEAD "place 0\nrank 0\n", "my.pipe:4: \"\": a number is missing");
    refuses(HEAD "place 0 1 1\nrank 0\n", "my.pipe:4: \"1\": the line should");
    refuses(HEAD "rank 2\n", "my.pipe:4: \" 2\": there is no such rank");
    refuses(HEAD "rank 0\nF0.0\nrank 0\n", "my.pipe:6: \" 0\": this rank has");
    refuses(HEAD "rank 0\n F0.0:0 G0.1\n", "my.pipe:5: \"G0.1\": a row begins");
    refuses(HEAD "rank 0\nF0:1\n", "my.pipe:5: \"F0:1\": a row is like F3.5");
    refuses(HEAD "rank 0\nF0.1:\n", "the slot's number is missing");
    refuses(HEAD "rank 0\nF0.1:0><\n", "in this order");
    refuses(HEAD "rank 0\nF5.1:0\n", "there is no such chunk");
    refuses("fill\n" HEAD "rank 0\nF0.0:0\n", "the line `fill`, but rows with");
    refuses("fill\n" HEAD "rank 0\nF0.0\n",
            "my.pipe: rank 0 has no forward of chunk 0, micro-batch 1");
    refuses("fill\ncopies 2\nrule stash\n" HEAD "rank 0\nF0.0\n",
            "copies need the rule flush");
}

// A table by hand: chunks in a V, so that the last chunk is where the first one is.
TEST(a_table_by_hand_is_read_checked_and_timed)
{
    static const char text[] = "schedule vee\n"
                               "fill\n"
                               "ranks 2\n"
                               "chunks 4\n"
                               "micro 2\n"
                               "place 0 1 1 0 # down and up again\n"
                               "rank 0\n"
                               "  F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 B0.1\n"
                               "  U0.1 U3.1\n"
                               "rank 1\n"
                               "  F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1\n"
                               "  U1.1 U2.1\n";
    tt_pipe *p = NULL;
    tt_pipe_times *t = NULL;
    CHECK_OK(tt_pipe_parse(text, sizeof(text) - 1, "vee", &p));
    CHECK_OK(tt_pipe_check(p, 1));
    CHECK(strcmp(p->name, "vee") == 0 && p->n_slots[3] == 1);
    CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){1, 0.5, 0.5}, &t));
    CHECK(t->makespan == 10 && t->rank[0].bubble == 2);
    tt_pipe_times_destroy(t);
    tt_pipe_destroy(p);
}

static void check_refuses(const char *text, const char *message)
{
    tt_pipe *p = NULL;
    const tt_status status =
        tt_pipe_parse(text, (int64_t)strlen(text), "t", &p);
    CHECK((status == TT_OK ? tt_pipe_check(p, 0) : status) == TT_ERR_ARG);
    if (strstr(tt_error_message(), message) == NULL)
        tt_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"",
                     tt_error_message(), message);
    tt_pipe_destroy(p);
}

TEST(tables_by_hand_that_cannot_run_are_refused_with_the_reason)
{
    check_refuses("fill\nranks 1\nchunks 1\nmicro 2\nrank 0\n"
                  "F0.0 F0.1 B0.0 I0.1 W0.1 U0.1\n",
                  "row 4: input gradient of chunk 0, micro-batch 1 and other "
                  "gradients of this chunk differ in form");
    check_refuses("fill\nranks 1\nchunks 1\nmicro 1\nrank 0\n"
                  "F0.0 W0.0 I0.0 U0.0\n",
                  "row 2: weight gradient of chunk 0, micro-batch 0 comes "
                  "before its input gradient, which is row 3");
    check_refuses("fill\nranks 1\nchunks 1\nmicro 2\nrank 0\n"
                  "F0.0 F0.1 B0.0 U0.1 B0.1\n",
                  "row 4: update of chunk 0, micro-batch 1 comes before the "
                  "weight gradient of micro-batch 1, which is row 5");
    check_refuses("fill\nranks 1\nchunks 2\nmicro 1\nrank 0\n"
                  "F1.0 F0.0 B1.0 B0.0 U0.0 U1.0\n",
                  "row 1: forward of chunk 1, micro-batch 0 comes before the "
                  "forward of chunk 0, which is row 2");
    // Micro-batch 0 goes through chunk 0 of one copy and chunk 1 of the other.
    check_refuses("fill\ncopies 2\nranks 2\nchunks 2\nmicro 2\nrank 0\n"
                  "F0.0 F1'.0 B1'.0 B0.0 U0.1 U1'.1\nrank 1\n"
                  "F0'.1 F1.1 B1.1 B0'.1 U1.1 U0'.1\n",
                  "is of another copy than other rows of this micro-batch");
    check_refuses("fill\ncopies 2\nranks 2\nchunks 2\nmicro 1\nrank 0\n"
                  "F0.0 B0.0 U0.0 U1'.0\nrank 1\nF1.0 B1.0 U1.0 U0'.0\n",
                  "no micro-batch of step 0 goes through copy 1");
    check_refuses("fill\nranks 2\nchunks 2\nmicro 1\nplace 0 5\nrank 0\n"
                  "F0.0 B0.0 U0.0\nrank 1\nF1.0 B1.0 U1.0\n",
                  "chunk 1 lies on rank 5, which is not there");
    check_refuses("fill\nranks 2\nchunks 2\nmicro 3\nbound 1\nrank 0\n"
                  "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2 U0.2\nrank 1\n"
                  "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 U1.2\n",
                  "is number 2 in flight; the bound is 1");
}

TEST(no_memory_is_an_error_and_leaves_nothing)
{
    const tt_pipe_shape shape = {4, 1, 6, 1};
    bool is_done = false;
    for (int64_t k = 1; !is_done; k++) {
        const int64_t live = tt_alloc_live();
        tt_pipe *p = NULL, *read = NULL;
        tt_pipe_times *t = NULL;
        tt_str text = {0};
        int32_t least = 0;
        CHECK(k < 1000);
        tt_alloc_fail_at(k);
        tt_status status =
            tt_pipe_create(tt_pipe_find("chimera"), &shape, NULL, &p);
        if (status == TT_OK)
            status = tt_pipe_check(p, 2);
        if (status == TT_OK)
            status = tt_pipe_least_capacity(p, &least);
        if (status == TT_OK)
            status = tt_pipe_measure_even(p, &(tt_pipe_even){1, 1, 1}, &t);
        if (status == TT_OK) {
            tt_pipe_print(p, &text);
            status = tt_str_status(&text);
        }
        if (status == TT_OK)
            status = tt_pipe_parse(tt_str_text(&text), text.n, "t", &read);
        is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == TT_OK ? is_done : status == TT_ERR_NOMEM);
        tt_pipe_destroy(p);
        tt_pipe_destroy(read);
        tt_pipe_times_destroy(t);
        tt_str_fini(&text);
        CHECK(tt_alloc_live() == live);
    }
}
