// What rank 0 learns about all ranks, which are threads here: who is late, what was
// sent, one trace.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "check/rank_threads.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "test.h"
#include "train/ranks_report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, STEPS = 12, LATE_MS = 20 };

typedef struct setup {
    char path[64]; // of the trace
    int late;      // the rank that is
} setup;

// x split over the ranks: its sum, all-reduced.
static void build(tt_builder *b)
{
    tt_mesh *mesh = &b->graph->mesh;
    mesh->n_axes = 1;
    memcpy(mesh->axis[0].name, "data", 5);
    mesh->axis[0].size = RANKS;
    const tt_val x = tt_input(b, "x", TT_F64, "row:7 col:3");
    tt_place_set(b, x, 0, tt_place_split(0));
    const tt_val part = tt_reduce_dims(b, x, TT_REDUCE_SUM, NULL, 0);
    tt_place_set(b, part, 0, tt_place_partial(TT_SUM));
    tt_output(b, "y", tt_scale(b, tt_all_reduce(b, part, 0, TT_SUM), 2));
}

static void open_world(world *w, int rank, tt_comm_wire *wire)
{
    const tt_exec_options options = {.trace = true,
                                     .wire = tt_comm_wire_of(wire)};
    // ThreadSanitizer does not see that threads of a team have ended their part.
    const tt_backend_options one = {.n_threads = 1};
    world_init(w);
    build(&w->b);
    CHECK_OK(tt_builder_take(&w->b, &w->graph));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), &one, &w->backend));
    CHECK_OK(tt_plan_lower(w->graph, &w->backend->target,
                           &(tt_lower_options){.rank = rank}, &w->plan));
    CHECK_OK(tt_exec_create(w->plan, w->backend, &options, &w->exec));
    CHECK_OK(tt_exec_write(w->exec, world_find(w, "x"), (double[21]){1}));
}

static void close_world(world *w)
{
    tt_exec_destroy(w->exec);
    tt_plan_destroy(w->plan);
    tt_backend_close(w->backend);
    tt_graph_destroy(w->graph);
    tt_builder_fini(&w->b);
}

static void check_point(int rank, bool has, const tt_ranks_point *p)
{
    CHECK(has == (rank == 0));
    if (!has)
        return;
    CHECK(p->exposed > 0 && p->hidden >= 0 && p->bytes > 0);
    CHECK_MSG(p->spread > 0.9e-3 * LATE_MS && p->spread < 1, "%g", p->spread);
}

static void check_ranks(const setup *s, const tt_ranks *ranks)
{
    CHECK(ranks->n == RANKS && ranks->n_collectives == STEPS);
    CHECK(ranks->straggler == s->late && ranks->clock_error == 0);
    CHECK(ranks->rank[s->late].n_last > STEPS / 2);
    CHECK(ranks->rank[s->late].late > 0.9e-3 * LATE_MS);
    CHECK(ranks->rank[s->late].waited < ranks->rank[0].waited);
    CHECK(ranks->spread_max >= ranks->spread && ranks->n_names == 1);
    for (int r = 0; r < RANKS; r++) {
        const tt_rank_row *row = &ranks->rank[r];
        CHECK(row->messages > 0 && row->bytes > 0 && row->kernels > 0);
        CHECK(row->busy > 0 && row->exposed > 0 && tt_rank_hidden(row) >= 0);
        CHECK(row->host[0] == 'h' && row->host[1] == '0' + r);
    }
}

static void run_steps(const setup *s, int rank, world *w, tt_ranks_report *r)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};
    tt_ranks_point point;
    bool has = false;
    for (int i = 1; i <= STEPS; i++) {
        const double started = tt_clock_seconds();
        if (rank == s->late)
            (void)nanosleep(&late, NULL);
        CHECK_OK(tt_exec_run(w->exec, NULL, NULL));
        CHECK_OK(tt_ranks_report_step(r, i, started));
        if (i % 5 != 0)
            continue;
        CHECK_OK(tt_ranks_report_point(r, 5, &has, &point));
        check_point(rank, has, &point);
    }
}

static tt_status be_rank(tt_comm *comm, void *user)
{
    const setup *s = user;
    const char host[] = {'h', (char)('0' + comm->rank), '\0'};
    tt_arena *arena = tt_arena_create();
    tt_comm_wire *wire = NULL;
    tt_ranks_report *report = NULL;
    const tt_ranks *ranks = NULL;
    world w;
    CHECK_OK(tt_comm_wire_open(comm, &(tt_wire_options){.trace = true}, &wire));
    open_world(&w, comm->rank, wire);
    const tt_ranks_options options = {
        .wire = wire, .exec = w.exec, .host = host, .wants_trace = true};
    CHECK_OK(tt_ranks_report_open(&options, &report));
    run_steps(s, comm->rank, &w, report);
    CHECK_OK(tt_ranks_report_end(report, arena, &ranks));
    CHECK((ranks != NULL) == (comm->rank == 0));
    CHECK_OK(tt_ranks_report_trace(report, s->path));
    tt_ranks_report_close(report);
    close_world(&w);
    tt_comm_wire_close(wire);
    if (ranks != NULL)
        check_ranks(s, ranks);
    tt_arena_destroy(arena);
    return TT_OK;
}

// Events of a rank's row that have a duration.
static int count(const tt_json_value *events, int64_t rank, int64_t row)
{
    int n = 0;
    for (const tt_json_value *v = events->first; v != NULL; v = v->next)
        n += tt_json_int(tt_json_get(v, "pid"), -1) == rank &&
             tt_json_int(tt_json_get(v, "tid"), -1) == row &&
             tt_json_get(v, "dur") != NULL;
    return n;
}

TEST(rank_0_learns_who_is_late)
{
    setup s = {.late = 2};
    tt_str text = {0};
    tt_arena *arena = tt_arena_create();
    const tt_json_value *root = NULL;
    snprintf(s.path, sizeof s.path, "/tmp/trace-%d.json", (int)getpid());
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, be_rank, &s));
    CHECK_OK(tt_file_read(s.path, 1 << 24, &text));
    CHECK_OK(tt_json_read(tt_str_text(&text), text.n, "trace", arena, &root));
    const tt_json_value *events = tt_json_get(root, "traceEvents");
    for (int r = 0; r < RANKS; r++) {
        CHECK(count(events, r, 0) == STEPS && count(events, r, 2) == STEPS);
        CHECK(count(events, r, 1) >= 2 * STEPS);
    }
    CHECK_OK(tt_file_remove(s.path));
    tt_str_fini(&text);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

TEST(one_rank_has_a_trace_and_no_report)
{
    char path[64];
    tt_arena *arena = tt_arena_create();
    tt_ranks_report *report = NULL;
    const tt_ranks *ranks = NULL;
    tt_ranks_point point;
    bool has = true;
    tt_str text = {0};
    const tt_json_value *root = NULL;
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 2);
    world_open(&w, NULL, NULL);
    const tt_ranks_options options = {.exec = w.exec, .wants_trace = true};
    CHECK_OK(tt_ranks_report_open(&options, &report));
    for (int i = 0; i < 1500; i++)
        tt_ranks_report_mark(report, "save", i, tt_clock_seconds());
    const double started = tt_clock_seconds();
    CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    CHECK_OK(tt_ranks_report_step(report, 1500, started));
    CHECK_OK(tt_ranks_report_point(report, 1, &has, &point));
    CHECK_OK(tt_ranks_report_end(report, arena, &ranks));
    CHECK(!has && ranks == NULL);
    snprintf(path, sizeof path, "/tmp/trace-%d.json", (int)getpid());
    CHECK_OK(tt_ranks_report_trace(report, path));
    CHECK_OK(tt_file_read(path, 1 << 24, &text));
    CHECK_OK(tt_json_read(tt_str_text(&text), text.n, "trace", arena, &root));
    CHECK(count(tt_json_get(root, "traceEvents"), 0, 0) <= 1024);
    CHECK(strstr(tt_str_text(&text), "step 1500") != NULL);
    CHECK(strstr(tt_str_text(&text), "save 1499") != NULL);
    CHECK_OK(tt_file_remove(path));
    CHECK(tt_ranks_report_trace(report, "/nowhere/trace.json") == TT_ERR_IO);
    tt_ranks_report_close(report);
    tt_str_fini(&text);
    tt_arena_destroy(arena);
    world_fini(&w);
}
