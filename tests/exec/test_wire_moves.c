// Moves hold up nothing: ranks that post their receives first, a collective beside an
// open receive, a move that is posted while a collective waits, and an end at any time.
// Flights are begun and finished by hand, in an order of each rank's own.

#include "base/alloc.h"
#include "base/clock.h"
#include "check/rank_threads.h"
#include "exec/wire/wire.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "test.h"
#include "traffic/site.h"

#include <string.h>

enum { N = 3000, MOST_STEPS = 8 };

// ---- a plan with three flights ---------------------------------------------

// The mesh has the axes pipe (2) and data: rank = 2 * pipe + data where data is 2.
//
//   d   down   a move from pipe 0 to pipe 1        u   up   the way back
//   c   a sum over data
static tt_graph *build(int32_t n_data)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh =
        (tt_mesh){.n_axes = 2, .axis = {{"pipe", 2}, {"data", n_data}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:3000");
    const tt_val p = tt_input(&b, "p", TT_F32, "n:3000");
    tt_place_set(&b, p, 1, tt_place_partial(TT_SUM));
    tt_output(&b, "d", tt_move_value(&b, x, 0, 0, 1));
    tt_output(&b, "u", tt_move_value(&b, x, 0, 1, 0));
    tt_output(&b, "c", tt_all_reduce(&b, p, 1, TT_SUM));
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

typedef struct operands {
    const void *in[1];
    void *out[1];
    float from[N], to[N];
} operands;

typedef struct rig {
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_args args[2 * MOST_STEPS];
    operands *o;
    const tt_wire *wire;
    tt_comm_wire *comm_wire;
    void *bound;
    int32_t rank;
} rig;

static tt_status rig_open(rig *r, tt_comm_wire *wire, int32_t n_data)
{
    const tt_backend_options one = {.n_threads = 1};
    r->wire = tt_comm_wire_of(wire);
    r->comm_wire = wire;
    r->rank = tt_comm_wire_rank(wire);
    r->graph = build(n_data);
    TT_TRY(tt_backend_open(tt_backend_find("ref"), &one, &r->backend));
    TT_TRY(tt_plan_lower(r->graph, &r->backend->target,
                         &(tt_lower_options){.rank = r->rank}, &r->plan));
    CHECK(r->plan->n_flights == 3 && r->plan->n_steps <= MOST_STEPS);
    r->plan->n_slots = 2;
    r->o = tt_alloc(2 * MOST_STEPS * (int64_t)sizeof(*r->o));
    CHECK(r->o != NULL);
    for (int s = 0; s < 2 * r->plan->n_steps; s++) {
        const int slot = s / r->plan->n_steps;
        operands *o = &r->o[s];
        o->in[0] = o->from;
        o->out[0] = o->to;
        r->args[s] = (tt_args){.in = o->in, .out = o->out};
        for (int i = 0; i < N; i++)
            o->from[i] = (float)(i + 10 * r->rank + 1000 * slot);
    }
    return r->wire->bind(r->wire->ctx, r->plan, r->backend, r->args, &r->bound);
}

static void rig_close(rig *r)
{
    if (r->bound != NULL)
        r->wire->unbind(r->wire->ctx, r->bound);
    tt_free(r->o);
    tt_plan_destroy(r->plan);
    tt_backend_close(r->backend);
    tt_graph_destroy(r->graph);
}

// Capital letters: the same flight of the second slot.
static int32_t slot_of(char which)
{
    return which < 'a' ? 1 : 0;
}

static int32_t flight_of(const rig *r, char which)
{
    which = (char)(which | 0x20);
    for (int32_t f = 0; f < r->plan->n_flights; f++) {
        const tt_step *step =
            &r->plan->step[r->plan->member[r->plan->flight[f].first]];
        const tt_comm_params *p = step->params;
        const char is = step->op != &tt_op_move ? 'c'
                        : p->to_coord == 1      ? 'd'
                                                : 'u';
        if (is == which)
            return f;
    }
    CHECK(false);
    return -1;
}

// ---- what came -------------------------------------------------------------

static void check_result(const rig *r, char which, int32_t n_data)
{
    const tt_flight *flight = &r->plan->flight[flight_of(r, which)];
    const int slot = slot_of(which);
    float *got =
        r->o[slot * r->plan->n_steps + r->plan->member[flight->first]].to;
    const int pipe = r->rank / n_data, first = pipe * n_data;
    which = (char)(which | 0x20);
    for (int i = 0; i < N; i++) {
        float want = got[i];
        if (which == 'c')
            want = (float)(n_data * (i + 1000 * slot) +
                           10 * (n_data == 2 ? 2 * first + 1 : 0));
        else if (pipe == (which == 'd' ? 1 : 0))
            want = (float)(i + 1000 * slot +
                           10 * (r->rank + (pipe == 0 ? n_data : -n_data)));
        CHECK_MSG(got[i] == want, "rank %d, %c: %g is not %g", r->rank, which,
                  (double)got[i], (double)want);
    }
    memset(got, 0, sizeof r->o[0].to);
}

static tt_status call_host(const rig *r)
{
    float one[100], sum[100];
    for (int i = 0; i < 100; i++)
        one[i] = (float)i;
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = 100,
                               .in = one,
                               .out = sum};
    TT_TRY(tt_comm_wire_call(r->comm_wire, "a call", &call));
    for (int i = 0; i < 100; i++)
        CHECK(sum[i] == (float)(2 * i));
    return TT_OK;
}

// "+d-d*h": begins and finishes the flight d, then calls a collective of the host.
static tt_status play(const rig *r, const char *script, int32_t n_data)
{
    for (const char *at = script; *at != '\0'; at += 2) {
        tt_flight_times times;
        const tt_order row = {.slot = slot_of(at[1]), .micro = slot_of(at[1])};
        const int32_t f = *at == '*' ? -1 : flight_of(r, at[1]);
        if (*at == '*') {
            TT_TRY(call_host(r));
        } else if (*at == '+') {
            TT_TRY(r->wire->begin(r->wire->ctx, r->bound, f, &row));
        } else {
            TT_TRY(r->wire->finish(r->wire->ctx, r->bound, f, &row, &times));
            CHECK(times.begun > 0 && times.begun <= times.ended);
            check_result(r, at[1], n_data);
        }
    }
    return TT_OK;
}

typedef struct game {
    int32_t n_data;
    const char *script[4]; // of each rank
    const char *collective;
} game;

static tt_status play_often(tt_comm *comm, void *user)
{
    enum { TIMES = 30 };
    const game *g = user;
    const tt_wire_options options = {.collective = g->collective};
    tt_comm_wire *wire = NULL;
    rig r = {0};
    TT_TRY(tt_comm_wire_open(comm, &options, &wire));
    tt_status status = rig_open(&r, wire, g->n_data);
    for (int i = 0; i < TIMES && status == TT_OK; i++)
        status = play(&r, g->script[comm->rank], g->n_data);
    rig_close(&r);
    tt_comm_wire_close(wire);
    return status;
}

// In shared memory, whose own sums move no messages, and by messages.
static void play_all(const game *like)
{
    for (int i = 0; i < 4; i++) {
        game g = *like;
        g.collective = i % 2 == 0 ? "native" : "ring";
        CHECK_OK(tt_rank_threads_run(2 * g.n_data, i < 2 ? 1 << 20 : 0,
                                     play_often, &g));
    }
}

TEST(ranks_that_both_receive_first_do_not_wait_for_each_other)
{
    play_all(&(game){1, {"+u+d-u-d", "+d+u-d-u"}, NULL});
}

TEST(an_open_receive_holds_up_no_collective)
{
    play_all(&(game){
        2,
        {"+u+c-c-u+d-d", "+u+c-c-u+d-d", "+d+c-c+u-u-d", "+d+c-c+u-u-d"},
        NULL});
}

// The sum of ranks 0 and 1 waits for rank 1, which waits for rank 3, which waits for
// rank 2, which waits for what rank 0 sends after it has begun the sum.
TEST(a_move_leaves_while_a_collective_waits)
{
    play_all(
        &(game){2, {"+c+d-d-c", "+u-u+c-c", "+d-d+c-c", "+c-c+u-u"}, NULL});
}

// What comes first is wanted last: both are wanted before it comes, or it is not.
TEST(moves_are_matched_by_what_they_are)
{
    play_all(&(game){1, {"+d+D-d-D+u-u", "+D+d-D-d+u-u"}, NULL});
    play_all(&(game){1, {"+d+D-d-D+u-u", "+D-D+d-d+u-u"}, NULL});
    play_all(&(game){2,
                     {"+d+D+c-c-d-D+u-u", "+d+D+c-c-d-D+u-u",
                      "+c-c+D-D+d-d+u-u", "+c-c+D-D+d-d+u-u"},
                     NULL});
}

// A sum over all ranks waits for what was wanted before it, and then has its own.
TEST(calls_of_the_host_come_after_moves)
{
    play_all(&(game){1, {"+d+D+u*h-u-d-D", "+D+d+u*h-d-D-u"}, NULL});
}

// As in a pipeline: a second micro-batch comes down before the first goes up again.
TEST(a_flight_is_under_way_once_in_each_slot)
{
    play_all(&(game){1, {"+d+D+u-d-D+U-u-U", "+d+D-d+u-D+U-u-U"}, NULL});
    play_all(&(game){2,
                     {"+u+U+c-c+d+D-u-U-d-D", "+u+U+c-c+d+D-u-U-d-D",
                      "+d+D+c-c-d+u-D+U-u-U", "+d+D+c-c-d+u-D+U-u-U"},
                     NULL});
}

// ---- ends --------------------------------------------------------------------

static tt_status leave(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    rig r = {0};
    (void)user;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    tt_status status = rig_open(&r, wire, 1);
    if (status == TT_OK && comm->rank == 0) {
        status = play(&r, "+u-u", 1);
        CHECK_MSG(status == TT_ERR_PEER &&
                      strcmp(tt_error_message(),
                             "move: rank 1 failed while rank 0 waited for "
                             "it") == 0,
                  "%s", tt_error_message());
        CHECK(play(&r, "+d", 1) == TT_ERR_PEER); // and all that follows
    } else if (status == TT_OK) {
        status = tt_fail(TT_ERR_IO, "the disk is full");
    }
    rig_close(&r);
    tt_comm_wire_close(wire);
    return status;
}

TEST(a_receive_from_a_rank_that_failed_fails)
{
    CHECK(tt_rank_threads_run(2, 0, leave, NULL) == TT_ERR_IO);
    CHECK(tt_alloc_live() == 0);
}

static tt_status give_up(tt_comm *comm, void *user)
{
    tt_comm_wire *wire = NULL;
    rig r = {0};
    (void)user;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    TT_TRY(rig_open(&r, wire, 1));
    const double start = tt_clock_seconds();
    TT_TRY(play(&r, comm->rank == 0 ? "+u" : "+d", 1)); // never sent
    rig_close(&r);
    CHECK(tt_clock_seconds() - start < 5);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(a_plan_may_go_while_a_receive_of_it_is_open)
{
    CHECK_OK(tt_rank_threads_run(2, 0, give_up, NULL));
    CHECK(tt_alloc_live() == 0);
}

// ---- more nodes than tags --------------------------------------------------

// Two moves the same way, whose nodes are so far apart that their tags are equal.
static tt_graph *build_far(void)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"pipe", 2}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:3000");
    tt_output(&b, "a", tt_move_value(&b, x, 0, 0, 1));
    for (int i = 2; i < TT_TRAFFIC_TAGS; i++)
        (void)tt_add(&b, x, x);
    tt_output(&b, "b", tt_move_value(&b, x, 0, 0, 1));
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

// The receiver wants the second one first.
static tt_status send_far(tt_comm *comm, void *user)
{
    const tt_backend_options one = {.n_threads = 1};
    const tt_order row = {0};
    tt_flight_times times;
    tt_comm_wire *wire = NULL;
    rig r = {.graph = build_far(), .rank = comm->rank};
    (void)user;
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    r.wire = tt_comm_wire_of(wire);
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), &one, &r.backend));
    CHECK_OK(tt_plan_lower(r.graph, &r.backend->target,
                           &(tt_lower_options){.rank = r.rank}, &r.plan));
    CHECK(r.plan->n_flights == 2 && r.plan->n_steps == 2);
    r.o = tt_alloc(2 * (int64_t)sizeof(*r.o));
    for (int s = 0; s < 2; s++) {
        r.o[s].in[0] = r.o[s].from;
        r.o[s].out[0] = r.o[s].to;
        r.o[s].from[0] = (float)(s + 1);
        r.args[s] = (tt_args){.in = r.o[s].in, .out = r.o[s].out};
    }
    CHECK_OK(r.wire->bind(r.wire->ctx, r.plan, r.backend, r.args, &r.bound));
    for (int i = 0; i < 2; i++)
        CHECK_OK(
            r.wire->begin(r.wire->ctx, r.bound, r.rank == 0 ? i : 1 - i, &row));
    for (int f = 0; f < 2; f++)
        CHECK_OK(r.wire->finish(r.wire->ctx, r.bound, f, &row, &times));
    for (int s = 0; s < 2 && r.rank == 1; s++)
        CHECK(r.o[s].to[0] == (float)(s + 1));
    rig_close(&r);
    tt_comm_wire_close(wire);
    return TT_OK;
}

TEST(moves_with_equal_tags_are_told_apart_by_their_nodes)
{
    CHECK_OK(tt_rank_threads_run(2, 1 << 20, send_far, NULL));
}
