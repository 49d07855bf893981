// Convolution, pooling, batch norm and LSTM by hand: laws compare an operator with
// itself, so conventions and costs are stated here.

#include "interp/interp.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

// One operator on one rank, with its inputs.
typedef struct bench {
    tt_builder b;
    tt_interp *it;
    int n_in;
    tt_val in[8], out[TT_MAX_OUT];
    const double *data[8];
} bench;

static void start(bench *k)
{
    *k = (bench){0};
    CHECK_OK(tt_builder_init(&k->b, &tt_grad_ops_default));
    k->b.origin = "test";
}

static void input(bench *k, const char *shape, const double *data)
{
    const char name[2] = {(char)('a' + k->n_in), '\0'};
    k->in[k->n_in] = TT_NONE;
    if (data != NULL)
        k->in[k->n_in] = tt_input(&k->b, name, TT_F64, shape);
    k->data[k->n_in++] = data;
    CHECK_OK(k->b.status);
}

static void run(bench *k, const tt_op_def *op, const char *params)
{
    const tt_val first = tt_callf(&k->b, op, k->in, k->n_in, "%s", params);
    tt_outputs_of(&k->b, first, k->out);
    CHECK_OK(k->b.status);
    CHECK_OK(tt_interp_create(k->b.graph, &k->it));
    for (int i = 0; i < k->n_in; i++)
        if (k->data[i] != NULL)
            tt_interp_write(k->it, k->in[i], k->data[i]);
    CHECK_OK(tt_interp_run(k->it));
}

static double at(bench *k, int out, int64_t i)
{
    const tt_dtype dtype = tt_type_of(&k->b, k->out[out])->dtype;
    return tt_dtype_load(dtype, tt_interp_data(k->it, 0, k->out[out]), i);
}

static void finish(bench *k)
{
    tt_interp_destroy(k->it);
    tt_builder_fini(&k->b);
}

TEST(convolution_does_not_flip_its_kernel)
{
    const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const double w[] = {1, 2, 3, 4}, bias[] = {0.5};
    const double want[] = {37.5, 47.5, 67.5, 77.5};
    bench k;
    start(&k);
    input(&k, "n:1 c:1 h:3 w:3", x);
    input(&k, "o:1 c:1 kh:2 kw:2", w);
    input(&k, "o:1", bias);
    run(&k, &tt_op_conv, "");
    for (int i = 0; i < 4; i++)
        CHECK(at(&k, 0, i) == want[i]);
    const tt_shape *y = &tt_type_of(&k.b, k.out[0])->shape;
    CHECK(strcmp(y->factor[1].name, "c") == 0);
    CHECK(strcmp(y->factor[3].name, "w") == 0);
    finish(&k);
}

TEST(groups_see_their_own_channels_only)
{
    const double x[] = {1, 2, 10, 20}; // two channels
    const double w[] = {1, 3, 5, 7};   // four filters, two per group
    const double want[] = {1, 2, 3, 6, 50, 100, 70, 140};
    bench k;
    start(&k);
    input(&k, "n:1 c:2 w:2", x);
    input(&k, "o:4 c:1 k:1", w);
    run(&k, &tt_op_conv, "groups=2");
    for (int i = 0; i < 8; i++)
        CHECK(at(&k, 0, i) == want[i]);
    finish(&k);
}

TEST(max_pool_says_where_and_the_first_of_equals_wins)
{
    const double x[] = {1, 3, 3, 0, 2, 3, -5, -4, -6};
    const double want[] = {3, 3, 2, 3}, where[] = {1, 0, 1, 1};
    bench k;
    start(&k);
    input(&k, "n:1 c:1 h:3 w:3", x);
    run(&k, &tt_op_max_pool, "kernel=2 stride=1");
    for (int i = 0; i < 4; i++)
        CHECK(at(&k, 0, i) == want[i] && at(&k, 1, i) == where[i]);
    finish(&k);
}

TEST(max_pool_ignores_padding_and_passes_nan_on)
{
    const double x[] = {-3, -2, -1, (double)NAN};
    bench k;
    start(&k);
    input(&k, "n:1 c:1 w:4", x);
    run(&k, &tt_op_max_pool, "kernel=3 stride=2 pad=1");
    CHECK(at(&k, 0, 0) == -2);
    CHECK(at(&k, 1, 0) == 2);
    CHECK(isnan(at(&k, 0, 1)));
    finish(&k);
}

static double first_mean(const char *params)
{
    const double x[] = {2, 4, 6, 8};
    bench k;
    start(&k);
    input(&k, "n:1 c:1 w:4", x);
    run(&k, &tt_op_avg_pool, params);
    const double mean = at(&k, 0, 0);
    finish(&k);
    return mean;
}

TEST(average_with_and_without_padding)
{
    CHECK(first_mean("kernel=3 stride=2 pad=1") == 2);
    CHECK(first_mean("kernel=3 stride=2 pad=1 count_pad=false") == 3);
    CHECK(first_mean("kernel=4") == 5);
}

TEST(adaptive_windows_overlap_as_those_of_pytorch)
{
    const double x[] = {1, 2, 4, 8, 16};
    bench k;
    start(&k);
    input(&k, "n:1 c:1 w:5", x);
    run(&k, &tt_op_adaptive_avg_pool, "out=3"); // [0,2) [1,4) [3,5)
    CHECK_CLOSE(at(&k, 0, 0), 1.5, 1e-15);
    CHECK_CLOSE(at(&k, 0, 1), 14.0 / 3, 1e-15);
    CHECK_CLOSE(at(&k, 0, 2), 12, 1e-15);
    finish(&k);
}

static void start_norm(bench *k)
{
    static const double x[] = {1, 2, 3, 4}, gamma[] = {2}, beta[] = {0.5};
    static const double mean[] = {0.5}, var[] = {2};
    start(k);
    input(k, "n:4 c:1", x);
    input(k, "c:1", gamma);
    input(k, "c:1", beta);
    input(k, "c:1", mean);
    input(k, "c:1", var);
}

TEST(running_variance_is_unbiased)
{
    bench k;
    start_norm(&k);
    run(&k, &tt_op_batch_norm, "eps=0");
    CHECK_CLOSE(at(&k, 0, 0), 0.5 - 2 * 1.5 / sqrt(1.25), 1e-14);
    CHECK_CLOSE(at(&k, 1, 0), 2.5, 1e-15);
    CHECK_CLOSE(at(&k, 2, 0), 1 / sqrt(1.25), 1e-15);
    CHECK_CLOSE(at(&k, 3, 0), 0.9 * 0.5 + 0.1 * 2.5, 1e-15);
    CHECK_CLOSE(at(&k, 4, 0), 0.9 * 2 + 0.1 * 5.0 / 3, 1e-15);
    finish(&k);
}

TEST(groups_of_samples_have_their_own_statistics)
{
    bench k;
    start_norm(&k);
    run(&k, &tt_op_batch_norm, "eps=0 group=2 momentum=1 activation=relu");
    const double want[] = {0, 2.5, 0, 2.5};
    for (int i = 0; i < 4; i++)
        CHECK_CLOSE(at(&k, 0, i), want[i], 1e-14);
    CHECK_CLOSE(at(&k, 1, 0), 1.5, 1e-15);
    CHECK_CLOSE(at(&k, 1, 1), 3.5, 1e-15);
    CHECK_CLOSE(at(&k, 3, 0), 2.5, 1e-15);
    CHECK_CLOSE(at(&k, 4, 0), 0.5, 1e-15);
    finish(&k);
}

TEST(frozen_norm_uses_running_statistics)
{
    bench k;
    start_norm(&k);
    run(&k, &tt_op_batch_norm, "eps=0.25 training=false");
    CHECK_CLOSE(at(&k, 0, 0), 0.5 + 2 * 0.5 / 1.5, 1e-15);
    CHECK(!tt_is(k.out[1]));
    finish(&k);
}

TEST(lstm_gates_are_input_forget_cell_output)
{
    const double atanh_half = 0.54930614433405484;
    const double open = 40, shut = -40;
    // Step 0 takes the new value only; step 1 keeps what it has, but shows none.
    const double xg[] = {open, shut, atanh_half, open, shut, open, 1, shut};
    const double w[] = {0, 0, 0, 0}, h0[] = {0}, c0[] = {3};
    bench k;
    start(&k);
    input(&k, "s:2 b:1 g:4.h:1", xg);
    input(&k, "g:4.h:1 k:1", w);
    input(&k, "", NULL);
    input(&k, "b:1 h:1", h0);
    input(&k, "b:1 h:1", c0);
    run(&k, &tt_op_lstm, "");
    CHECK_CLOSE(at(&k, 0, 0), tanh(0.5), 1e-14);
    CHECK_CLOSE(at(&k, 1, 0), 0.5, 1e-14);
    CHECK_CLOSE(at(&k, 1, 1), 0.5, 1e-14);
    CHECK_CLOSE(at(&k, 0, 1), 0, 1e-14);
    finish(&k);
}

// ---- types ----

static void check_wide(const tt_op_def *op, const char *params,
                       const char *const *in, int n, const char *want)
{
    bench k;
    start(&k);
    for (int i = 0; i < n; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        const bool is_wide = in[i][0] == '+';
        k.in[i] = tt_input(&k.b, name, is_wide ? TT_F32 : TT_BF16,
                           in[i] + (is_wide ? 1 : 0));
    }
    tt_outputs_of(&k.b, tt_callf(&k.b, op, k.in, n, "%s", params), k.out);
    CHECK_OK(k.b.status);
    for (int i = 0; want[i] != '\0'; i++)
        CHECK_MSG(tt_type_of(&k.b, k.out[i])->dtype ==
                      (want[i] == '+' ? TT_F32 : TT_BF16),
                  "output %d of %s", i, op->name);
    CHECK(!tt_is(k.out[strlen(want)]));
    tt_builder_fini(&k.b);
}

// Beside bf16, statistics and gradients of weights are f32.
TEST(sums_are_wider_than_activations)
{
    const char *const mm[] = {"m:9 k:5", "m:9 n:4", "k:5 n:4"};
    check_wide(&tt_op_matmul_grad_w, "", mm, 3, "+");
    check_wide(&tt_op_bias_grad, "", mm, 1, "+");
    const char *const product[] = {"m:9 k:5", "k:5 n:4", "+n:4"};
    check_wide(&tt_op_matmul, "activation=silu", product, 3, "..");
    const char *const image[] = {"n:2 c:3 w:8", "n:2 c:5 w:8", "o:5 c:3 k:3"};
    check_wide(&tt_op_conv_grad_w, "pad=1", image, 3, "+");
    check_wide(&tt_op_conv_grad_b, "", image, 1, "+");
    const char *const dx[] = {"n:2 c:5 w:8", "o:5 c:3 k:3", "n:2 c:3 w:8"};
    check_wide(&tt_op_conv_grad_x, "pad=1", dx, 3, ".");
    const char *const norm[] = {"n:2 c:3 w:8", "+c:3", "c:3", "+c:3", "+c:3"};
    check_wide(&tt_op_batch_norm, "", norm, 5, ".++++");
    const char *const back[] = {"n:2 c:3", "n:2 c:3", "+c:3", "+c:3", "+c:3"};
    check_wide(&tt_op_batch_norm_grad, "", back, 5, ".++");
    const char *const lstm[] = {"s:2 b:3 g:8", "g:8 k:2", "+g:8", "b:3 h:2",
                                "+b:3 h:2"};
    check_wide(&tt_op_lstm, "", lstm, 5, ".+.");
}

// ---- costs ----

static tt_cost cost_of(const tt_op_def *op, const char *params,
                       const char *const *in, int n)
{
    bench k;
    tt_type types[8], out[TT_MAX_OUT];
    tt_op_io io;
    tt_cost cost = {0};
    start(&k);
    for (int i = 0; i < n; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        k.in[i] = tt_input(&k.b, name, TT_F32, in[i]);
    }
    tt_outputs_of(&k.b, tt_callf(&k.b, op, k.in, n, "%s", params), k.out);
    CHECK_OK(k.b.status);
    tt_node_io(k.b.graph, &k.b.graph->node[0], types, out, &io);
    op->cost(&io, 1, &cost);
    tt_builder_fini(&k.b);
    return cost;
}

static tt_cost conv_cost(const char *params)
{
    const char *const in[] = {"n:2 c:3 h:8 w:8", "o:4 c:3 kh:3 kw:3"};
    return cost_of(&tt_op_conv, params, in, 2);
}

// Ben-Nun & Hoefler, table 6, by hand.
TEST(work_and_depth_of_convolution_by_algorithm)
{
    tt_cost c = conv_cost("pad=1");
    CHECK(c.work == 2 * 4 * 64 * 3 * 9 && c.depth == 2 + 2 + 2);
    CHECK(c.flops == 2 * c.work);
    CHECK(c.bytes == 4 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64));
    c = conv_cost("pad=1 algorithm=im2col");
    CHECK(c.work == 2 * 4 * 64 * 3 * 9 && c.depth == 6);
    c = conv_cost("pad=1 algorithm=fft");
    CHECK(c.work == 5 * 64 * 6 * (12 + 6 + 8) + 64 * 2 * 3 * 4);
    CHECK(c.depth == 2 * 6 + 2);
    c = conv_cost("pad=1 algorithm=winograd");
    CHECK(c.work == 6 * (9 + 18 + 72 + 24 + 16) + 4 * 3 * 8);
    CHECK(c.depth == 2 * 2 + 4 * 3 + 2);
    c = conv_cost("pad=1 stride=2 algorithm=winograd"); // does not apply
    CHECK(c.work == 2 * 4 * 16 * 3 * 9 && c.depth == 6);
}

TEST(depth_of_convolution_gradients_is_that_of_their_sums)
{
    const char *const x[] = {"n:2 c:5 h:8 w:8", "o:5 c:3 kh:3 kw:3",
                             "n:2 c:3 h:8 w:8"};
    const char *const w[] = {"n:2 c:3 h:8 w:8", "n:2 c:5 h:8 w:8",
                             "o:5 c:3 kh:3 kw:3"};
    CHECK(cost_of(&tt_op_conv_grad_x, "pad=1", x, 3).depth == 3 + 2 + 2);
    CHECK(cost_of(&tt_op_conv_grad_w, "pad=1", w, 3).depth == 7 + 2 + 2);
}

TEST(work_and_depth_of_a_product_with_its_epilogue)
{
    const char *const in[] = {"m:3 k:5", "k:5 n:4", "n:4"};
    tt_cost c = cost_of(&tt_op_matmul, "", in, 2);
    CHECK(c.flops == 120 && c.work == 60 && c.depth == 3);
    c = cost_of(&tt_op_matmul, "activation=relu", in, 3);
    CHECK(c.flops == 120 && c.work == 84 && c.depth == 5);
    CHECK(c.bytes == 4 * (15 + 20 + 4 + 12 + 12));
    const char *const grad[] = {"m:9 k:5", "m:9 n:4", "k:5 n:4"};
    c = cost_of(&tt_op_matmul_grad_w, "", grad, 3);
    CHECK(c.work == 180 && c.depth == 4 && c.bytes == 4 * (45 + 36 + 20));
}
