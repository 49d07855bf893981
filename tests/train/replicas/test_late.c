// Averages that replicas get some steps later (exchange.delay): what they have then is what
// they went to by themselves and what was averaged, by the weights that alpha says; without a
// delay it is averaging; what cannot be is refused.

#include "base/alloc.h"
#include "plan/flights.h"
#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AVERAGE FOUR, "exchange.policy=average"

// The first weight of all replicas; *n_out numbers in each.
static double *read_weight(const made *m, int64_t *n_out)
{
    for (int64_t i = 0; i < m->job->tensors.n; i++) {
        const tt_tensor *t = &m->job->tensors.v[i];
        if (strstr(t->name, "attn.c_attn.weight.replica") == NULL)
            continue;
        double *x = tt_alloc(8 * t->count);
        CHECK(x != NULL && t->dtype == TT_F64);
        CHECK_OK(tt_exec_read(m->job->exec, t->val, x));
        *n_out = t->count / 4;
        return x;
    }
    CHECK(false);
    return NULL;
}

static double *after(const char *const *settings, int steps, int64_t *n_out)
{
    made m = start_job(family_named("gpt"), settings, false);
    for (int i = 0; i < steps; i++)
        (void)step_job(&m);
    double *x = read_weight(&m, n_out);
    close_job(&m);
    return x;
}

TEST(a_late_average_is_mixed_with_the_steps_since)
{
    static const char *const late[] = {AVERAGE, "exchange.every=3",
                                       "exchange.delay=2",
                                       "exchange.alpha=0.25", NULL};
    static const char *const alone[] = {AVERAGE, "exchange.every=0", NULL};
    int64_t n = 0;
    double *before = after(late, 4, &n), *same = after(alone, 4, &n);
    double *then = after(alone, 3, &n), *now = after(alone, 5, &n);
    double *is = after(late, 5, &n), worst = 0, moved = 0;
    for (int64_t i = 0; i < 4 * n; i++) {
        double mean = 0;
        for (int r = 0; r < 4; r++)
            mean += then[r * n + i % n] / 4;
        worst = fmax(worst, fabs(before[i] - same[i]));
        worst = fmax(worst, fabs(is[i] - (0.75 * now[i] + 0.25 * mean)));
        moved = fmax(moved, fabs(is[i] - now[i]));
    }
    CHECK_MSG(worst < 1e-12 && moved > 1e-6, "off by %g, moved by %g", worst,
              moved);
    tt_free(before);
    tt_free(same);
    tt_free(then);
    tt_free(now);
    tt_free(is);
}

// Codes that lose nothing, parts that are all the weights, an outer optimiser that does nothing.
TEST(late_averages_are_what_they_degenerate_to)
{
    static const char *const late[] = {AVERAGE, "exchange.every=3",
                                       "exchange.delay=1", "exchange.alpha=0.5",
                                       NULL};
    static const char *const coded[] = {AVERAGE,
                                        "exchange.every=3",
                                        "exchange.delay=1",
                                        "exchange.alpha=0.5",
                                        "exchange.codec=topk",
                                        "exchange.codec.ratio=1",
                                        NULL};
    static const char *const outer[] = {AVERAGE,
                                        "exchange.every=3",
                                        "exchange.delay=1",
                                        "exchange.alpha=0.5",
                                        "exchange.optim=nesterov",
                                        "exchange.optim_momentum=0",
                                        NULL};
    static const char *const at_once[] = {AVERAGE,
                                          "exchange.every=3",
                                          "exchange.parts=1",
                                          "exchange.alpha=1",
                                          "exchange.delay=0",
                                          NULL};
    static const char *const plain[] = {AVERAGE, "exchange.every=3", NULL};
    check_same(coded, late, ".replica", 8);
    check_same(outer, late, ".replica", 8);
    check_same(at_once, plain, ".replica", 8);
}

TEST_SLOW(late_averages_with_codes_are_carried_by_any_ranks, 60)
{
    static const char *const setting[] = {AVERAGE,
                                          "exchange.every=4",
                                          "exchange.parts=2",
                                          "exchange.delay=1",
                                          "exchange.alpha=0.5",
                                          "exchange.optim=nesterov",
                                          "exchange.codec=onebit",
                                          NULL};
    check_ranks("mlp", setting, (const int32_t[]){2, 4, 0}, 8);
}

// Kernels of the steps between write elsewhere.
static int check_apart(const tt_plan *plan, const tt_flight *flight)
{
    if (tt__segment_of(plan, flight->begin)->phase != TT_AGREE ||
        tt__segment_of(plan, flight->end)->phase != TT_LAND)
        return 0;
    for (int32_t i = 0; i < flight->n; i++) {
        const tt_step *step = &plan->step[plan->member[flight->first + i]];
        const tt_buffer *in = &plan->buffer[step->in[0].buffer];
        const tt_buffer *out = &plan->buffer[step->out[0].buffer];
        CHECK_MSG(in->first == 0 && in->last >= flight->end - 1,
                  "%s sends what is its own from step %d to %d", step->name,
                  in->first, in->last);
        CHECK(out->first == 0 && out->last >= flight->end);
    }
    return flight->n;
}

TEST(what_travels_while_steps_run_shares_its_memory_with_nothing)
{
    static const char *const codec[] = {"none", "randomk", "int8"};
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++) {
        char name[64];
        snprintf(name, sizeof name, "exchange.codec=%s", codec[i]);
        const char *const more[] = {"exchange.policy=average",
                                    "exchange.every=3",
                                    "exchange.delay=1",
                                    "batch=8",
                                    "mesh.data=4",
                                    name,
                                    NULL};
        made m = make_job(family_named("gpt"), more);
        CHECK_OK(tt_job_plan(m.job));
        const tt_plan *plan = m.job->plan;
        int n = 0;
        for (int32_t f = 0; f < plan->n_flights; f++)
            n += check_apart(plan, &plan->flight[f]);
        CHECK_MSG(n > 20, "only %d collectives with %s", n, name);
        CHECK_OK(tt_plan_verify(plan));
        close_job(&m);
    }
}

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9"

TEST(delays_that_cannot_be_are_refused)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, AVERAGE, "exchange.every=4", "exchange.delay=4"},
         "exchange.delay=3 would do"},
        {{GPT, AVERAGE, "exchange.every=4", "exchange.delay=1",
          "exchange.adaptive=true"},
         "exchange.delay with exchange.adaptive"},
        {{GPT, AVERAGE, "exchange.every=4", "exchange.delay=1",
          "exchange.dense=2"},
         "exchange.delay with exchange.dense"},
        {{GPT, AVERAGE, "exchange.every=0", "exchange.delay=1"},
         "exchange.delay with exchange.every=0"},
        {{GPT, AVERAGE, "exchange.every=4", "exchange.alpha=0"},
         "exchange.alpha=0.5 would do"},
        {{GPT, AVERAGE, "exchange.every=64", "exchange.parts=40",
          "exchange.delay=1"},
         "exchange.parts=32 would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
