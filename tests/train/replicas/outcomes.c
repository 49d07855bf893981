// outcomes - see the header.

#include "train/replicas/outcomes.h"

#include "base/alloc.h"
#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"

#include <math.h>
#include <string.h>

void with_policy(const tt_policy_def *policy, const char *sample,
                 const char *const *more, tt_arena *arena,
                 const char *all[SETTINGS])
{
    int n = 0;
    char *text = tt_arena_strdup(arena, sample), *rest = NULL;
    all[n++] = tt_arena_printf(arena, "exchange.policy=%s", policy->name);
    for (char *p = strtok_r(text, " ", &rest); p != NULL;
         p = strtok_r(NULL, " ", &rest))
        all[n++] = tt_arena_printf(arena, "exchange.%s", p);
    for (; *more != NULL; more++)
        all[n++] = *more;
    CHECK(n < SETTINGS);
    all[n] = NULL;
}

int each_policy(policy_wanted_fn *is_wanted, policy_fn *check)
{
    int n = 0, tried = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    tt_arena *arena = tt_arena_create();
    for (int i = 0; i < n; i++)
        for (const char *const *s = all[i]->samples;
             is_wanted(all[i]) && *s != NULL; s++, tried++)
            check(all[i], *s, arena);
    tt_arena_destroy(arena);
    return tried;
}

void check_ranks(const char *name, const char *const *more,
                 const int32_t *ranks, int64_t steps)
{
    const family *f = family_named(name);
    crew_run *one = crew_train(f, more, 1, steps);
    for (; *ranks > 0; ranks++) {
        const char *worst = "";
        crew_run *run = crew_train(f, more, *ranks, steps);
        const double rel = crew_difference(run, one, &worst);
        CHECK_MSG(rel < 1e-9, "%s %s %s on %d ranks: %s differs by %g", name,
                  more[0], more[1], *ranks, worst, rel);
        CHECK_MSG(fabs(run->loss - one->loss) < 1e-9 * one->loss,
                  "%s on %d ranks: loss %.17g, alone %.17g", more[0], *ranks,
                  run->loss, one->loss);
        crew_free(run);
    }
    crew_free(one);
}

typedef struct outcome {
    tt_arena *arena;
    tt_tensors all; // names and sizes
    double *data[CREW_TENSORS];
} outcome;

// The states of a job after some steps on random data.
static outcome outcome_of(const char *const *more, int steps)
{
    made m = start_job(family_named("gpt"), more, false);
    outcome o = {.arena = m.arena, .all = m.job->tensors};
    m.job->wants_model = true;
    for (int i = 0; i < steps; i++)
        (void)step_job(&m);
    for (int64_t i = 0; i < o.all.n; i++) {
        o.data[i] = tt_alloc(8 * o.all.v[i].count + 8);
        CHECK(o.data[i] != NULL && o.all.v[i].dtype == TT_F64);
        CHECK_OK(tt_exec_read(m.job->exec, o.all.v[i].val, o.data[i]));
    }
    o.all.v =
        tt_arena_copy(m.arena, o.all.v, o.all.n * (int64_t)sizeof *o.all.v);
    for (int64_t i = 0; i < o.all.n; i++)
        ((tt_tensor *)o.all.v)[i].name =
            tt_arena_strdup(m.arena, o.all.v[i].name);
    m.arena = tt_arena_create(); // the names stay
    close_job(&m);
    return o;
}

static void outcome_fini(outcome *o)
{
    for (int64_t i = 0; i < o->all.n; i++)
        tt_free(o->data[i]);
    tt_arena_destroy(o->arena);
}

// The largest difference of tensors that both have in one size, with a suffix in their names.
static double difference(const outcome *a, const outcome *b, const char *suffix,
                         int *n_out)
{
    double worst = 0;
    *n_out = 0;
    for (int64_t i = 0; i < a->all.n; i++)
        for (int64_t k = 0; k < b->all.n; k++) {
            const tt_tensor *t = &a->all.v[i];
            if (strcmp(t->name, b->all.v[k].name) != 0 ||
                t->count != b->all.v[k].count ||
                strstr(t->name, suffix) == NULL)
                continue;
            ++*n_out;
            for (int64_t e = 0; e < t->count; e++)
                worst = fmax(worst, fabs(a->data[i][e] - b->data[k][e]));
        }
    return worst;
}

void check_same(const char *const *a, const char *const *b, const char *suffix,
                int steps)
{
    int n = 0;
    outcome x = outcome_of(a, steps), y = outcome_of(b, steps);
    const double off = difference(&x, &y, suffix, &n);
    CHECK_MSG(n > 0 && off < 1e-9, "%s %s %s %s: %d tensors, off by %g",
              a[5] != NULL ? a[5] : "", a[6] != NULL ? a[6] : "",
              a[6] != NULL && a[7] != NULL ? a[7] : "", suffix, n, off);
    outcome_fini(&x);
    outcome_fini(&y);
}
