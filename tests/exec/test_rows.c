// Times of rows: stages of a small GPT, as threads, under a pace that makes each row as
// long as the table's. So what they wait must be what the table says.

#include "base/alloc.h"
#include "check/rank_threads.h"
#include "check/small.h"
#include "exec/wire/wire.h"
#include "exec/world.h"
#include "pass/pass.h"
#include "pipe/measure.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO = 4, RUNS = 4, MOST_ROWS = 64, SHARED = 4 << 20 };

static const double unit = 0.012; // seconds of a row

typedef struct stages {
    tt_graph *graph;
    const tt_pipe *pipe;
    bool is_split;
    int32_t n;
    tt_row_sums sums[TT_RANK_THREADS_MOST];
    double waited[TT_RANK_THREADS_MOST][TT_RANK_THREADS_MOST];
} stages;

static int32_t take_rows(const stages *s, int32_t rank, tt_lower_row *row)
{
    static const tt_phase phase[] = {[TT_PIPE_FORWARD] = TT_FORWARD,
                                     [TT_PIPE_BACKWARD] = TT_BACKWARD,
                                     [TT_PIPE_INPUT_GRAD] = TT_BACKWARD,
                                     [TT_PIPE_WEIGHT_GRAD] = TT_WEIGHT_GRAD};
    const tt_pipe_rank *from = &s->pipe->rank[rank];
    int32_t n = 0;
    for (int32_t i = 0; i < from->n; i++)
        if (from->row[i].phase != TT_PIPE_UPDATE)
            row[n++] = (tt_lower_row){phase[from->row[i].phase],
                                      from->row[i].chunk, from->row[i].micro};
    return n;
}

// Backward takes two units where it is not split.
static void set_pace(const stages *s, const tt_plan *plan, double *pace)
{
    CHECK(plan->n_segments <= MOST_ROWS);
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_phase phase = plan->segment[i].phase;
        pace[i] = phase == TT_UPDATE                     ? 0
                  : phase == TT_BACKWARD && !s->is_split ? 2 * unit
                                                         : unit;
    }
}

// The input is the same in every micro-batch.
static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    (void)user, (void)exec, (void)micro;
    return TT_OK;
}

static tt_status write_leaves(tt_exec *exec)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_graph *g = plan->graph;
    for (int32_t v = 0; v < g->n_values; v++) {
        tt_local local;
        if (g->value[v].node >= 0)
            continue;
        tt_local_of(&g->value[v].type, &g->mesh, plan->rank, &local);
        if (local.is_absent)
            continue;
        const int64_t n = tt_small_elements(g, (tt_val){v});
        double *data = tt_alloc(16 * n);
        CHECK(data != NULL);
        tt_small_fill(g, (tt_val){v}, 0, data);
        for (int64_t i = 0; i < tt_shape_count(&local.shape); i++)
            tt_dtype_store(g->value[v].type.dtype, data + n, i,
                           data[tt_local_to_global(&local, i)]);
        const tt_status status = tt_exec_write(exec, (tt_val){v}, data + n);
        tt_free(data);
        TT_TRY(status);
    }
    return TT_OK;
}

// Rows follow each other without a gap, and a wait is for a neighbour.
static void check_rows(const stages *s, const tt_exec *exec)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_row_time *time = tt_exec_rows(exec);
    for (int32_t i = 0; i < plan->n_order; i++) {
        CHECK(time[i].waited >= 0 &&
              time[i].end - time[i].start >= time[i].waited);
        CHECK(i == 0 || time[i].start >= time[i - 1].end);
        CHECK(i == 0 || time[i].start - time[i - 1].end < unit);
        CHECK(time[i].peer >= -1 && time[i].peer < s->n);
        CHECK(time[i].peer < 0 || abs(time[i].peer - plan->rank) == 1);
    }
}

static tt_status run_stage(tt_exec *exec, stages *s, int32_t rank)
{
    TT_TRY(write_leaves(exec));
    for (int i = 0; i < RUNS; i++)
        TT_TRY(tt_exec_run(exec, feed, NULL));
    check_rows(s, exec);
    const tt_row_sums *sums = tt_exec_row_sums(exec);
    s->sums[rank] = *sums;
    memcpy(s->waited[rank], sums->waited,
           (size_t)s->n * sizeof s->waited[rank][0]);
    return TT_OK;
}

static tt_status run_rank(tt_comm *comm, void *user)
{
    stages *s = user;
    tt_lower_row row[MOST_ROWS];
    double pace[MOST_ROWS];
    tt_lower_options lower = {.rank = comm->rank,
                              .n_micro = MICRO,
                              .row = row,
                              .n_rows = take_rows(s, comm->rank, row),
                              .split_weight_grad = s->is_split};
    tt_comm_wire *wire = NULL;
    tt_backend *backend = NULL;
    tt_plan *plan = NULL;
    tt_exec *exec = NULL;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    TT_TRY(tt_backend_open(tt_backend_find("ref"),
                           &(tt_backend_options){.n_threads = 1}, &backend));
    TT_TRY(tt_plan_lower(s->graph, &backend->target, &lower, &plan));
    set_pace(s, plan, pace);
    const tt_exec_options options = {.pace = pace,
                                     .wire = tt_comm_wire_of(wire)};
    tt_status status = tt_exec_create(plan, backend, &options, &exec);
    if (status == TT_OK)
        status = run_stage(exec, s, comm->rank);
    tt_exec_destroy(exec);
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    tt_comm_wire_close(wire);
    return status;
}

static void build(stages *s)
{
    const tt_pass_def *def = tt_pass_find("partition");
    tt_arena *arena = tt_arena_create();
    tt_graph *whole = NULL;
    tt_small small;
    char mesh[32];
    for (int i = 0; tt_small_at(i, &small); i++)
        if (strcmp(small.model, "gpt") == 0)
            break;
    CHECK_OK(tt_small_build_as(
        &small,
        &(tt_train_recipe){.optim = {.def = tt_optim_find("sgd")},
                           .dtype = TT_F64,
                           .master = TT_F64,
                           .cut = {.n_chunks = s->n}},
        1, &whole));
    snprintf(mesh, sizeof mesh, "pipe:%d", s->n);
    void *params = tt_arena_alloc(arena, def->params_bytes);
    CHECK_OK(tt_opt_defaults(def->options, params, arena));
    CHECK_OK(tt_opt_set(def->options, params, "mesh", mesh, arena));
    CHECK_OK(tt_pass_apply(def, params, whole, &s->graph));
    tt_graph_destroy(whole);
    tt_arena_destroy(arena);
}

// Whether the measured bubbles are the table's, to 5 points of the step.
static bool has_bubbles(const stages *s, const char *name, tt_str *said)
{
    tt_pipe_times *times = NULL;
    bool is_right = true;
    CHECK_OK(tt_pipe_measure_even(s->pipe, &(tt_pipe_even){unit, unit, unit},
                                  &times));
    for (int32_t r = 0; r < s->n; r++) {
        const tt_pipe_rank_times *want = &times->rank[r];
        const double share = want->bubble / (want->last - want->first);
        const double got = s->sums[r].bubble / s->sums[r].span;
        tt_str_addf(said,
                    "%s on %d stages, rank %d: bubble %.3f, the table says "
                    "%.3f\n",
                    name, s->n, r, got, share);
        is_right &= fabs(got - share) < 0.05;
        CHECK(s->sums[r].n_runs == RUNS - 1);
        CHECK(s->sums[r].span / (RUNS - 1) > want->last - want->first);
        for (int32_t to = 0; to < s->n; to++)
            CHECK(abs(to - r) == 1 || s->waited[r][to] == 0);
    }
    tt_pipe_times_destroy(times);
    return is_right;
}

// A machine that does something else too makes ranks late, so there are three tries.
static void check_schedule(const char *name, int32_t n)
{
    tt_pipe *pipe = NULL;
    CHECK_OK(tt_pipe_create(tt_pipe_find(name),
                            &(tt_pipe_shape){.ranks = n, .micro = MICRO}, NULL,
                            &pipe));
    stages s = {.pipe = pipe, .is_split = strncmp(name, "zb", 2) == 0, .n = n};
    build(&s);
    bool is_right = false;
    tt_str said = {0};
    for (int i = 0; i < 3 && !is_right; i++) {
        CHECK_OK(tt_rank_threads_run(n, SHARED, run_rank, &s));
        is_right = has_bubbles(&s, name, &said);
    }
    CHECK_MSG(is_right, "%s", tt_str_text(&said));
    tt_str_fini(&said);
    tt_graph_destroy(s.graph);
    tt_pipe_destroy(pipe);
}

TEST(rows_wait_as_long_as_the_table_says)
{
    check_schedule("gpipe", 2);
    check_schedule("1f1b", 2);
    check_schedule("1f1b", 3);
    check_schedule("zb-h1", 3);
}
