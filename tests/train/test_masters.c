// optim.master=false: weights in bf16 alone, rounded at random, learn as those with
// masters do; the same numbers are drawn every time and on every rank.

#include "base/alloc.h"
#include "jobs.h"
#include "test.h"

#include <stdio.h>

static made start(const char *const *more)
{
    const char *all[16] = {"device=ref", "precision=bf16", "optim=adamw"};
    int n = 3;
    for (; *more != NULL; more++)
        all[n++] = *more;
    return start_job(family_named("gpt"), all, true);
}

static const char *const without[] = {"optim.master=false", NULL};
static const char *const with[] = {NULL};

static const tt_tensor *find(const made *m, const char *name)
{
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, name);
    CHECK_MSG(t != NULL, "%s", name);
    return t;
}

static const char matrix[] = "transformer.h.0.mlp.c_fc.weight";
static const char vector[] = "transformer.h.0.mlp.c_fc.bias";

TEST(weights_without_masters_lie_in_bf16_alone)
{
    made a = start(with), b = start(without);
    CHECK(find(&a, matrix)->dtype == TT_F32 && tt_is(find(&a, matrix)->work));
    CHECK(find(&b, matrix)->dtype == TT_BF16 && !tt_is(find(&b, matrix)->work));
    CHECK(find(&b, vector)->dtype == TT_F32);
    char state[96];
    snprintf(state, sizeof state, "%s.exp_avg_sq", matrix);
    CHECK(find(&b, state)->dtype == TT_F32);
    CHECK(b.job->plan->persistent_bytes < a.job->plan->persistent_bytes);
    close_job(&a);
    close_job(&b);
}

// A rate far below what bf16 can tell from a weight: to the nearest, nothing would
// ever change.
TEST(small_updates_are_not_lost)
{
    static const char *const slow[] = {"optim.master=false", "optim.lr=1e-6",
                                       "optim.weight_decay=0", NULL};
    static const char *const slow_with[] = {"optim.lr=1e-6",
                                            "optim.weight_decay=0", NULL};
    made a = start(slow_with), b = start(slow);
    const tt_tensor *wide = find(&a, matrix), *low = find(&b, matrix);
    const int64_t n = wide->count;
    float *x = tt_alloc(4 * n), *before = tt_alloc(4 * n);
    uint16_t *y = tt_alloc(2 * n), *first = tt_alloc(2 * n);
    CHECK(x != NULL && before != NULL && y != NULL && first != NULL);
    CHECK_OK(tt_tensor_read(a.job->exec, wide, before));
    CHECK_OK(tt_tensor_read(b.job->exec, low, first));
    for (int s = 0; s < 8; s++) {
        step_job(&a);
        step_job(&b);
    }
    CHECK_OK(tt_tensor_read(a.job->exec, wide, x));
    CHECK_OK(tt_tensor_read(b.job->exec, low, y));
    double right = 0, got = 0, changed = 0, both = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)(x[i] - before[i]);
        const double e =
            tt_dtype_load(TT_BF16, y, i) - tt_dtype_load(TT_BF16, first, i);
        changed += e != 0;
        right += d * d;
        got += e * e;
        both += d * e;
    }
    // Few change, by much more than they should, and on average as they should.
    CHECK_MSG(changed > 0 && changed < 0.5 * (double)n && got > right,
              "%g of %lld", changed, (long long)n);
    CHECK_MSG(both > 0.4 * right && both < 1.8 * right, "%g, not %g", both,
              right);
    tt_free(x);
    tt_free(before);
    tt_free(y);
    tt_free(first);
    close_job(&a);
    close_job(&b);
}

TEST(random_rounding_draws_the_same_numbers_every_time)
{
    static const char *const other[] = {"optim.master=false", "seed=1", NULL};
    made a = start(without), b = start(other);
    for (int s = 0; s < 3; s++)
        CHECK(step_job(&a).loss == step_job(&b).loss);
    CHECK(same_states(read_states(&a), read_states(&b)));
    const states before = read_states(&a);
    a.job->limit = 0;
    CHECK(step_job(&a).skipped);
    CHECK(same_states(before, read_states(&a)));
    close_job(&a);
    close_job(&b);
}

TEST(masters_can_be_left_out_where_weights_are_bf16)
{
    check_refused(
        (const char *const[]){"model=mlp", "optim.master=false", NULL},
        "precision=bf16 would do");
    check_refused((const char *const[]){"model=mlp", "device=ref",
                                        "precision=bf16", "optim=sgd",
                                        "optim.master=false", NULL},
                  "adamw and adam");
}
