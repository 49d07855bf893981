// precision=fp16: the factor on the loss changes nothing but the range of gradients,
// shrinks when they do not fit and grows when they do.

#include "base/alloc.h"
#include "jobs.h"
#include "test.h"

#include <string.h>

static double state_of(const made *m, const char *name)
{
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, name);
    float x = -1;
    CHECK(t != NULL && t->bytes == sizeof x && t->role == TT_TENSOR_OPTIM);
    CHECK_OK(tt_tensor_read(m->job->exec, t, &x));
    return (double)x;
}

static made start(const char *name, const char *initial, const char *growth)
{
    const char *const more[] = {"device=ref", "precision=fp16", initial, growth,
                                NULL};
    return start_job(family_named(name), more, false);
}

static states weights_of(const made *m)
{
    states all = {0};
    const tt_tensors *t = &m->job->tensors;
    for (int64_t i = 0; i < t->n; i++)
        all.bytes += t->v[i].bytes;
    all.data = tt_alloc(all.bytes);
    CHECK(all.data != NULL);
    int64_t at = 0;
    for (int64_t i = 0; i < t->n; at += t->v[i++].bytes)
        if (strncmp(t->v[i].name, "loss_scale.", 11) != 0)
            CHECK_OK(tt_tensor_read(m->job->exec, &t->v[i], all.data + at));
    return all;
}

TEST(fp16_computes_what_fp32_computes)
{
    const char *const names[] = {"mlp", "gpt", "vgg"};
    for (int i = 0; i < 3; i++) {
        made a = start_job(family_named(names[i]),
                           (const char *const[]){"device=ref", NULL}, true);
        made b =
            start(names[i], "loss_scale.initial=256", "loss_scale.growth=0");
        for (int s = 0; s < 2; s++) {
            const tt_step_result r = step_job(&a), h = step_job(&b);
            CHECK(!h.skipped && h.loss_scale == 256 && r.loss_scale == 0);
            CHECK_MSG(fabs(r.loss - h.loss) < 2e-3 * r.loss, "%s: %g, %g",
                      names[i], r.loss, h.loss);
            CHECK_MSG(fabs(r.norm - h.norm) < 2e-2 * r.norm, "%s: %g, %g",
                      names[i], r.norm, h.norm);
        }
        close_job(&a);
        close_job(&b);
    }
}

TEST(loss_scale_of_other_size_changes_almost_nothing)
{
    made a = start("gpt", "loss_scale.initial=64", "loss_scale.growth=0");
    made b = start("gpt", "loss_scale.initial=128", "loss_scale.growth=0");
    const tt_step_result r = step_job(&a), s = step_job(&b);
    CHECK(r.loss == s.loss);
    CHECK(fabs(r.norm - s.norm) < 1e-3 * r.norm);
    close_job(&a);
    close_job(&b);
}

TEST(gradients_beyond_fp16_are_skipped_until_they_fit)
{
    made m = start("gpt", "loss_scale.initial=16777216", "loss_scale.growth=2");
    const states before = weights_of(&m);
    double scale = 16777216;
    tt_step_result r = step_job(&m);
    CHECK(r.skipped);
    for (int i = 0; i < 24 && r.skipped; i++) {
        scale /= 2;
        CHECK(isfinite(r.loss) && !isfinite(r.norm));
        CHECK(r.loss_scale == scale);
        CHECK(state_of(&m, "loss_scale.factor") == scale);
        CHECK(state_of(&m, "loss_scale.good") == 0);
        r = step_job(&m);
    }
    CHECK(!r.skipped && r.norm > 0);
    CHECK(r.loss_scale == scale && state_of(&m, "loss_scale.good") == 1);
    CHECK(!same_states(before, weights_of(&m)));
    close_job(&m);
}

TEST(skipped_steps_change_the_factor_alone)
{
    made m = start("gpt", "loss_scale.initial=16777216", "loss_scale.growth=0");
    const states before = weights_of(&m);
    CHECK(step_job(&m).skipped);
    CHECK(same_states(before, weights_of(&m)));
    close_job(&m);
}

TEST(good_steps_double_the_loss_scale)
{
    made m = start("mlp", "loss_scale.initial=4", "loss_scale.growth=3");
    const double want[] = {4, 4, 8, 8, 8, 16};
    for (int i = 0; i < 6; i++) {
        const tt_step_result r = step_job(&m);
        CHECK(!r.skipped && r.loss_scale == want[i]);
        CHECK(state_of(&m, "loss_scale.good") == (i + 1) % 3);
    }
    close_job(&m);
}

static tt_status feed_nan(void *user, const tt_job *job, int64_t micro, void *x,
                          void *y)
{
    CHECK_OK(tt_job_feed_random(user, job, micro, x, y));
    const tt_type *type =
        &job->graph->value[tt_graph_find(job->graph, "x").id].type;
    tt_dtype_store(type->dtype, x, 0, (double)NAN);
    return TT_OK;
}

TEST(losses_that_are_not_finite_leave_the_loss_scale)
{
    made m = start("mlp", "loss_scale.initial=4", "loss_scale.growth=9");
    tt_step_result r = step_job(&m);
    const states before = read_states(&m);
    CHECK_OK(tt_job_step(m.job, feed_nan, NULL, &r));
    CHECK(r.skipped && !isfinite(r.loss) && r.loss_scale == 4);
    CHECK(same_states(before, read_states(&m)));
    close_job(&m);
}

TEST(cpus_without_fp16_say_so)
{
    made m = make_job(family_named("mlp"),
                      (const char *const[]){"precision=fp16", NULL});
    CHECK(m.job->options.precision == TT_PRECISION_FP32);
    CHECK(m.job->note != NULL && strstr(m.job->note, "fp16") != NULL);
    close_job(&m);
}
