// job_landing - see the header. An agreement with a delay is two segments of the plan
// (pass/replicas_aside.c): agree.i sends, land.i uses what came. Who runs land.i, and when:
//
//   step        1 2 3   4   5   6 ...
//   part 0          a   .   l            a: agree.0   .: messages travel   l: land.0
//
//   usually     when replicas get the average, `delay` steps later
//   earlier     before anybody looks at the model, and before ranks meet: what they tell
//               each other would wait behind these messages anyway
//
// Steps read and write what is the replicas' own, land.i the model and what the outer
// optimiser keeps. So it does not matter for any bit when it runs. Nothing is under way
// where states are read or saved, so a checkpoint knows nothing of it.
//
// All ranks take these decisions from the step and from settings, so they land the same
// agreements in the same order. What codes were made for is the step that sent them.

#include "job/replicas/job_landing.h"

tt_status tt__job_landing_start(tt_job *job)
{
    tt_job_replicas *r = &job->replicas;
    r->sent = tt_arena_alloc(job->arena, (job->plan->n_segments + 1) *
                                             (int64_t)sizeof *r->sent);
    return r->sent != NULL ? TT_OK : TT_ERR_NOMEM;
}

static int32_t find(const tt_job *job, int number)
{
    for (int32_t s = 0; s < job->plan->n_segments; s++)
        if (job->plan->segment[s].phase == TT_LAND &&
            job->plan->segment[s].stage == number)
            return s;
    return -1;
}

void tt__job_landing_begun(tt_job *job, int number)
{
    const int32_t s = find(job, number);
    if (s >= 0)
        job->replicas.sent[s] = job->step;
}

static tt_status set_step(tt_job *job, double step)
{
    return tt_is(tt_graph_find(job->graph, "step"))
               ? tt_exec_set_scalar(job->exec, "step", step)
               : TT_OK;
}

static tt_status land(tt_job *job, int32_t s)
{
    const double sent = (double)job->replicas.sent[s];
    job->replicas.sent[s] = 0;
    TT_TRY(set_step(job, sent));
    TT_TRY(tt_exec_run_aside(job->exec, TT_LAND, job->plan->segment[s].stage));
    return set_step(job, (double)job->step);
}

tt_status tt__job_land_one(tt_job *job, int number)
{
    const int32_t s = find(job, number);
    return s >= 0 && job->replicas.sent[s] > 0 ? land(job, s) : TT_OK;
}

// The one that was sent first, before agreement `number`; -1: there is none.
static int32_t oldest(const tt_job *job, int number)
{
    const int64_t *sent = job->replicas.sent;
    int32_t first = -1;
    for (int32_t s = 0; s < job->plan->n_segments; s++)
        if (sent[s] > 0 && job->plan->segment[s].stage < number &&
            (first < 0 || sent[s] < sent[first]))
            first = s;
    return first;
}

tt_status tt__job_land_before(tt_job *job, int number)
{
    int32_t s;
    if (job->replicas.sent == NULL)
        return TT_OK;
    while ((s = oldest(job, number)) >= 0)
        TT_TRY(land(job, s));
    return TT_OK;
}

tt_status tt_job_land(tt_job *job)
{
    return tt__job_land_before(job, INT32_MAX);
}
