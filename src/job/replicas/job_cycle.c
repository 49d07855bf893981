// job_cycle - see the header. Policies say of each step which agreements are due; what they
// say is tried, from a step on at which all have begun, for cycles of any length.

#include "job/replicas/job_cycle.h"

#include "job/replicas/job_groups.h"

enum { BEGUN = 1 << 20, LONGEST = 4096 };

// Whether an agreement is due after a step, with those of groups numbered after the others.
static bool is_due(const tt__job_groups *groups, int32_t number, int64_t step)
{
    for (int k = 0; k < groups->n_levels; k++) {
        const tt_replicas_level *l = &groups->level[k];
        const int n = tt_policy_variants(l->policy, l->params, groups->n[k]);
        if (number < n)
            return l->policy->is_due(l->params, groups->n[k], step, number);
        number -= n;
    }
    return false;
}

static int32_t count(const tt__job_groups *groups)
{
    int32_t n = 0;
    for (int k = 0; k < groups->n_levels; k++)
        n += tt_policy_variants(groups->level[k].policy,
                                groups->level[k].params, groups->n[k]);
    return n;
}

// The first step from there on after which something is due; or LONGEST steps later.
static int64_t first_due(const tt__job_groups *groups, int32_t n)
{
    for (int64_t step = BEGUN; step < BEGUN + LONGEST; step++)
        for (int32_t v = 0; v < n; v++)
            if (is_due(groups, v, step))
                return step;
    return BEGUN + LONGEST;
}

// From a step on after which something is due, so that most lengths fail at once.
static bool repeats(const tt__job_groups *groups, int32_t n, int64_t first,
                    int64_t steps)
{
    for (int64_t i = first; i < first + LONGEST; i++)
        for (int32_t v = 0; v < n; v++)
            if (is_due(groups, v, i) != is_due(groups, v, i + steps))
                return false;
    return true;
}

int64_t tt__job_cycle(const tt_job *job)
{
    tt__job_groups groups;
    if (job->replicas.n == 0)
        return 1;
    tt__job_groups_of(job, &groups);
    const int32_t n = count(&groups);
    const int64_t first = first_due(&groups, n);
    for (int64_t steps = 1; steps < LONGEST; steps++)
        if (repeats(&groups, n, first, steps))
            return steps;
    return LONGEST;
}

int64_t tt__job_cycle_runs(const tt_job *job, int64_t steps, int32_t number)
{
    tt__job_groups groups;
    int64_t runs = 0;
    tt__job_groups_of(job, &groups);
    for (int64_t i = 0; i < steps; i++)
        runs += is_due(&groups, number, BEGUN + i);
    return runs;
}
