// job_period - see the header.

#include "job/replicas/job_period.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(tt_period) == TT_PERIOD_NUMBERS * sizeof(double),
               "a period is a row of numbers");

// The sums over all replicas: ranks that work for the same ones have the same, and the
// first of them counts.
static tt_status hear_all(const tt_job *job, const tt_period *mine,
                          tt_period *all, tt_period *sum)
{
    const int64_t n = job->replicas.n;
    const int64_t bytes = n * (int64_t)sizeof *mine;
    if (job->peers.size > 1)
        TT_TRY(tt_peers_collect(&job->peers, "agreement", mine, bytes, all));
    else
        memcpy(all, mine, (size_t)bytes);
    sum->loss = sum->count = 0;
    for (int32_t rank = 0; rank < job->peers.size; rank++)
        for (int64_t i = 0; i < n && tt_job_is_first_of(job, rank); i++) {
            sum->loss += all[rank * n + i].loss;
            sum->count += all[rank * n + i].count;
        }
    return TT_OK;
}

static tt_status follow(const tt_job *job, const tt_replicas_level *level,
                        tt_period *mine, const double *loss,
                        const double *count, bool *is_due_out)
{
    const int64_t n = job->replicas.n;
    const tt_val v = tt_graph_find(job->graph, TT_PERIOD);
    TT_TRY(tt_exec_read(job->exec, v, mine));
    for (int64_t i = 0; i < n; i++)
        if (isfinite(loss[i])) {
            mine[i].loss += loss[i];
            mine[i].count += count[i];
        }
    tt_period now = mine[0];
    *is_due_out = level->policy->is_time(level->params, &now, job->step);
    if (*is_due_out) {
        TT_TRY(hear_all(job, mine, mine + n, &now));
        level->policy->retime(level->params, &now);
        now.last = (double)job->step;
        now.loss = now.count = 0;
        for (int64_t i = 0; i < n; i++)
            mine[i] = now;
    }
    return tt_exec_write(job->exec, v, mine);
}

tt_status tt__job_period_follow(tt_job *job, const tt_replicas_level *level,
                                const double *loss, const double *count,
                                bool *is_due_out)
{
    const int64_t n = job->replicas.n * (job->peers.size + 1);
    tt_period *room = tt_alloc(n * (int64_t)sizeof *room);
    if (room == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for an agreement");
    const tt_status status = follow(job, level, room, loss, count, is_due_out);
    tt_free(room);
    return status;
}
