// The guard: a step with a loss or gradient that is not finite, or a loss above
// the limit, changes no state at all; any other step has the same bits as without.

#include "jobs.h"
#include "test.h"

static const char *const plain[] = {NULL};
static const char *const rich[] = {"train.ema=0.9", "accumulate=2", "batch=4",
                                   "optim.clip=0", NULL};

static tt_status feed_nan(void *user, const tt_job *job, int64_t micro, void *x,
                          void *y)
{
    CHECK_OK(tt_job_feed_random(user, job, micro, x, y));
    const tt_type *type =
        &job->graph->value[tt_graph_find(job->graph, "x").id].type;
    if (micro == 0)
        tt_dtype_store(type->dtype, x, 1, (double)NAN);
    return TT_OK;
}

static void survives_nan(const char *name, const char *const *more)
{
    made m = start_job(family_named(name), more, true);
    tt_step_result r = step_job(&m);
    CHECK(!r.skipped && isfinite(r.loss) && r.norm > 0);
    const states before = read_states(&m);
    CHECK_OK(tt_job_step(m.job, feed_nan, NULL, &r));
    CHECK(r.skipped);
    CHECK(!isfinite(r.loss) || !isfinite(r.norm));
    CHECK_MSG(same_states(before, read_states(&m)), "%s: a NaN got in", name);
    CHECK(m.job->step == 2);
    r = step_job(&m);
    CHECK(!r.skipped && isfinite(r.loss));
    close_job(&m);
}

TEST(guard_keeps_nan_out)
{
    survives_nan("mlp", plain);
    survives_nan("mlp", rich);
    survives_nan("resnet", plain);
    survives_nan("resnet", rich);
    survives_nan("vgg", (const char *const[]){"precision=bf16", NULL});
    survives_nan("vit", (const char *const[]){"device=ref", NULL});
    survives_nan("resnet", (const char *const[]){"optim=lamb", NULL});
}

TEST(guard_skips_a_loss_above_the_limit)
{
    for (const family *f = families; f->name != NULL; f++) {
        made m = start_job(f, plain, true);
        const double loss = step_job(&m).loss;
        const states before = read_states(&m);
        m.job->limit = loss / 2;
        tt_step_result r = step_job(&m);
        CHECK(r.skipped && isfinite(r.loss) && r.loss > m.job->limit);
        CHECK(same_states(before, read_states(&m)));
        m.job->limit = loss * 2;
        CHECK(!step_job(&m).skipped);
        close_job(&m);
    }
}

TEST(guard_changes_no_bit_of_other_steps)
{
    for (const family *f = families; f->name != NULL; f++) {
        made a = start_job(f, rich, false), b = start_job(f, rich, true);
        for (int i = 0; i < 3; i++) {
            const tt_step_result r = step_job(&a), s = step_job(&b);
            CHECK(r.loss == s.loss && r.norm == 0 && s.norm > 0);
        }
        CHECK_MSG(same_states(read_states(&a), read_states(&b)), "%s", f->name);
        close_job(&a);
        close_job(&b);
    }
}

TEST(rate_of_a_step_is_the_callers)
{
    made m = start_job(family_named("mlp"), plain, false);
    CHECK(m.job->lr == m.job->optim_params.lr);
    step_job(&m);
    const tt_tensor *w = tt_tensors_find(&m.job->tensors, "layers.0.bias");
    float before[33], after[33];
    CHECK(w->bytes == sizeof before);
    CHECK_OK(tt_tensor_read(m.job->exec, w, before));
    m.job->lr = 0;
    step_job(&m);
    CHECK_OK(tt_tensor_read(m.job->exec, w, after));
    for (int i = 0; i < 33; i++)
        CHECK(before[i] == after[i]);
    close_job(&m);
}
