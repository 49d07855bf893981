// The order of steps around collectives, in small graphs on two ranks.

#include "base/alloc.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/exchange_points.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static void start(world *w)
{
    world_init(w);
    w->b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"data", 2}}};
}

static void lower_for(world *w, int64_t bucket_bytes)
{
    const tt_lower_options options = {.bucket_bytes = bucket_bytes};
    CHECK_OK(tt_builder_take(&w->b, &w->graph));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w->backend));
    CHECK_OK(tt_plan_lower(w->graph, &w->backend->target, &options, &w->plan));
    CHECK_OK(tt_plan_verify(w->plan));
}

static void lower(world *w)
{
    lower_for(w, 1);
}

static int32_t step_of(const tt_plan *plan, tt_val v)
{
    const int32_t node = plan->graph->value[v.id].node;
    int32_t s = 0;
    while (s < plan->n_steps && plan->step[s].node != node)
        s++;
    CHECK(s < plan->n_steps);
    return s;
}

static tt_val partial(tt_builder *b, tt_val x, double by)
{
    const tt_val term = tt_scale(b, x, by);
    tt_place_set(b, term, 0, tt_place_partial(TT_SUM));
    return term;
}

static tt_val state(tt_builder *b, const char *name, const char *dims)
{
    const tt_init one = {.kind = TT_INIT_CONST, .a = 1};
    tt_shape shape = {0};
    CHECK_OK(tt_shape_parse(dims, &shape));
    return tt_state(b, TT_ROLE_OPTIM, name, TT_F64, &shape, one);
}

// A rate that needs no gradient is changed in place, after the weight that takes
// the old one and has to wait for its gradient.
TEST(an_update_that_waits_for_nothing_waits_for_those_who_read_what_it_changes)
{
    world w;
    start(&w);
    tt_builder *b = &w.b;
    const tt_val weight = state(b, "w", "a:6"), rate = state(b, "rate", "a:6");
    const tt_val x = tt_input(b, "x", TT_F64, "a:6");
    b->phase = TT_BACKWARD;
    const tt_val term = partial(b, x, 2);
    b->phase = TT_UPDATE;
    const tt_val grad = tt_all_reduce(b, term, 0, TT_SUM);
    const tt_val scaled = tt_mul(b, grad, rate);
    tt_update(b, weight, tt_add(b, weight, scaled));
    const tt_val lower_rate = tt_scale(b, rate, 0.5);
    tt_update(b, rate, lower_rate);
    lower(&w);
    CHECK(w.plan->home[rate.id].buffer ==
          w.plan->step[step_of(w.plan, lower_rate)].out[0].buffer);
    CHECK(step_of(w.plan, scaled) < step_of(w.plan, lower_rate));
    world_fini(&w);
}

// Three sums take scattered terms; `reader` reads the one of this number, and the
// others wait until backward is over.
static void check_sums(int reader)
{
    static const char *const names[] = {"a", "b", "c"};
    world w;
    start(&w);
    tt_builder *b = &w.b;
    const tt_val x = tt_input(b, "x", TT_F64, "n:6");
    tt_val sum[3];
    b->phase = TT_BACKWARD;
    for (int i = 0; i < 3; i++)
        sum[i] =
            tt_tally(b, tt_reduce_scatter(b, partial(b, x, i + 2), 0, "n"));
    const tt_val read = tt_scale(b, sum[reader], 3);
    const tt_val last = tt_scale(b, x, 5);
    for (int i = 0; i < 3; i++)
        tt_output(b, names[i], sum[i]);
    tt_output(b, "read", read);
    tt_output(b, "last", last);
    lower(&w);
    const int32_t at = step_of(w.plan, read), end = step_of(w.plan, last);
    for (int i = 0; i < 3; i++) {
        const int32_t s = step_of(w.plan, sum[i]);
        CHECK_MSG(i <= reader ? s < at : s > end, "%d, %d: %d of %d, %d",
                  reader, i, s, at, end);
        CHECK(i == 0 || s > step_of(w.plan, sum[i - 1]));
    }
    world_fini(&w);
}

TEST(sums_of_scattered_terms_wait_but_not_longer_than_their_readers)
{
    for (int i = 0; i < 3; i++)
        check_sums(i);
}

// Three wait, whatever else travels: what counts is the size of scattered terms.
TEST(few_sums_of_scattered_terms_wait)
{
    enum { N = 5 };
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    world w;
    start(&w);
    tt_builder *b = &w.b;
    const tt_val x = tt_input(b, "x", TT_F64, "n:6");
    const tt_val large = tt_input(b, "large", TT_F64, "n:600");
    tt_val sum[N];
    b->phase = TT_BACKWARD;
    tt_output(b, "large", tt_all_reduce(b, partial(b, large, 2), 0, TT_SUM));
    for (int i = 0; i < N; i++)
        sum[i] =
            tt_tally(b, tt_reduce_scatter(b, partial(b, x, i + 2), 0, "n"));
    const tt_val last = tt_scale(b, x, 5);
    for (int i = 0; i < N; i++)
        tt_output(b, names[i], sum[i]);
    tt_output(b, "last", last);
    lower(&w);
    for (int i = 0; i < N; i++)
        CHECK((step_of(w.plan, sum[i]) < step_of(w.plan, last)) == (i < N - 3));
    world_fini(&w);
}

// A flight has a part of all there is, the last scattered terms included; here no
// update follows.
TEST(scattered_terms_travel_with_their_neighbours)
{
    static const char *const dims[] = {"n:640", "n:640", "n:65536"};
    static const char *const names[] = {"a", "b", "c"};
    world w;
    start(&w);
    tt_builder *b = &w.b;
    tt_val x[3];
    for (int i = 0; i < 3; i++)
        x[i] = tt_input(b, names[i], TT_F64, dims[i]);
    b->phase = TT_BACKWARD;
    for (int i = 0; i < 3; i++)
        tt_output(
            b, names[i],
            tt_tally(b, tt_reduce_scatter(b, partial(b, x[i], 2), 0, "n")));
    lower_for(&w, 1 << 30);
    CHECK_MSG(w.plan->n_flights == 2, "%d", w.plan->n_flights);
    CHECK(w.plan->flight[0].n == 2 && w.plan->flight[1].n == 1);
    world_fini(&w);
}

// The last step of the plan reads what the only flight brings.
TEST(a_flight_may_not_meet_the_last_step)
{
    world w;
    start(&w);
    tt_builder *b = &w.b;
    const tt_val weight = state(b, "w", "a:6");
    const tt_val x = tt_input(b, "x", TT_F64, "a:6");
    b->phase = TT_BACKWARD;
    const tt_val term = partial(b, x, 2);
    b->phase = TT_UPDATE;
    const tt_val grad = tt_all_reduce(b, term, 0, TT_SUM);
    const tt_val other = tt_scale(b, x, 2);
    tt_output(b, "other", other);
    tt_update(b, weight, tt_add(b, weight, grad));
    lower(&w);
    tt_plan *plan = w.plan;
    CHECK(plan->n_flights == 1 && plan->flight[0].end == plan->n_steps - 1);
    plan->flight[0].end++;
    CHECK(tt_plan_verify(plan) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "meets the flight") != NULL);
    plan->flight[0].end--;
    world_fini(&w);
}

// A gradient of `n` numbers, and a layer that talks in backward. Returns the number
// of pieces in which the gradient travels: one after another, with no rest.
static int count_pieces(int n)
{
    world w;
    char dims[16];
    int64_t at = 0;
    int pieces = 0;
    start(&w);
    tt_builder *b = &w.b;
    snprintf(dims, sizeof(dims), "n:%d", n);
    const tt_val x = tt_input(b, "x", TT_F64, dims);
    b->phase = TT_BACKWARD;
    tt_output(b, "y", tt_all_reduce(b, partial(b, x, 2), 0, TT_SUM));
    const tt_val sum = tt_tally(b, tt_scale(b, x, 3));
    tt_place_set(b, sum, 0, tt_place_partial(TT_SUM));
    b->phase = TT_UPDATE;
    tt_output(b, "sum", tt_all_reduce(b, sum, 0, TT_SUM));
    lower(&w);
    for (int32_t f = 0; f < w.plan->n_flights; f++) {
        const tt_flight *flight = &w.plan->flight[f];
        if (flight->to == 0)
            continue;
        CHECK(flight->from == at);
        at = flight->to;
        pieces++;
    }
    CHECK_MSG(at == n * (int64_t)sizeof(double), "%d: %lld", n, (long long)at);
    world_fini(&w);
    return pieces;
}

TEST(pieces_of_a_row_are_all_of_it_whatever_its_size)
{
    CHECK(count_pieces(1) == 1);
    for (int n = 510; n < 520; n++)
        CHECK_MSG(count_pieces(n) == 8, "%d", n);
}

// ---- how operands lie --------------------------------------------------------

// The update has the weight's dims; by which factors is its own affair.
TEST(a_new_part_of_a_weight_lies_in_the_weight_whatever_its_factors)
{
    world w;
    start(&w);
    tt_builder *b = &w.b;
    const tt_val weight = state(b, "w", "a:6");
    const tt_val x = tt_input(b, "x", TT_F64, "b:2.c:3");
    tt_place_set(b, x, 0, tt_place_split(0));
    tt_output(b, "y", tt_scale(b, weight, 3));
    b->phase = TT_UPDATE;
    const tt_val part = tt_scale(b, x, 2);
    tt_place_set(b, part, 0, tt_place_split(0));
    tt_update(b, weight, tt_all_gather(b, part, 0));
    lower(&w);
    CHECK(w.plan->step[step_of(w.plan, part)].out[0].buffer ==
          w.plan->home[weight.id].buffer);
    world_fini(&w);
}

static const tt_step *reduction(world *w, tt_val x)
{
    tt_place_set(&w->b, x, 0, tt_place_partial(TT_SUM));
    const tt_val y = tt_all_reduce(&w->b, x, 0, TT_SUM);
    tt_output(&w->b, "y", y);
    lower(w);
    return &w->plan->step[step_of(w->plan, y)];
}

// Every element of the sum lies where the term's does, whatever the strides are.
TEST(a_sum_over_ranks_lies_as_its_terms_do)
{
    world w;
    start(&w);
    const tt_val x = tt_scale(&w.b, tt_input(&w.b, "x", TT_F64, "a:2 b:5"), 2);
    const tt_step *step =
        reduction(&w, tt_transpose(&w.b, x, (const int64_t[]){1, 0}, 2));
    const tt_operand *in = &step->in[0].operand, *out = &step->out[0].operand;
    CHECK(in->stride[0] == out->stride[0] && in->stride[1] == out->stride[1]);
    CHECK(step->moved_bytes == 10 * 8);
    world_fini(&w);
}

// What lies between the rows of a part is no part of the message.
TEST(a_sum_over_ranks_moves_no_more_than_its_elements)
{
    world w;
    start(&w);
    const tt_val x = tt_scale(&w.b, tt_input(&w.b, "x", TT_F64, "a:4 b:5"), 2);
    const tt_step *step = reduction(&w, tt_slice(&w.b, x, 1, 1, 2));
    CHECK_MSG(step->moved_bytes == 8 * 8, "%lld", (long long)step->moved_bytes);
    CHECK(tt_operand_is_dense(&step->in[0].operand));
    CHECK(tt_operand_is_dense(&step->out[0].operand));
    world_fini(&w);
}
