// Kernels of the CPU backend around its vectorised functions: shapes that the
// operators' samples do not have, views read and written where they lie, the
// same bits for any number of threads.

#include "backend/cpu_check.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "graph/grad.h"
#include "ops/gradops.h"
#include "ops/nn/attention.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "test.h"

#include <string.h>

// ---- shapes --------------------------------------------------------------

static const cpu_case shapes[] = {
    {&tt_op_add, "", {"a:3 b:4 c:5 d:6", "c:5 d:1"}, .kernel = "cpu.add"},
    {&tt_op_add, "", {"a:3 b:4 c:5 d:6", "b:4 c:1 d:6"}, .kernel = "cpu.add"},
    {&tt_op_add,
     "",
     {"a:3 b:4 c:5 d:6", "a:3 b:1 c:5 d:1"},
     .kernel = "cpu.add"},
    {&tt_op_mul,
     "",
     {"a:3 b:4 c:5 d:6", "a:3 b:1 c:5 d:1"},
     .kernel = "cpu.mul"},
    {&tt_op_mul, "", {"a:3 b:4 c:5", "a:3 b:1 c:1"}, .kernel = "cpu.mul"},
    {&tt_op_mul, "", {"a:3 b:1 c:5", ""}, .kernel = "cpu.mul"},
    {&tt_op_broadcast, "", {"b:4 c:1 d:6", "a:3 b:4 c:5 d:6"}},
    {&tt_op_broadcast, "", {"b:4 c:1 d:1 e:7", "a:3 b:4 c:5 d:6 e:7"}},
    {&tt_op_sum_to, "", {"a:3 b:4 c:5 d:6", "b:4 c:1 d:6"}, .twice = true},
    {&tt_op_sum_to, "", {"a:3 b:4 c:5 d:6", "c:5 d:1"}, .twice = true},
    {&tt_op_sum_to, "", {"a:300 b:70", "b:70"}, .twice = true},
    {&tt_op_sum_to, "", {"a:30000", ""}, .twice = true},
    {&tt_op_reduce, "op=sum dims=0,2,4", {"a:3 b:4 c:5 d:6 e:7"}},
    {&tt_op_reduce, "op=mean dims=1,3", {"a:3 b:40 c:5 d:60"}},
    {&tt_op_reduce, "op=max dims=0,3 keep=true", {"a:3 b:4 c:5 d:6"}},
    {&tt_op_reduce, "op=mean dims=2,3", {"a:8 b:64 c:7 d:7"}},
    {&tt_op_transpose, "perm=0,2,1,3", {"a:3 b:40 c:5 d:16"}},
    {&tt_op_transpose, "perm=5,4,3,2,1,0", {"a:2 b:3 c:2 d:3 e:2 f:5"}},
    {&tt_op_transpose, "perm=1,0", {"a:70 b:45"}},
    {&tt_op_slice, "dim=1 start=3 size=9", {"a:5 b:20 c:7"}},
    {&tt_op_slice_grad, "dim=1 start=3", {"a:5 b:9 c:7", "a:5 b:20 c:7"}},
    {&tt_op_concat, "dim=1", {"a:5 b:9 c:7", "a:5 b:2 c:7", "a:5 b:1 c:7"}},
    {&tt_op_stripe, "dim=1 part=1 parts=3", {"a:5 b:20 c:7"}},
    {&tt_op_weave, "dim=1", {"a:5 b:4 c:7", "a:5 b:4 c:7", "a:5 b:3 c:7"}},
    {&tt_op_split, "factor=b", {"a:5 b:3.c:7 d:4"}},
    {&tt_op_join, "factor=n dim=1 pos=0", {"a:5 c:7 d:4", "a:5 c:7 d:4"}},
    {&tt_op_bias_grad, "", {"a:5 b:300 c:70"}, .twice = true},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

TEST(cpu_copies_and_sums_equal_ref)
{
    for (int i = 0; i < N_SHAPES; i++) {
        cpu_case c = shapes[i];
        c.dtype = TT_F32;
        cpu_check(&c, 1e-5);
        c.dtype = TT_BF16;
        c.kernel = NULL;
        cpu_check(&c, 1.0 / 100);
    }
}

// ---- threads -------------------------------------------------------------

static const double *few_ids(int i, int64_t n)
{
    static double ids[4096];
    for (int64_t e = 0; i == 0 && e < n && e < 4096; e++)
        ids[e] = (double)(e * e % 31);
    return i == 0 ? ids : NULL;
}

static const double *few_labels(int i, int64_t n)
{
    return i == 1 ? few_ids(0, n) : NULL;
}

static const cpu_case large[] = {
    {&tt_op_layer_norm, "", {"r:300 e:200", "e:200", "e:200"}},
    {&tt_op_layer_norm_grad_w,
     "",
     {"r:999 e:70", "r:999 e:70", "r:999", "r:999"}},
    {&tt_op_rms_norm_grad_w, "", {"r:999 e:70", "r:999 e:70", "r:999"}},
    {&tt_op_bias_grad, "", {"r:999 e:70"}},
    {&tt_op_sum_to, "", {"r:99999", ""}},
    {&tt_op_reduce, "op=mean dims=0,2", {"a:40 b:30 c:50"}},
    {&tt_op_sum_squares, "", {"a:99999", "b:77"}},
    {&tt_op_mse, "", {"a:70 b:999", "a:70 b:999"}},
    {&tt_op_attention,
     "causal=true",
     {"b:2 s:90 h:4 d:24", "b:2 s:90 kv:2 d:24", "b:2 s:90 kv:2 d:24"}},
    {&tt_op_attention_grad,
     "causal=true",
     {"b:2 s:90 h:4 d:24", "b:2 s:90 kv:2 d:24", "b:2 s:90 kv:2 d:24",
      "b:2 s:90 h:4 d:24", "b:2 h:4 s:90", "b:2 s:90 h:4 d:24"}},
    {&tt_op_embedding_grad,
     "",
     {"b:40 s:50", "b:40 s:50 e:70", "v:31 e:70"},
     .i32_in = 1,
     .input = few_ids},
    {&tt_op_cross_entropy,
     "smoothing=0.1",
     {"r:700 v:61", "r:700"},
     .i32_in = 2,
     .input = few_labels},
    {&tt_op_position_embedding_grad, "", {"b:40 s:50 e:70", "p:60 e:70"}},
    {&tt_op_lstm_grad_w,
     "",
     {"s:9 b:40 g:4.h:40", "s:9 b:40 h:40", "b:40 h:40", "g:4.h:40 f:40"}},
};
enum { N_LARGE = sizeof(large) / sizeof(large[0]) };

TEST(cpu_sums_do_not_depend_on_the_threads)
{
    for (int i = 0; i < N_LARGE; i++) {
        cpu_case c = large[i];
        c.dtype = TT_F32;
        cpu_check(&c, 2e-5);
        cpu_check_threads(&c);
    }
}

TEST(cpu_refuses_ids_and_labels_out_of_range)
{
    static const char *const messages[] = {"test: id 30 is not in 0..6",
                                           "test: label 30 is not in 0..6"};
    tt_backend *backend;
    const tt_backend_options options = {.n_threads = 1};
    CHECK_OK(tt_backend_open(tt_backend_find("cpu"), &options, &backend));
    for (int i = 0; i < 2; i++) {
        static const int32_t ids[] = {0, 30, 3};
        static const float numbers[21];
        float out[3][32];
        int32_t scratch[64];
        const bool is_loss = i == 1;
        const cpu_case c = {
            .op = is_loss ? &tt_op_cross_entropy : &tt_op_embedding,
            .params = "",
            .in = {is_loss ? "r:3 v:7" : "r:3", is_loss ? "r:3" : "v:7 e:3"},
            .dtype = TT_F32,
            .i32_in = is_loss ? 2 : 1};
        tt_operand in[2] = {0}, y[3] = {0};
        for (int k = 0; k < 2; k++) {
            tt_shape shape;
            CHECK_OK(tt_shape_parse(c.in[k], &shape));
            in[k].dtype = (c.i32_in >> k & 1) != 0 ? TT_I32 : TT_F32;
            tt_local_whole(&shape, &in[k].local);
            tt_operand_set_dense(&in[k]);
        }
        for (int k = 0; k < (is_loss ? 3 : 1); k++) {
            tt_shape shape;
            cpu_shape_of(&c, k, &shape);
            y[k].dtype = TT_F32;
            tt_local_whole(&shape, &y[k].local);
            tt_operand_set_dense(&y[k]);
        }
        static const struct {
            double smoothing;
            int64_t ignore;
        } params = {0, -100};
        tt_site site = {c.op, &params, "test", 2, is_loss ? 3 : 1, in, y};
        tt_choice choice;
        CHECK_OK(backend->target.choose(&backend->target, &site, &choice));
        const tt_args args = {.in = is_loss
                                        ? (const void *const[]){numbers, ids}
                                        : (const void *const[]){ids, numbers},
                              .out = (void *const[]){out[0], out[1], out[2]},
                              .scratch = scratch};
        CHECK(choice.scratch_bytes <= (int64_t)sizeof(scratch));
        CHECK(tt_kernel_run(choice.kernel, &args) == TT_ERR_ARG);
        CHECK_MSG(strcmp(tt_error_message(), messages[i]) == 0, "%s",
                  tt_error_message());
        backend->target.release(&backend->target, choice.kernel);
    }
    tt_backend_close(backend);
}

// ---- views ---------------------------------------------------------------

enum { COUNT = 2 * 9 * 3 * 4 * 6 }; // elements of the packed projection

// A packed projection, split, turned, attended; the gradient is packed again.
static void build_packed(tt_builder *b, tt_val *x, tt_val *dx, tt_val *o)
{
    tt_val qkv[TT_MAX_OUT];
    *x = tt_input(b, "x", b->dtype, "b:2 s:9 qkv:3.h:4.d:6");
    const tt_val seed = tt_input(b, "seed", b->dtype, "b:2 s:9 h:4 d:6");
    tt_split_factor(b, tt_reshape(b, *x, (int64_t[]){1, 1, 1, 1, 1}, 5), "qkv",
                    qkv);
    qkv[0] = tt_callf(b, &tt_op_rotary, &qkv[0], 1, "theta=100");
    qkv[1] = tt_callf(b, &tt_op_rotary, &qkv[1], 1, "theta=100");
    const tt_attention_params p = {.causal = true};
    *o = tt_attention(b, qkv, &p, NULL);
    CHECK_OK(tt_grad_values(b, &(tt_grad_of){o, &seed, 1}, x, 1, dx));
    tt_output(b, "o", *o);
    tt_output(b, "dx", *dx);
}

static void write_random(tt_exec *exec, const tt_graph *g, const char *name)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].name == NULL || strcmp(g->value[v].name, name) != 0)
            continue;
        const tt_type *type = &g->value[v].type;
        const uint64_t key = tt_rng_key(3, name, 0);
        float data[COUNT];
        for (int64_t i = 0; i < tt_shape_count(&type->shape); i++)
            tt_dtype_store(type->dtype, data, i,
                           2 * tt_rng_uniform(key, (uint64_t)i) - 1);
        CHECK_OK(tt_exec_write(exec, (tt_val){v}, data));
    }
}

// Runs it; counts the steps that only move elements.
static int run_packed(const char *name, tt_dtype dtype, double *o_out,
                      double *dx_out)
{
    const tt_backend_options options = {.n_threads = 2};
    const tt_lower_options lower = {.n_micro = 1};
    const tt_exec_options exec_options = {0};
    tt_builder b;
    tt_graph *g;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
    tt_val x, dx, o;
    float raw[COUNT];
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = dtype;
    build_packed(&b, &x, &dx, &o);
    CHECK_OK(tt_builder_take(&b, &g));
    CHECK_OK(tt_backend_open(tt_backend_find(name), &options, &backend));
    CHECK_OK(tt_plan_lower(g, &backend->target, &lower, &plan));
    CHECK_OK(tt_exec_create(plan, backend, &exec_options, &exec));
    write_random(exec, g, "x");
    write_random(exec, g, "seed");
    CHECK_OK(tt_exec_run(exec, NULL, NULL));
    CHECK_OK(tt_exec_read(exec, o, raw));
    for (int i = 0; i < COUNT / 3; i++)
        o_out[i] = tt_dtype_load(dtype, raw, i);
    CHECK_OK(tt_exec_read(exec, dx, raw));
    for (int i = 0; i < COUNT; i++)
        dx_out[i] = tt_dtype_load(dtype, raw, i);
    int n_moves = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tt_op_def *op = plan->step[s].op;
        n_moves += op == &tt_op_reorder || op == &tt_op_split ||
                   op == &tt_op_join || op == &tt_op_reshape;
    }
    tt_exec_destroy(exec);
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    tt_graph_destroy(g);
    tt_builder_fini(&b);
    return n_moves;
}

TEST(cpu_reads_and_writes_parts_of_a_projection_in_place)
{
    static double o[COUNT / 3], dx[COUNT], o_ref[COUNT / 3], dx_ref[COUNT];
    static const tt_dtype dtypes[] = {TT_F32, TT_BF16};
    for (int k = 0; k < 2; k++) {
        const double tolerance = k == 0 ? 1e-5 : 1.0 / 32;
        CHECK(run_packed("cpu", dtypes[k], o, dx) == 0);
        (void)run_packed("ref", dtypes[k], o_ref, dx_ref);
        for (int i = 0; i < COUNT / 3; i++)
            CHECK_CLOSE(o[i], o_ref[i], tolerance);
        for (int i = 0; i < COUNT; i++)
            CHECK_CLOSE(dx[i], dx_ref[i], tolerance);
    }
}
