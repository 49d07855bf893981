// The executor: accumulation, orders, updates, checks, traces, failing memory.

#include "base/alloc.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "ops/comm/exchange_points.h"
#include "ops/ops.h"
#include "plan/odd_backend.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Loss, gradients and weights after two steps.
typedef struct outcome {
    double loss, w1[24], w2[16], bias[4];
} outcome;

static outcome train(int64_t batch, const tt_lower_options *options)
{
    world w;
    outcome o;
    world_init(&w);
    world_build_mlp(&w.b, batch);
    world_open(&w, NULL, options);
    CHECK_OK(tt_plan_verify(w.plan));
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    CHECK(tt_exec_peak_used(w.exec) == w.plan->peak_bytes);
    o.loss = world_scalar(&w, "loss");
    world_read(&w, "w1", o.w1);
    world_read(&w, "w2", o.w2);
    world_read(&w, "bias", o.bias);
    world_fini(&w);
    return o;
}

static void check_same(const outcome *a, const outcome *b, double tolerance)
{
    const double *x = (const double *)a, *y = (const double *)b;
    for (size_t i = 0; i < sizeof(*a) / sizeof(*x); i++)
        CHECK_CLOSE(x[i], y[i], tolerance);
}

TEST(micro_batches_equal_the_whole_batch)
{
    const outcome whole = train(12, &(tt_lower_options){.n_micro = 1});
    const outcome parts = train(4, &(tt_lower_options){.n_micro = 3});
    const outcome rows = train(1, &(tt_lower_options){.n_micro = 12});
    check_same(&parts, &whole, 1e-12);
    check_same(&rows, &whole, 1e-12);
    CHECK(whole.loss > 0);
}

TEST(weight_gradients_apart_give_the_same_bits)
{
    const outcome joined = train(4, &(tt_lower_options){.n_micro = 3});
    const outcome apart =
        train(4, &(tt_lower_options){.n_micro = 3, .split_weight_grad = true});
    CHECK(memcmp(&joined, &apart, sizeof(joined)) == 0);
}

TEST(gradients_are_added_where_they_are_computed)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, NULL, &(tt_lower_options){.n_micro = 3});
    CHECK(world_count(&w, "offer") == 0);
    CHECK(world_count(&w, "reshape") == 0 && world_count(&w, "split") == 0);
    CHECK(world_count(&w, "fetch") == 0 && world_count(&w, "agree") == 0);
    int n_first = 0, n_add = 0;
    for (int32_t s = 0; s < w.plan->n_steps; s++) {
        const tt_step *step = &w.plan->step[s];
        n_first += step->accumulate == TT_ADD_AFTER_FIRST;
        n_add += step->accumulate == TT_ADD;
    }
    CHECK(n_first == 4); // three weights and the loss
    CHECK(n_add == 2);   // the shared weight and bias
    world_fini(&w);
}

// A sum of the update phase belongs to one step, whatever the micro-batches.
TEST(sums_in_the_update_start_anew)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:2 in:3");
    const tt_val sum = tt_reduce_dims(&w.b, x, TT_REDUCE_SUM, NULL, 0);
    tt_output(&w.b, "all", tt_tally(&w.b, sum));
    w.b.phase = TT_UPDATE;
    tt_output(&w.b, "last", tt_tally(&w.b, tt_scale(&w.b, sum, 2)));
    world_open(&w, NULL, &(tt_lower_options){.n_micro = 3});
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    double all = 0, last = 0;
    for (int i = 1; i <= 18; i++) {
        all += sin(i);
        last += i > 12 ? 2 * sin(i) : 0;
    }
    CHECK_CLOSE(world_scalar(&w, "all"), all, 1e-14);
    CHECK_CLOSE(world_scalar(&w, "last"), last, 1e-14);
    world_fini(&w);
}

TEST(segments_and_order_are_as_asked)
{
    static const char *const joined[] = {"forward.0", "backward.0", "update.0"};
    static const char *const apart[] = {"forward.0", "backward.0",
                                        "weight_grad.0", "update.0"};
    for (int split = 0; split < 2; split++) {
        world w;
        world_init(&w);
        world_build_mlp(&w.b, 2);
        world_open(
            &w, NULL,
            &(tt_lower_options){.n_micro = 2, .split_weight_grad = split == 1});
        const tt_plan *plan = w.plan;
        CHECK(plan->n_segments == 3 + split);
        for (int i = 0; i < plan->n_segments; i++)
            CHECK(strcmp(plan->segment[i].name,
                         split == 1 ? apart[i] : joined[i]) == 0);
        CHECK(plan->n_order == 2 * (2 + split) + 1);
        CHECK(plan->order[plan->n_order - 1].segment == 2 + split);
        world_fini(&w);
    }
}

TEST(updates_are_written_over_the_old_weights)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 2);
    world_open(&w, NULL, NULL);
    const tt_ref *home = &w.plan->home[world_find(&w, "w2").id];
    int n_writes = 0;
    for (int32_t s = 0; s < w.plan->n_steps; s++)
        n_writes += w.plan->step[s].out[0].buffer == home->buffer;
    CHECK(n_writes == 1);
    world_fini(&w);
}

static tt_status feed_bad(void *user, tt_exec *exec, int32_t micro)
{
    double data[6] = {1, 2, 3, 4, 5, 6};
    if (micro == 1)
        data[4] = (double)INFINITY;
    return tt_exec_write(exec, world_find(user, "x"), data);
}

TEST(the_operator_that_made_a_nan_is_named)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:2 b:3");
    (void)tt_scope_push(&w.b, "block.%d", 3);
    tt_val y = tt_mul(&w.b, tt_scale(&w.b, x, 2), x);
    tt_scope_pop(&w.b, 0);
    tt_output(&w.b, "y", y);
    world_open(&w, NULL, &(tt_lower_options){.n_micro = 2});
    CHECK(tt_exec_run(w.exec, feed_bad, &w) == TT_ERR_STATE);
    CHECK_MSG(strcmp(tt_error_message(),
                     "block.3: scale produced Inf (first at element 4 of "
                     "output 0) in micro-batch 2 of step 1") == 0,
              "%s", tt_error_message());
    world_fini(&w);
}

TEST(what_is_not_kept_cannot_be_read)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:2 b:3");
    const tt_val y = tt_scale(&w.b, x, 2);
    tt_output(&w.b, "z", tt_mul(&w.b, y, x));
    world_open(&w, NULL, NULL);
    double data[6];
    CHECK(tt_exec_read(w.exec, y, data) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "mark it as an output") != NULL);
    double one;
    CHECK(tt_exec_get_scalar(w.exec, x, &one) == TT_ERR_ARG);
    CHECK(tt_exec_set_scalar(w.exec, "lr", 1) == TT_ERR_ARG);
    world_fini(&w);
}

TEST(what_outlives_a_run_lies_where_it_is_told)
{
    world w;
    double own[24], told[24];
    world_init(&w);
    world_build_mlp(&w.b, 12);
    world_open(&w, NULL, NULL);
    CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    world_read(&w, "w1", own);
    const int64_t bytes = (w.plan->persistent_bytes + 63) / 64 * 64;
    char *room = tt_alloc(bytes);
    const tt_exec_options options = {.poison = true, .room = room};
    tt_exec_destroy(w.exec);
    CHECK_OK(tt_exec_create(w.plan, w.backend, &options, &w.exec));
    CHECK_OK(tt_exec_init_state(w.exec, 1));
    CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    world_read(&w, "w1", told);
    CHECK(memcmp(own, told, sizeof own) == 0);
    CHECK(tt_exec_peak_used(w.exec) == w.plan->peak_bytes);
    const char *at = tt_exec_dense(w.exec, world_find(&w, "w1"));
    CHECK(at >= room && at + sizeof told <= room + bytes);
    CHECK(memcmp(at, told, sizeof told) == 0);
    tt_free(room);
    world_fini(&w);
}

TEST(statistics_and_trace_cover_every_step)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 2);
    world_open(&w, NULL, &(tt_lower_options){.n_micro = 2});
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    tt_exec_stats stats;
    tt_exec_stats_get(w.exec, &stats);
    CHECK(stats.n_runs == 3 && stats.kernel_seconds <= stats.wall_seconds);
    CHECK(stats.overhead_fraction >= 0 && stats.overhead_fraction < 1);
    CHECK(stats.flops == 3 * w.plan->cost.flops);
    tt_str text = {0};
    CHECK_OK(tt_exec_trace_print(w.exec, &text));
    int n_events = 0;
    for (const char *p = tt_str_text(&text);
         (p = strstr(p, "\"ph\": \"X\"")) != NULL; p++)
        n_events++;
    int64_t n_steps = 0;
    for (int32_t o = 0; o < w.plan->n_order; o++)
        n_steps += w.plan->segment[w.plan->order[o].segment].n;
    CHECK_MSG(n_events == 3 * n_steps, "%d events", n_events);
    tt_str_fini(&text);
    tt_exec_stats_reset(w.exec);
    tt_exec_stats_get(w.exec, &stats);
    CHECK(stats.n_runs == 0 && stats.flops == 0);
    world_fini(&w);
}

TEST(initial_values_depend_on_seed_and_name_alone)
{
    double first[24], second[24];
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 2);
    world_open(&w, NULL, NULL);
    world_read(&w, "w1", first);
    CHECK_OK(tt_exec_init_state(w.exec, 2));
    world_read(&w, "w1", second);
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    CHECK_OK(tt_exec_init_state(w.exec, 1));
    world_read(&w, "w1", second);
    CHECK(memcmp(first, second, sizeof(first)) == 0);
    double other[16];
    world_read(&w, "w2", other);
    CHECK(memcmp(first, other, sizeof(other)) != 0);
    world_fini(&w);
}

static tt_status lower_and_run(const tt_graph *graph, tt_backend *backend)
{
    tt_plan *plan = NULL;
    tt_exec *exec = NULL;
    const tt_exec_options options = {.trace = true};
    tt_status status = tt_plan_lower(graph, &backend->target,
                                     &(tt_lower_options){.n_micro = 2}, &plan);
    if (status == TT_OK)
        status = tt_exec_create(plan, backend, &options, &exec);
    if (status == TT_OK)
        status = tt_exec_init_state(exec, 1);
    if (status == TT_OK)
        status = tt_exec_run(exec, NULL, NULL);
    tt_exec_destroy(exec);
    tt_plan_destroy(plan);
    return status;
}

static void fail_everywhere(const tt_backend_def *def)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    CHECK_OK(tt_builder_take(&w.b, &w.graph));
    CHECK_OK(tt_backend_open(def, NULL, &w.backend));
    CHECK_OK(lower_and_run(w.graph, w.backend));
    const int64_t live = tt_alloc_live();
    for (int64_t k = 1;; k++) {
        tt_alloc_fail_at(k);
        const tt_status status = lower_and_run(w.graph, w.backend);
        const bool reached = tt_alloc_count() >= k;
        tt_alloc_fail_at(0);
        CHECK_MSG(tt_alloc_live() == live, "leak at allocation %lld",
                  (long long)k);
        if (!reached) {
            CHECK(status == TT_OK && k > 20);
            break;
        }
        CHECK_MSG(status == TT_ERR_NOMEM, "allocation %lld: %s", (long long)k,
                  tt_status_name(status));
    }
    world_fini(&w);
}

TEST(any_allocation_may_fail)
{
    fail_everywhere(tt_backend_find("ref"));
    fail_everywhere(&odd_backend); // with conversions
}
