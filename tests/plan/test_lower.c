// Lowering: views, parts written in place, layouts, memory, refusals.

#include "base/alloc.h"
#include "exec/world.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/comm/exchange_points.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/relabel.h"
#include "plan/odd_backend.h"
#include "test.h"

#include <math.h>
#include <string.h>

static tt_status feed_numbers(void *user, tt_exec *exec, int32_t micro)
{
    const tt_val x = world_find(user, "x");
    double data[256];
    for (int i = 0; i < 256; i++)
        data[i] = micro * 1000 + i;
    return tt_exec_write(exec, x, data);
}

TEST(views_make_no_steps)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    tt_val part[TT_MAX_OUT];
    const tt_val x = tt_input(b, "x", TT_F64, "a:2 q:3.h:2 c:5");
    tt_split_factor(b, x, "q", part); // 3 times a:2 h:2 c:5
    tt_val y = tt_transpose(b, part[1], (int64_t[]){2, 0, 1}, 3); // c a h
    y = tt_slice(b, y, 0, 1, 3);                                  // c:3
    tt_output(b, "y", y);
    world_open(&w, NULL, NULL);
    CHECK(w.plan->n_steps == 0);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double data[12];
    world_read(&w, "y", data);
    for (int c = 0; c < 3; c++)
        for (int a = 0; a < 2; a++)
            for (int h = 0; h < 2; h++)
                CHECK(data[c * 4 + a * 2 + h] == a * 30 + 10 + h * 5 + (c + 1));
    world_fini(&w);
}

TEST(a_view_that_strides_cannot_express_is_copied_first)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    const tt_val x = tt_input(b, "x", TT_F64, "a:2 b:3");
    const tt_val y = tt_transpose(b, x, (int64_t[]){1, 0}, 2);
    tt_output(b, "y", tt_reshape(b, y, (int64_t[]){2}, 1)); // b.a, merged
    world_open(&w, NULL, NULL);
    CHECK(w.plan->n_steps == 1 && world_count(&w, "reorder") == 1);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double data[6];
    world_read(&w, "y", data);
    for (int i = 0; i < 6; i++)
        CHECK(data[i] == i % 2 * 3 + i / 2);
    world_fini(&w);
}

// join(2x, 3x): the parts lie side by side in the result.
static void check_join(const tt_backend_def *def, int n_copies)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    const tt_val x = tt_input(b, "x", TT_F64, "a:3 b:5.c:2");
    // The second part is renamed on the way.
    tt_val second = tt_reshape(b, x, (int64_t[]){1, 1, 1}, 3);
    second = tt_reshape(b, tt_scale(b, second, 3), (int64_t[]){1, 2}, 2);
    const tt_val part[] = {tt_scale(b, x, 2), second, x};
    const tt_join_params p = {.factor = "k", .dim = 1, .pos = 0};
    tt_output(b, "y", tt_join(b, part, 3, &p));
    world_open(&w, def, NULL);
    CHECK(world_count(&w, "join") == 0);
    CHECK_MSG(world_count(&w, "reorder") == n_copies, "%d copies",
              world_count(&w, "reorder"));
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double y[90];
    world_read(&w, "y", y);
    for (int a = 0; a < 3; a++)
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < 10; c++)
                CHECK(y[a * 30 + k * 10 + c] ==
                      (a * 10 + c) * (k == 2 ? 1 : k + 2));
    CHECK_OK(tt_plan_verify(w.plan));
    world_fini(&w);
}

TEST(kernels_that_can_write_into_a_concatenation)
{
    check_join(&odd_backend, 1); // of x, which is an input
}

// A part whose producer knows fewer dims than the place where it goes, and cannot
// say how to get there: it is copied.
static void check_cut(const char *shape)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    const tt_val x = tt_input(b, "x", TT_F64, shape);
    const tt_val like = tt_input(b, "like", TT_F64, "a:3 b:5.c:2");
    tt_val part[2];
    for (int i = 0; i < 2; i++) {
        const tt_val cut = tt_match(b, tt_scale(b, x, i + 2), like);
        part[i] = tt_reshape(b, cut, (int64_t[]){1, 1, 1}, 3);
    }
    const tt_join_params p = {.factor = "k", .dim = 2, .pos = 0};
    tt_output(b, "y", tt_join(b, part, 2, &p));
    world_open(&w, &odd_backend, NULL);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double y[60];
    world_read(&w, "y", y);
    for (int i = 0; i < 60; i++)
        CHECK(y[i] == (i / 4 * 2 + i % 2) * (i / 2 % 2 + 2));
    CHECK_OK(tt_plan_verify(w.plan));
    world_fini(&w);
}

TEST(parts_that_were_cut_into_more_dims_are_copied)
{
    check_cut("a:3 d:10");
    check_cut("a:3 d:2.e:5");
}

TEST(kernels_that_cannot_are_followed_by_a_copy)
{
    check_join(NULL, 3);
}

// The MLP after two steps; matrices kept backwards by the odd backend.
static void train(const tt_backend_def *def, bool split, double *out)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, def,
               &(tt_lower_options){.n_micro = 3, .split_weight_grad = split});
    CHECK_OK(tt_plan_verify(w.plan));
    const tt_ref *w2 = &w.plan->home[world_find(&w, "w2").id];
    const tt_val g = tt_graph_value(w.graph, world_find(&w, "w2"))->grad;
    if (def != NULL) {
        CHECK(w2->operand.layout == odd_layout);
        CHECK(w.plan->home[g.id].operand.layout == odd_layout);
        CHECK(world_count(&w, "offer") == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    CHECK(tt_exec_peak_used(w.exec) == w.plan->peak_bytes);
    world_read(&w, "w1", out);
    world_read(&w, "w2", out + 24);
    CHECK_OK(tt_exec_read(w.exec, g, out + 40));
    world_fini(&w);
}

TEST(weights_and_gradients_keep_the_layout_that_kernels_want)
{
    double want[56], got[56];
    train(NULL, false, want);
    for (odd_layout = ODD_PADDED; odd_layout <= ODD_TIGHT; odd_layout++)
        for (int split = 0; split < 2; split++) {
            train(&odd_backend, split == 1, got);
            for (int i = 0; i < 56; i++)
                CHECK_CLOSE(got[i], want[i], 1e-12);
        }
}

TEST(element_wise_operators_run_in_a_tight_layout)
{
    for (odd_layout = ODD_PADDED; odd_layout <= ODD_TIGHT; odd_layout++) {
        world w;
        world_init(&w);
        world_build_mlp(&w.b, 4);
        world_open(&w, &odd_backend, NULL);
        const tt_segment *update = &w.plan->segment[2];
        int n_converted = 0;
        for (int32_t s = update->first; s < update->first + update->n; s++)
            n_converted += w.plan->step[s].op == &tt_op_reorder;
        CHECK((n_converted == 0) == (odd_layout == ODD_TIGHT));
        world_fini(&w);
    }
}

TEST(states_can_be_written_and_read_in_any_layout)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, &odd_backend, NULL);
    double in[16], out[16];
    for (int i = 0; i < 16; i++)
        in[i] = i;
    CHECK_OK(tt_exec_write(w.exec, world_find(&w, "w2"), in));
    world_read(&w, "w2", out);
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    world_fini(&w);
}

enum { FILTER = 16 * 16 * 3 * 3, PIXELS = 2 * 16 * 6 * 6 };

// The gradient of a weight that a convolution and a penalty read, in this order
// or the other one.
static void penalised(const char *backend, bool first, float *grad_out)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    b->dtype = b->master = TT_F32;
    const tt_init normal = {.kind = TT_INIT_NORMAL, .a = 0.5};
    const tt_val x = tt_input(b, "x", TT_F32, "n:2 c:16 h:6 w:6");
    const tt_val k = tt_param(b, "k", normal, "o:16 c:16 kh:3 kw:3");
    tt_val penalty = first ? tt_mul(b, k, k) : TT_NONE;
    const tt_val y =
        tt_call(b, &tt_op_conv, NULL, (tt_val[]){x, k, TT_NONE}, 3, NULL);
    if (!first)
        penalty = tt_mul(b, k, k);
    const tt_val loss =
        tt_add(b, tt_reduce_dims(b, tt_mul(b, y, y), TT_REDUCE_SUM, NULL, 0),
               tt_reduce_dims(b, penalty, TT_REDUCE_SUM, NULL, 0));
    CHECK_OK(tt_grad(b, loss, NULL, NULL));
    world_add_sgd(b);
    world_open(&w, tt_backend_find(backend), &(tt_lower_options){.n_micro = 2});
    CHECK_OK(tt_plan_verify(w.plan));
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)sin(i + 1.0);
    CHECK_OK(tt_exec_write(w.exec, world_find(&w, "x"), pixels));
    CHECK_OK(tt_exec_run(w.exec, NULL, NULL));
    const tt_val grad = tt_graph_value(w.graph, world_find(&w, "k"))->grad;
    CHECK_OK(tt_exec_read(w.exec, grad, grad_out));
    world_fini(&w);
}

TEST(terms_of_a_sum_may_lie_in_different_ways)
{
    static float want[FILTER], got[FILTER];
    for (int first = 0; first < 2; first++) {
        penalised("ref", first == 1, want);
        penalised("cpu", first == 1, got);
        for (int i = 0; i < FILTER; i++)
            CHECK_CLOSE(got[i], want[i], 2e-3);
    }
}

// y = tanh(tanh(... x)): every step may overwrite its input.
TEST(dying_inputs_are_overwritten)
{
    world w;
    world_init(&w);
    tt_val x = tt_input(&w.b, "x", TT_F64, "a:64");
    for (int i = 0; i < 5; i++)
        x = tt_tanh(&w.b, x);
    tt_output(&w.b, "y", x);
    world_open(&w, NULL, NULL);
    CHECK(w.plan->n_buffers == 2);
    CHECK(w.plan->peak_bytes == 2 * 64 * 8);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double y[64];
    world_read(&w, "y", y);
    CHECK_CLOSE(y[3], tanh(tanh(tanh(tanh(tanh(3.0))))), 1e-15);
    world_fini(&w);
}

// The first row of h is a view of it, and read for every row of the product.
TEST(an_input_that_is_read_twice_is_not_overwritten)
{
    static const char *const names[] = {"ref", "cpu"};
    for (int k = 0; k < 2; k++) {
        world w;
        world_init(&w);
        const tt_val x = tt_input(&w.b, "x", TT_F64, "a:4 b:64");
        const tt_val h = tt_tanh(&w.b, x);
        tt_output(&w.b, "y", tt_mul(&w.b, h, tt_slice(&w.b, h, 0, 0, 1)));
        world_open(&w, tt_backend_find(names[k]), NULL);
        double y[256];
        CHECK_OK(feed_numbers(&w, w.exec, 0));
        CHECK_OK(tt_exec_run(w.exec, NULL, NULL));
        world_read(&w, "y", y);
        for (int i = 0; i < 256; i++)
            CHECK_CLOSE(y[i], tanh(i) * tanh(i % 64), 1e-12);
        world_fini(&w);
    }
}

TEST(what_nobody_reads_is_not_computed)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:4");
    (void)tt_tanh(&w.b, tt_scale(&w.b, x, 2));
    tt_output(&w.b, "y", tt_scale(&w.b, x, 3));
    world_open(&w, NULL, NULL);
    CHECK(w.plan->n_steps == 1);
    world_fini(&w);
}

TEST(a_state_that_no_step_touches_has_no_steps)
{
    world w;
    world_init(&w);
    (void)tt_param(&w.b, "idle", (tt_init){.kind = TT_INIT_CONST, .a = 2},
                   "n:3");
    const tt_val x = tt_input(&w.b, "x", TT_F64, "n:3");
    tt_output(&w.b, "y", tt_tanh(&w.b, x));
    world_open(&w, NULL, NULL);
    const tt_ref *home = &w.plan->home[world_find(&w, "idle").id];
    CHECK(home->buffer >= 0);
    CHECK(w.plan->buffer[home->buffer].first == -1);
    CHECK(w.plan->buffer[home->buffer].last == -1);
    double idle[3];
    world_read(&w, "idle", idle);
    CHECK(idle[0] == 2 && idle[2] == 2);
    world_fini(&w);
}

TEST(the_table_shows_the_step_with_most_memory_even_the_last)
{
    world w;
    world_init(&w);
    const tt_matmul_params p = {0};
    const tt_val x = tt_input(&w.b, "x", TT_F64, "m:40 k:1");
    const tt_val z = tt_input(&w.b, "z", TT_F64, "k:1 n:40");
    tt_output(&w.b, "y", tt_matmul(&w.b, tt_tanh(&w.b, x), z, TT_NONE, &p));
    world_open(&w, NULL, NULL);
    CHECK(w.plan->n_steps == 2);
    int64_t sum = 0;
    for (int u = 0; u < TT_N_BUFFER_USES; u++)
        sum += w.plan->bytes_by_use[u];
    CHECK(sum >= (1600 + 40) * 8);
    world_fini(&w);
}

TEST(shape_only_inputs_do_not_live_longer)
{
    world w;
    world_init(&w);
    const tt_val x = tt_input(&w.b, "x", TT_F64, "a:64");
    const tt_val y = tt_tanh(&w.b, x);
    tt_val z = tt_reduce_dims(&w.b, y, TT_REDUCE_SUM, NULL, 0);
    for (int i = 0; i < 3; i++)
        z = tt_scale(&w.b, z, 1.5);
    tt_output(&w.b, "z", tt_broadcast(&w.b, z, y));
    world_open(&w, NULL, NULL);
    const tt_buffer *b = &w.plan->buffer[w.plan->home[y.id].buffer];
    CHECK(b->last == 1);
    world_fini(&w);
}

// A state replaced by something that cannot be computed in place.
TEST(a_state_may_be_replaced_by_a_view)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    tt_shape shape;
    CHECK_OK(tt_shape_parse("a:3 b:3", &shape));
    const tt_val s = tt_state(b, TT_ROLE_BUFFER, "s", TT_F64, &shape,
                              (tt_init){.kind = TT_INIT_CONST, .a = 1});
    const tt_val x = tt_input(b, "x", TT_F64, "a:3 b:3");
    tt_update(b, s, tt_transpose(b, tt_add(b, x, s), (int64_t[]){1, 0}, 2));
    world_open(&w, NULL, NULL);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double data[9];
    world_read(&w, "s", data);
    for (int i = 0; i < 9; i++)
        CHECK(data[i] == i % 3 * 3 + i / 3 + 1);
    world_fini(&w);
}

// What replaces a state lies where the state does, but keeps its own factors: who
// reads it finds them.
TEST(a_state_may_be_replaced_by_a_value_with_other_factors)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    tt_shape shape;
    tt_val part[TT_MAX_OUT];
    CHECK_OK(tt_shape_parse("a:6", &shape));
    const tt_val s = tt_state(b, TT_ROLE_BUFFER, "s", TT_F64, &shape,
                              (tt_init){.kind = TT_INIT_CONST, .a = 1});
    const tt_val x = tt_input(b, "x", TT_F64, "b:2.c:3");
    const tt_val y = tt_scale(b, x, 2);
    tt_update(b, s, y);
    tt_split_factor(b, y, "b", part);
    tt_output(b, "sum", tt_add(b, part[0], part[1]));
    world_open(&w, NULL, NULL);
    CHECK_OK(tt_exec_run(w.exec, feed_numbers, &w));
    double data[6], sum[3];
    world_read(&w, "s", data);
    world_read(&w, "sum", sum);
    for (int i = 0; i < 6; i++)
        CHECK(data[i] == 2 * i);
    for (int i = 0; i < 3; i++)
        CHECK(sum[i] == 2 * i + 2 * (i + 3));
    CHECK(world_count(&w, "reorder") == 0);
    world_fini(&w);
}

TEST(plans_print_their_memory_and_are_reproducible)
{
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        world w;
        world_init(&w);
        world_build_mlp(&w.b, 4);
        world_open(&w, NULL, NULL);
        hash[i] = tt_plan_hash(w.plan);
        tt_str s = {0};
        tt_plan_print(w.plan, true, &s);
        CHECK(strstr(tt_str_text(&s), "parameters                       352") !=
              NULL);
        CHECK(strstr(tt_str_text(&s), "segment backward.0") != NULL);
        tt_str_fini(&s);
        int64_t sum = 0;
        for (int u = 0; u < TT_N_BUFFER_USES; u++)
            sum += w.plan->bytes_by_use[u];
        CHECK(sum <= w.plan->peak_bytes);
        world_fini(&w);
    }
    CHECK(hash[0] == hash[1] && hash[0] != 0);
}

TEST(a_plan_that_does_not_fit_says_what_would)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, NULL, NULL);
    const int64_t peak = w.plan->peak_bytes;
    const tt_alternative alternatives[] = {{"batch=2", peak / 2},
                                           {"batch=3", peak - 1}};
    CHECK_OK(tt_plan_check_fit(w.plan, peak, NULL, 0));
    CHECK_OK(tt_plan_check_fit(w.plan, 0, NULL, 0));
    CHECK(tt_plan_check_fit(w.plan, peak - 2, alternatives, 2) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "batch=2") != NULL);
    CHECK(strstr(tt_error_message(), "batch=3") == NULL);
    CHECK(strstr(tt_error_message(), "activations") != NULL);
    CHECK(tt_plan_check_fit(w.plan, 1, alternatives, 2) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "no smaller batch") != NULL);
    CHECK(tt_plan_check_fit(w.plan, 1, NULL, 0) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "no smaller batch") == NULL);
    world_fini(&w);
}

TEST(a_rank_outside_the_mesh_is_refused)
{
    world w;
    world_init(&w);
    tt_output(&w.b, "y", tt_tanh(&w.b, tt_input(&w.b, "x", TT_F64, "a:4")));
    CHECK_OK(tt_builder_take(&w.b, &w.graph));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w.backend));
    CHECK(tt_plan_lower(w.graph, &w.backend->target,
                        &(tt_lower_options){.rank = 1}, &w.plan) == TT_ERR_ARG);
    CHECK(tt_plan_lower(w.graph, &w.backend->target,
                        &(tt_lower_options){.n_micro = -1},
                        &w.plan) == TT_ERR_ARG);
    world_fini(&w);
}

// The product is of stage 0, one of its factors of stage 1.
TEST(a_stage_that_reads_from_a_later_one_is_refused)
{
    for (int late = 0; late < 2; late++) {
        world w;
        world_init(&w);
        tt_val in[2];
        for (int i = 0; i < 2; i++) {
            w.b.stage = i == late ? 1 : 0;
            in[i] = tt_tanh(&w.b,
                            tt_input(&w.b, i == 0 ? "x" : "z", TT_F64, "a:4"));
        }
        w.b.stage = 0;
        tt_output(&w.b, "y", tt_mul(&w.b, in[0], in[1]));
        CHECK_OK(tt_builder_take(&w.b, &w.graph));
        CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w.backend));
        CHECK(tt_plan_lower(w.graph, &w.backend->target, &(tt_lower_options){0},
                            &w.plan) == TT_ERR_STATE);
        CHECK(strstr(tt_error_message(), "computed later") != NULL);
        world_fini(&w);
    }
}

TEST(a_tensor_that_no_machine_holds_is_refused)
{
    world w;
    world_init(&w);
    tt_output(&w.b, "y",
              tt_tanh(&w.b, tt_input(&w.b, "x", TT_F64,
                                     "a:2000000000 b:2000000000")));
    CHECK_OK(tt_builder_take(&w.b, &w.graph));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w.backend));
    CHECK(tt_plan_lower(w.graph, &w.backend->target, &(tt_lower_options){0},
                        &w.plan) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "x would have") != NULL);
    world_fini(&w);
}
