// precision=fp8: products of linear layers in 8 bits train as those of bf16 do; units
// follow the peaks of the last steps.

#include "base/alloc.h"
#include "jobs.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

static made start(const char *precision, const char *accumulate)
{
    const char *const more[] = {"model.width=32", "model.heads=2",
                                "device=ref",     precision,
                                accumulate,       "batch=8",
                                "seq=16",         "optim.lr=0.001",
                                "optim.clip=1",   NULL};
    return start_job(family_named("gpt"), more, true);
}

static int64_t count_nodes(const made *m, const tt_op_def *op)
{
    int64_t n = 0;
    for (int32_t i = 0; i < m->job->graph->n_nodes; i++)
        n += m->job->graph->node[i].op == op;
    return n;
}

static void read_floats(const made *m, const char *name, float *out, int64_t n)
{
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, name);
    CHECK(t != NULL && t->count == n && t->role == TT_TENSOR_OPTIM);
    CHECK_OK(tt_tensor_read(m->job->exec, t, out));
}

// Every batch is the same one, so that there is something to learn.
static tt_status feed_same(void *user, const tt_job *job, int64_t micro,
                           void *x, void *y)
{
    tt_job same = *job;
    same.step = 0;
    return tt_job_feed_random(user, &same, micro, x, y);
}

// The same samples, however many micro-batches they are in.
static tt_status feed_indices(void *user, const tt_job *job, int64_t micro,
                              void *x, void *y)
{
    const int64_t n = job->io.batch * job->io.seq;
    (void)user;
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)x)[i] = (int32_t)((micro * n + i) * 7919 % 37);
        ((int32_t *)y)[i] = (int32_t)((micro * n + i) * 104729 % 37);
    }
    return TT_OK;
}

static double train(made *m, int steps)
{
    tt_step_result r = {0};
    for (int i = 0; i < steps; i++) {
        CHECK_OK(tt_job_step(m->job, feed_same, NULL, &r));
        CHECK(!r.skipped && isfinite(r.loss) && isfinite(r.norm));
    }
    return r.loss;
}

TEST(fp8_trains_as_bf16_does)
{
    made low = start("precision=bf16", "accumulate=2");
    made tiny = start("precision=fp8", "accumulate=2");
    const double first = train(&low, 1);
    CHECK(fabs(train(&tiny, 1) - first) < 0.005 * first);
    const double a = train(&low, 24), b = train(&tiny, 24);
    CHECK_MSG(a < 0.95 * first && fabs(a - b) < 0.005 * a, "%g, %g, %g", first,
              a, b);
    close_job(&low);
    close_job(&tiny);
}

TEST(fp8_takes_the_products_of_linear_layers)
{
    made low = start("precision=bf16", "accumulate=1");
    made tiny = start("precision=fp8", "accumulate=1");
    const int64_t layers = count_nodes(&tiny, &tt_op_attention);
    // Four layers' products forward, backward, and of gradients; the logits stay.
    CHECK(layers > 0);
    CHECK(count_nodes(&tiny, &tt_op_matmul_fp8) == 12 * layers);
    CHECK(count_nodes(&tiny, &tt_op_fp8_pack) == 12 * layers);
    CHECK(count_nodes(&low, &tt_op_matmul) -
              count_nodes(&tiny, &tt_op_matmul) ==
          8 * layers);
    CHECK(count_nodes(&tiny, &tt_op_matmul) == 2);
    CHECK(count_nodes(&tiny, &tt_op_matmul_grad_w) == 1);
    close_job(&low);
    close_job(&tiny);
}

static bool is_power_of_two(double x)
{
    int exponent = 0;
    return x > 0 && frexp(x, &exponent) == 0.5;
}

// The peaks of micro-batches together are those of the batch at once.
TEST(fp8_units_come_from_the_peaks_of_all_micro_batches)
{
    enum { STEPS = 16, APART = 4 };
    made one = start("precision=fp8", "accumulate=1");
    made four = start("precision=fp8", "accumulate=4");
    const int64_t n = count_nodes(&one, &tt_op_fp8_pack);
    float *units = tt_alloc(4 * APART * n), *history = tt_alloc(4 * STEPS * n);
    float *other = tt_alloc(4 * STEPS * n);
    CHECK(units != NULL && history != NULL && other != NULL);
    read_floats(&one, "fp8.units", units, APART * n);
    for (int64_t i = 0; i < APART * n; i++)
        CHECK(units[i] == 0x1p-6f);
    tt_step_result r;
    CHECK_OK(tt_job_step(one.job, feed_indices, NULL, &r));
    CHECK_OK(tt_job_step(four.job, feed_indices, NULL, &r));
    read_floats(&one, "fp8.units", units, APART * n);
    read_floats(&one, "fp8.history", history, STEPS * n);
    read_floats(&four, "fp8.history", other, STEPS * n);
    for (int64_t i = 0; i < n; i++) {
        const float unit = units[APART * i];
        CHECK(history[i] > 0 && is_power_of_two((double)unit));
        CHECK(unit >= history[i] && unit < 2 * history[i]);
        CHECK(units[APART * i + 1] == 0x1p-6f);
        CHECK(history[n + i] == 0);
        CHECK(other[i] == history[i]);
    }
    step_job(&one);
    read_floats(&one, "fp8.history", other, STEPS * n);
    for (int64_t i = 0; i < n; i++)
        CHECK(other[n + i] == history[i] && other[i] > 0);
    tt_free(units);
    tt_free(history);
    tt_free(other);
    close_job(&one);
    close_job(&four);
}

TEST(fp8_units_stay_when_a_step_is_skipped)
{
    made m = start("precision=fp8", "accumulate=1");
    const double loss = step_job(&m).loss;
    const states before = read_states(&m);
    m.job->limit = loss / 2;
    CHECK(step_job(&m).skipped);
    CHECK(same_states(before, read_states(&m)));
    close_job(&m);
}

TEST(fp8_says_what_it_cannot_do)
{
    check_refused((const char *const[]){"model=gpt", "model.layers=1",
                                        "precision=fp8", "device=ref",
                                        "exact=true", NULL},
                  "exact cannot have");
    check_refused((const char *const[]){"model=gpt", "model.layers=1",
                                        "model.width=24", "model.heads=3",
                                        "precision=fp8", "device=ref", NULL},
                  "multiples of 16");
}
