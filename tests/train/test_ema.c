// Averages follow their weights.

#include "base/alloc.h"
#include "jobs.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static float *read_named(const made *m, const char *name, const char *end,
                         int64_t *n_out)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", name, end);
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, whole);
    CHECK_MSG(t != NULL, "no %s", whole);
    float *data = tt_alloc(t->bytes);
    CHECK_OK(tt_tensor_read(m->job->exec, t, data));
    *n_out = t->count;
    return data;
}

static void follows(const char *const *more)
{
    static const char name[] = "layer1.0.conv1.weight";
    made m = start_job(family_named("resnet"), more, false);
    int64_t n = 0;
    float *average = read_named(&m, name, ".ema", &n);
    float *w = read_named(&m, name, "", &n);
    CHECK(memcmp(w, average, sizeof *w * (size_t)n) == 0);
    for (int step = 0; step < 3; step++) {
        step_job(&m);
        float *w1 = read_named(&m, name, "", &n);
        float *average1 = read_named(&m, name, ".ema", &n);
        double moved = 0;
        for (int64_t i = 0; i < n; i++) {
            const double want = (double)average[i] +
                                0.25 * ((double)w1[i] - (double)average[i]);
            CHECK_CLOSE(average1[i], want, 1e-6);
            moved += fabs((double)(w1[i] - w[i]));
        }
        CHECK(moved > 0);
        tt_free(w);
        tt_free(average);
        w = w1;
        average = average1;
    }
    tt_free(w);
    tt_free(average);
    close_job(&m);
}

TEST(ema_follows_its_weight)
{
    follows((const char *const[]){"train.ema=0.75", NULL});
    follows((const char *const[]){"train.ema=0.75", "precision=bf16", NULL});
    follows((const char *const[]){"train.ema=0.75", "device=ref", NULL});
}

// The weights themselves do not feel it.
TEST(ema_changes_no_weight)
{
    made a = start_job(family_named("gpt"), (const char *const[]){NULL}, false);
    made b = start_job(family_named("gpt"),
                       (const char *const[]){"train.ema=0.9", NULL}, false);
    for (int i = 0; i < 2; i++)
        CHECK(step_job(&a).loss == step_job(&b).loss);
    int64_t n = 0;
    float *x = read_named(&a, "transformer.wte", ".weight", &n);
    float *y = read_named(&b, "transformer.wte", ".weight", &n);
    CHECK(memcmp(x, y, sizeof *x * (size_t)n) == 0);
    CHECK(b.job->plan->bytes_by_use[TT_USE_OPTIM] >
          a.job->plan->bytes_by_use[TT_USE_OPTIM]);
    tt_free(x);
    tt_free(y);
    close_job(&a);
    close_job(&b);
}
