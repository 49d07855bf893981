// What the executor asks of a wire: when flights begin and must be over, in which
// order, in which micro-batch; whose fault it was; how it is shown.

#include "base/alloc.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/exchange_points.h"
#include "test.h"

#include <string.h>

typedef struct call {
    char what; // 'b', 'f'
    int32_t flight;
} call;

typedef struct mock {
    call call[64];
    int n;
    int fail_at; // this call fails; -1: none
    double scale[16];
    const tt_order *row[16]; // in which each flight began
    char *memory;
    int64_t bytes;
    const tt_plan *plan; // NULL: it is not bound
} mock;

static tt_status note(mock *m, char what, int32_t flight)
{
    CHECK(m->n < 64 && m->plan != NULL);
    m->call[m->n] = (call){what, flight};
    return m->n++ == m->fail_at ? tt_fail(TT_ERR_PEER, "rank 1 is gone")
                                : TT_OK;
}

static tt_status bind(void *ctx, const tt_plan *plan, tt_backend *backend,
                      const tt_args *args, void **bound_out)
{
    mock *m = ctx;
    CHECK(backend != NULL && plan->n_flights > 0);
    CHECK(args[plan->member[0]].in[0] != NULL);
    m->plan = plan;
    *bound_out = m;
    return TT_OK;
}

static void unbind(void *ctx, void *bound)
{
    mock *m = ctx;
    CHECK(bound == ctx && m->plan != NULL);
    m->plan = NULL;
}

static tt_status begin(void *ctx, void *bound, int32_t flight,
                       const tt_order *order)
{
    mock *m = bound;
    m->row[flight] = order;
    CHECK(bound == ctx && flight < m->plan->n_flights);
    return note(ctx, 'b', flight);
}

// What the other ranks add depends on the flight, so that magnitudes differ.
static tt_status finish(void *ctx, void *bound, int32_t flight,
                        const tt_order *order, tt_flight_times *times_out)
{
    mock *m = ctx;
    CHECK(order != NULL && order == m->row[flight]);
    const tt_plan *plan = m->plan;
    CHECK(bound == ctx);
    *times_out = (tt_flight_times){1, 3};
    TT_TRY(note(m, 'f', flight));
    for (int32_t i = 0; i < plan->flight[flight].n && m->memory != NULL; i++) {
        const int32_t s = plan->member[plan->flight[flight].first + i];
        const tt_ref *out = &plan->step[s].out[0];
        double *x = (double *)(m->memory + plan->buffer[out->buffer].offset);
        *x = m->scale[flight];
    }
    return TT_OK;
}

static void *take_memory(void *ctx, int64_t bytes)
{
    mock *m = ctx;
    m->bytes = bytes;
    m->memory = tt_alloc_aligned(bytes, 4096);
    return m->memory;
}

// Three sums over micro-batches, made one after another in backward and reduced
// over two ranks in the update; other steps between.
enum { SUMS = 3 };

static void build(world *w)
{
    static const char *const name[SUMS] = {"s0", "s1", "s2"};
    world_init(w);
    tt_builder *b = &w->b;
    tt_mesh *mesh = &b->graph->mesh;
    mesh->n_axes = 1;
    memcpy(mesh->axis[0].name, "data", 5);
    mesh->axis[0].size = 2;
    const tt_val x = tt_input(b, "x", TT_F64, "n:8");
    tt_val sum[SUMS];
    b->phase = TT_BACKWARD;
    for (int i = 0; i < SUMS; i++) {
        b->origin = name[i];
        sum[i] = tt_tally(b, tt_scale(b, x, i + 1));
        tt_place_set(b, sum[i], 0, tt_place_partial(TT_SUM));
    }
    b->phase = TT_UPDATE;
    for (int i = 0; i < SUMS; i++) {
        b->origin = name[i];
        tt_output(b, name[i],
                  tt_scale(b, tt_all_reduce(b, sum[i], 0, TT_SUM), 10));
    }
    CHECK_OK(tt_builder_take(b, &w->graph));
}

static tt_wire wire_of(mock *m)
{
    m->fail_at = -1;
    return (tt_wire){.bind = bind,
                     .unbind = unbind,
                     .begin = begin,
                     .finish = finish,
                     .ctx = m};
}

static tt_status open_on(world *w, const tt_wire *wire,
                         const tt_lower_options *options, bool check_finite)
{
    const tt_backend_options one = {.n_threads = 1};
    const tt_exec_options exec = {.poison = true,
                                  .trace = true,
                                  .check_finite = check_finite,
                                  .wire = wire};
    build(w);
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), &one, &w->backend));
    CHECK_OK(tt_plan_lower(w->graph, &w->backend->target, options, &w->plan));
    CHECK_OK(tt_plan_verify(w->plan));
    return tt_exec_create(w->plan, w->backend, &exec, &w->exec);
}

static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    const double x[8] = {1, 2, 3, 4, 5, 6, 7, micro};
    return tt_exec_write(exec, world_find(user, "x"), x);
}

static void check_calls(const mock *m, const char *what)
{
    for (int i = 0; what[2 * i] != '\0'; i++) {
        CHECK_MSG(i < m->n && m->call[i].what == what[2 * i] &&
                      m->call[i].flight == what[2 * i + 1] - '0',
                  "call %d of %s is %c%d", i, what, m->call[i].what,
                  m->call[i].flight);
    }
    CHECK((int)strlen(what) == 2 * m->n);
}

TEST(flights_begin_once_in_the_last_micro_batch_and_end_before_their_readers)
{
    for (int32_t n_micro = 1; n_micro <= 3; n_micro++) {
        world w;
        mock m = {0};
        const tt_wire wire = wire_of(&m);
        CHECK_OK(open_on(
            &w, &wire,
            &(tt_lower_options){.n_micro = n_micro, .bucket_bytes = 1}, true));
        for (int32_t i = 0; i < SUMS; i++) {
            CHECK(w.plan->flight[i].is_joined);
            CHECK(
                !w.plan
                     ->is_kept[w.graph
                                   ->node[w.plan->step[w.plan->member[i]].node]
                                   .in[0]
                                   .id]);
        }
        for (int run = 0; run < 2; run++) {
            m.n = 0;
            CHECK_OK(tt_exec_run(w.exec, feed, &w));
            check_calls(&m, "b0b1b2f0f1f2");
        }
        double y[8];
        world_read(&w, "s2", y);
        CHECK(y[0] == 30.0 * n_micro && y[6] == 210.0 * n_micro);
        world_fini(&w);
    }
}

// The same plan with a wire that can only do one after another.
static tt_status twice(void *ctx, const tt_step *step, const void *const *in,
                       void *const *out)
{
    (void)ctx;
    for (int64_t i = 0; i < step->moved_bytes / 8; i++)
        ((double *)out[0])[i] = 2 * ((const double *)in[0])[i];
    return TT_OK;
}

TEST(without_a_thread_members_are_done_where_their_flight_begins)
{
    world w;
    const tt_wire wire = {.collective = twice};
    CHECK_OK(open_on(&w, &wire, &(tt_lower_options){.n_micro = 2}, true));
    CHECK(w.plan->n_flights == 1 && w.plan->flight[0].n == SUMS);
    CHECK_OK(tt_exec_run(w.exec, feed, &w));
    double y[8];
    world_read(&w, "s1", y);
    CHECK(y[0] == 2 * 2 * 10 * 2 * 1 && y[7] == 2 * 10 * 2);
    tt_exec_stats stats;
    tt_exec_stats_get(w.exec, &stats);
    CHECK(stats.wait_seconds > 0 && stats.overhead_fraction < 1);
    world_fini(&w);
}

TEST(who_failed_is_named_and_when_it_begins_too)
{
    static const char *const message[] = {"s0: rank 1 is gone",
                                          "s1: rank 1 is gone"};
    static const int fail_at[] = {0, 4};
    for (int i = 0; i < 2; i++) {
        world w;
        mock m = {0};
        const tt_wire wire = wire_of(&m);
        CHECK_OK(
            open_on(&w, &wire, &(tt_lower_options){.bucket_bytes = 1}, false));
        m.fail_at = fail_at[i];
        CHECK(tt_exec_run(w.exec, feed, &w) == TT_ERR_PEER);
        CHECK_MSG(strcmp(tt_error_message(), message[i]) == 0, "%s",
                  tt_error_message());
        world_fini(&w);
    }
}

TEST(what_arrives_is_checked_like_what_is_computed)
{
    world w;
    mock m = {0};
    tt_wire wire = wire_of(&m);
    wire.alloc = take_memory;
    CHECK_OK(open_on(&w, &wire, &(tt_lower_options){.bucket_bytes = 1}, true));
    CHECK(m.bytes == w.plan->shared_bytes && m.bytes >= 3 * 64);
    m.scale[1] = (double)INFINITY;
    CHECK(tt_exec_run(w.exec, feed, &w) == TT_ERR_STATE);
    CHECK_MSG(strstr(tt_error_message(), "s1: all_reduce produced Inf") != NULL,
              "%s", tt_error_message());
    tt_exec_destroy(w.exec);
    w.exec = NULL;
    tt_free_aligned(m.memory); // the wire's own
    world_fini(&w);
}

// The largest of the step before goes first, as far as it is ready.
TEST(by_magnitude_the_largest_goes_first)
{
    world w;
    mock m = {.scale = {1, 5, 9}};
    tt_wire wire = wire_of(&m);
    wire.alloc = take_memory;
    CHECK_OK(open_on(
        &w, &wire,
        &(tt_lower_options){.bucket_bytes = 1, .order = TT_ORDER_MAGNITUDE},
        false));
    for (int run = 0; run < 2; run++) {
        m.n = 0;
        CHECK_OK(tt_exec_run(w.exec, feed, &w));
        // Flight 0 is on its way before another is ready.
        check_calls(&m, run == 0 ? "b0b1b2f0f1f2" : "b0b2b1f0f1f2");
    }
    tt_exec_destroy(w.exec);
    w.exec = NULL;
    tt_free_aligned(m.memory);
    world_fini(&w);
}

TEST(a_trace_shows_flights_and_waits)
{
    world w;
    mock m = {0};
    const tt_wire wire = wire_of(&m);
    tt_str text = {0};
    CHECK_OK(open_on(&w, &wire, &(tt_lower_options){0}, false));
    CHECK_OK(tt_exec_run(w.exec, feed, &w));
    CHECK_OK(tt_exec_trace_print(w.exec, &text));
    const char *s = tt_str_text(&text);
    CHECK_MSG(strstr(s, "\"name\": \"network\"") != NULL, "%s", s);
    CHECK(strstr(s, "\"cat\": \"comm\"") != NULL);
    CHECK(strstr(s, "\"cat\": \"exposed\"") != NULL);
    CHECK(strstr(s, "\"name\": \"s0 .. s2\"") != NULL);
    CHECK(strstr(s, "\"dur\": 2000000") != NULL); // the mock's times
    tt_str_fini(&text);
    world_fini(&w);
}
