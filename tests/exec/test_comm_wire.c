// The wire over a transport: what it counts and tells, errors that reach whoever
// waits, calls of the host's own, an end at any time. Ranks are threads.

#include "base/alloc.h"
#include "base/clock.h"
#include "check/rank_threads.h"
#include "comm/transport/transport.h"
#include "exec/wire/wire.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/exchange_points.h"
#include "test.h"
#include "traffic/cost.h"
#include "traffic/site.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000, RANKS = 3, RUNS = 4 };

// ---- a plan whose only flight is an all-reduce of N floats -------------------

typedef struct rig {
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} rig;

static tt_graph *build(int32_t n_ranks)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"data", n_ranks}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:1000");
    b.phase = TT_BACKWARD;
    b.origin = "layer.w";
    const tt_val sum = tt_tally(&b, tt_scale(&b, x, 1));
    tt_place_set(&b, sum, 0, tt_place_partial(TT_SUM));
    b.phase = TT_UPDATE;
    tt_output(&b, "y", tt_all_reduce(&b, sum, 0, TT_SUM));
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

static tt_status rig_start(rig *r, tt_comm_wire *wire)
{
    const tt_backend_options one = {.n_threads = 1};
    TT_TRY(tt_backend_open(tt_backend_find("ref"), &one, &r->backend));
    TT_TRY(tt_plan_lower(r->graph, &r->backend->target,
                         &(tt_lower_options){.rank = tt_comm_wire_rank(wire)},
                         &r->plan));
    return tt_exec_create(
        r->plan, r->backend,
        &(tt_exec_options){.wire = tt_comm_wire_of(wire), .poison = true},
        &r->exec);
}

static tt_status rig_open(rig *r, tt_comm_wire *wire)
{
    r->graph = build(tt_comm_wire_size(wire));
    return rig_start(r, wire);
}

static void rig_close(rig *r)
{
    tt_exec_destroy(r->exec);
    tt_plan_destroy(r->plan);
    tt_backend_close(r->backend);
    tt_graph_destroy(r->graph);
}

static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    float x[N];
    (void)micro;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + *(const int *)user);
    return tt_exec_write(exec, tt_graph_find(tt_exec_plan(exec)->graph, "x"),
                         x);
}

static tt_status run_once(rig *r, int32_t rank)
{
    int add = rank;
    return tt_exec_run(r->exec, feed, &add);
}

// ---- counting and telling ------------------------------------------------------

static void check_stats(tt_comm_wire *wire)
{
    tt_wire_stats stats;
    tt_comm_wire_stats(wire, true, &stats);
    // A ring of three: twice two messages of a third, all elements but two blocks.
    CHECK(stats.flights == RUNS && stats.messages == RUNS * 4);
    CHECK(stats.bytes >= RUNS * 4 * (2 * N - 2 * 334) &&
          stats.bytes <= RUNS * 4 * (2 * N - 2 * 333));
    CHECK(stats.busy_seconds > 0 && stats.exposed_seconds >= 0 &&
          stats.exposed_seconds <= stats.busy_seconds + 1e-6);
    tt_comm_wire_stats(wire, false, &stats);
    CHECK(stats.flights == 0 && stats.messages == 0 && stats.bytes == 0 &&
          stats.busy_seconds == 0 && stats.exposed_seconds == 0);
}

static void check_events(const tt_comm_wire *wire, const tt_plan *plan)
{
    const tt_wire_event *event = NULL;
    CHECK(tt_comm_wire_events(wire, &event) == RUNS);
    for (int i = 0; i < RUNS; i++) {
        const tt_wire_event *e = &event[i];
        CHECK(e->number == i && strcmp(e->name, "layer.w") == 0);
        CHECK(e->name == plan->flight[0].name && e->bytes == 4 * N);
        CHECK(e->ready <= e->begun && e->begun <= e->ended);
        CHECK(e->asked >= e->ready && e->waited >= 0);
        CHECK(i == 0 || e->ready > event[i - 1].ended);
    }
}

static void check_journal(const tt_comm *comm, const char *what, int64_t number,
                          int64_t step, const char *where)
{
    tt_journal_event last;
    CHECK(tt_journal_last(comm->journal, &last) > 0);
    CHECK_MSG(strcmp(last.what, what) == 0 && strcmp(last.where, where) == 0,
              "%s (%s)", last.what, last.where);
    CHECK(last.number == number && last.step == step);
}

static tt_status count_and_tell(tt_comm *comm, void *user)
{
    const tt_wire_options options = {.collective = "ring", .trace = true};
    tt_comm_wire *wire = NULL;
    rig r = {0};
    (void)user;
    comm->stats.sent_messages = 77; // what was before does not count
    TT_TRY(tt_comm_wire_open(comm, &options, &wire));
    CHECK(tt_comm_wire_rank(wire) == comm->rank);
    TT_TRY(rig_open(&r, wire));
    CHECK(r.plan->n_flights == 1 && r.plan->flight[0].is_joined);
    for (int i = 0; i < RUNS; i++) {
        tt_comm_wire_step(wire, 10 + i);
        TT_TRY(run_once(&r, comm->rank));
    }
    float y[N];
    TT_TRY(tt_exec_read(r.exec, tt_graph_output_find(r.graph, "y"), y));
    for (int i = 0; i < N; i++)
        CHECK(y[i] == (float)(3 * i + 3));
    check_journal(comm, "all_reduce", RUNS, 10 + RUNS - 1, "layer.w");
    check_stats(wire);
    check_events(wire, r.plan);
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(a_wire_counts_and_tells_what_it_does)
{
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, count_and_tell, NULL));
    CHECK_OK(
        tt_rank_threads_run(RANKS, 0, count_and_tell, NULL)); // nothing shared
    CHECK(tt_alloc_live() == 0);
}

// ---- moves -----------------------------------------------------------------------

static tt_graph *build_move(int from, int to)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"pipe", RANKS}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:1000");
    tt_output(&b, "y", tt_move_value(&b, x, 0, from, to));
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

// What the step costs by formula, what the wire says, and what was sent.
static void check_move_cost(tt_comm_wire *wire, const tt_plan *plan,
                            bool is_sender)
{
    tt_coll_cost cost[8] = {{0}};
    tt_wire_stats stats;
    const int64_t bytes = is_sender ? 4 * N : 0, messages = is_sender ? 1 : 0;
    CHECK(plan->n_steps < 8 && plan->n_members <= 1);
    if (plan->n_members == 0) { // neither sends nor receives
        CHECK(!is_sender);
        return;
    }
    const tt_step *step = &plan->step[plan->member[0]];
    CHECK_OK(tt_traffic_costs(plan, "ring", cost));
    CHECK(cost[plan->member[0]].bytes == bytes &&
          cost[plan->member[0]].messages == messages);
    CHECK(step->cost.wire_bytes == (double)bytes &&
          step->cost.messages == (double)messages);
    tt_comm_wire_stats(wire, true, &stats);
    CHECK(stats.bytes == bytes && stats.messages == messages);
}

static tt_status move_once(tt_comm *comm, void *user)
{
    const int *end = user;
    tt_comm_wire *wire = NULL;
    rig r = {0};
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    r.graph = build_move(end[0], end[1]);
    TT_TRY(rig_start(&r, wire));
    TT_TRY(run_once(&r, comm->rank));
    float y[N];
    if (comm->rank == end[1])
        TT_TRY(tt_exec_read(r.exec, tt_graph_output_find(r.graph, "y"), y));
    for (int i = 0; i < N && comm->rank == end[1]; i++)
        CHECK(y[i] == (float)(i + end[0]));
    check_move_cost(wire, r.plan, comm->rank == end[0] && end[0] != end[1]);
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(a_move_is_sent_once_and_costs_only_its_sender)
{
    static const int ends[][2] = {{0, 2}, {2, 0}, {1, 1}};
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, move_once,
                                     (void *)(uintptr_t)ends[i]));
}

static tt_status keep_many(tt_comm *comm, void *user)
{
    enum { MANY = 9000 };
    const tt_wire_options options = {.trace = true};
    const tt_wire_event *event = NULL;
    tt_comm_wire *wire = NULL;
    rig r = {0};
    (void)user;
    TT_TRY(tt_comm_wire_open(comm, &options, &wire));
    TT_TRY(rig_open(&r, wire));
    for (int i = 0; i < MANY; i++)
        TT_TRY(run_once(&r, 0));
    const int64_t n = tt_comm_wire_events(wire, &event);
    CHECK(n >= 4096 && n <= 8192);
    for (int64_t i = 0; i < n; i++)
        CHECK(event[i].number == MANY - n + i);
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(the_newest_flights_are_kept)
{
    CHECK_OK(tt_rank_threads_run(1, 0, keep_many, NULL));
}

// ---- the host's own calls --------------------------------------------------------

static tt_status call_all(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    int64_t hash = 5 + comm->rank, most = 0;
    int32_t word = comm->rank == 1 ? 42 : 0;
    (void)user;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    const tt_coll_call reduce = {.kind = TT_ALL_REDUCE,
                                 .fold = {TT_FOLD_MAX, TT_NUM_I64},
                                 .count = 1,
                                 .in = &hash,
                                 .out = &most};
    TT_TRY(tt_comm_wire_call(wire, "hashes", &reduce));
    CHECK(most == 5 + RANKS - 1);
    const tt_coll_call spread = {.kind = TT_BROADCAST,
                                 .root = 1,
                                 .fold = {.type = TT_NUM_I32},
                                 .count = 1,
                                 .out = &word};
    TT_TRY(tt_comm_wire_call(wire, "the word", &spread));
    CHECK(word == 42);
    check_journal(comm, "the word", 0, -1, "");
    tt_wire_stats stats;
    tt_comm_wire_stats(wire, false, &stats);
    CHECK(stats.flights == 0 && stats.messages > 0);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(the_host_may_call_collectives_too)
{
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, call_all, NULL));
}

// ---- errors ------------------------------------------------------------------------

// Rank 1 leaves after everybody's first run; the others learn of it, at once from
// then on.
static tt_status lose_one(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    rig r = {0};
    atomic_int *n_ran = user;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    TT_TRY(rig_open(&r, wire));
    TT_TRY(run_once(&r, comm->rank));
    atomic_fetch_add(n_ran, 1);
    while (comm->rank == 1 && atomic_load(n_ran) < RANKS)
        usleep(100);
    tt_status status = TT_OK;
    if (comm->rank == 1)
        status = tt_fail(TT_ERR_IO, "the disk is full");
    for (int i = 0; i < 2 && comm->rank != 1; i++) {
        const double start = tt_clock_seconds();
        CHECK(run_once(&r, comm->rank) == TT_ERR_PEER);
        CHECK_MSG(strncmp(tt_error_message(), "layer.w: all_reduce: ", 21) ==
                          0 &&
                      strstr(tt_error_message(), "failed while rank") != NULL,
                  "%s", tt_error_message());
        CHECK(i == 0 || tt_clock_seconds() - start < 1);
        const tt_coll_call barrier = {.kind = TT_BARRIER};
        CHECK(tt_comm_wire_call(wire, "the end", &barrier) == TT_ERR_PEER);
        CHECK(strncmp(tt_error_message(), "the end: ", 9) == 0);
        status = TT_ERR_PEER;
    }
    rig_close(&r);
    tt_comm_wire_close(wire);
    return status;
}

TEST(a_lost_rank_is_an_error_for_the_others_and_for_all_that_follows)
{
    atomic_int n_ran = 0;
    CHECK(tt_rank_threads_run(RANKS, 1 << 20, lose_one, &n_ran) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(), "rank 1: the disk is full") == 0);
    CHECK(tt_alloc_live() == 0);
}

static tt_status refuse(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    (void)user;
    CHECK(tt_comm_wire_open(comm, &(tt_wire_options){.collective = "rings"},
                            &wire) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "rings") != NULL);
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    // A plan for other ranks than there are.
    rig r = {.graph = build(comm->size + 1)};
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &r.backend));
    CHECK_OK(tt_plan_lower(r.graph, &r.backend->target, &(tt_lower_options){0},
                           &r.plan));
    CHECK(tt_exec_create(r.plan, r.backend,
                         &(tt_exec_options){.wire = tt_comm_wire_of(wire)},
                         &r.exec) == TT_ERR_ARG);
    CHECK_MSG(strcmp(tt_error_message(),
                     "the plan is for 2 ranks, but there are 1") == 0,
              "%s", tt_error_message());
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(what_a_wire_cannot_do_is_refused)
{
    CHECK_OK(tt_rank_threads_run(1, 0, refuse, NULL));
    CHECK(tt_alloc_live() == 0);
}

// Every allocation fails in turn; what was made is taken down again.
TEST(a_wire_survives_every_failed_allocation)
{
    const tt_wire_options options = {.trace = true};
    tt_comm *comm = NULL;
    CHECK_OK(tt_self_open(1, &comm));
    const int64_t live = tt_alloc_live();
    tt_status status = TT_ERR_NOMEM;
    int k = 0;
    for (; status != TT_OK; k++) {
        tt_comm_wire *wire = NULL;
        rig r = {0};
        tt_alloc_fail_at(k + 1);
        status = tt_comm_wire_open(comm, &options, &wire);
        tt_alloc_fail_at(0);
        if (status == TT_OK) {
            CHECK_OK(rig_open(&r, wire));
            CHECK_OK(run_once(&r, 0));
            rig_close(&r);
        }
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        tt_comm_wire_close(wire);
        CHECK(tt_alloc_live() == live);
    }
    CHECK(k >= 4);
    tt_comm_close(comm);
}

TEST(an_executor_with_flights_survives_every_failed_allocation)
{
    tt_comm *comm = NULL;
    tt_comm_wire *wire = NULL;
    rig r = {0};
    CHECK_OK(tt_self_open(1, &comm));
    CHECK_OK(tt_comm_wire_open(comm, NULL, &wire));
    r.graph = build(1);
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &r.backend));
    const tt_exec_options options = {.wire = tt_comm_wire_of(wire)};
    tt_status status = TT_ERR_NOMEM;
    for (int k = 1; status != TT_OK; k++) {
        const int64_t live = tt_alloc_live();
        tt_alloc_fail_at(k);
        status = tt_plan_lower(r.graph, &r.backend->target,
                               &(tt_lower_options){0}, &r.plan);
        if (status == TT_OK)
            status = tt_plan_verify(r.plan);
        if (status == TT_OK)
            status = tt_exec_create(r.plan, r.backend, &options, &r.exec);
        tt_alloc_fail_at(0);
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        if (status != TT_OK) {
            tt_plan_destroy(r.plan);
            r.plan = NULL;
            // Room for its flights may have grown for good.
            CHECK(tt_alloc_live() - live <= 2);
        }
    }
    CHECK_OK(run_once(&r, 0));
    rig_close(&r);
    tt_comm_wire_close(wire);
    tt_comm_close(comm);
    CHECK(tt_alloc_live() == 0);
}

// Closed while a flight is in the air that no peer takes part in.
static tt_status leave_early(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    rig r = {0};
    (void)user;
    comm->deadline = 0.3;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    TT_TRY(rig_open(&r, wire));
    if (comm->rank == 0) {
        const double start = tt_clock_seconds();
        CHECK(run_once(&r, 0) == TT_ERR_TIMEOUT);
        CHECK(strstr(tt_error_message(), "waited 0.") != NULL);
        CHECK(tt_clock_seconds() - start < 20);
    } else {
        usleep(600000); // until rank 0 has given up
    }
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(a_rank_that_does_not_come_is_a_timeout)
{
    CHECK_OK(tt_rank_threads_run(2, 1 << 20, leave_early, NULL));
}

// ---- signals -----------------------------------------------------------------------

static atomic_int seen_by_main;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&seen_by_main, pthread_equal(pthread_self(), main_thread));
}

TEST(signals_are_not_for_the_wire)
{
    tt_comm *comm = NULL;
    tt_comm_wire *wire = NULL;
    sigset_t old;
    main_thread = pthread_self();
    (void)signal(SIGUSR1, on_signal);
    CHECK_OK(tt_self_open(1, &comm));
    CHECK_OK(tt_comm_wire_open(comm, NULL, &wire));
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &old) == 0);
    CHECK(sigismember(&old, SIGUSR1) == 0); // the host's mask is as it was
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(atomic_load(&seen_by_main) == 1);
    tt_comm_wire_close(wire);
    tt_comm_close(comm);
}

// Whether links were measured changes the time of a sum and never its bits.
TEST(wire_without_a_calibration_sums_in_the_same_order)
{
    static const tt_coll_kind kinds[] = {TT_ALL_REDUCE, TT_REDUCE_SCATTER,
                                         TT_REDUCE_TO};
    for (int n = 2; n <= 9; n++)
        for (int64_t count = 1; count < 1 << 24; count *= 5)
            for (int k = 0; k < 6; k++) {
                const tt_traffic_rules rules = {.is_exact = k >= 3};
                const tt_coll_call call = {.kind = kinds[k % 3],
                                           .group = {.n = n},
                                           .fold = {TT_FOLD_SUM, TT_NUM_F32},
                                           .count = count};
                const tt_coll_def *def = tt_traffic_choose(&rules, &call);
                CHECK_MSG(def->is_ordered, "%s of %lld on %d", def->name,
                          (long long)count, n);
            }
}
