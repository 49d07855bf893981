// dynamic_check - what settings of workers and servers mean, and which have no meaning. Files of
// job/ only.

#ifndef TT_JOB_DYNAMIC_DYNAMIC_CHECK_H
#define TT_JOB_DYNAMIC_DYNAMIC_CHECK_H

#include "job/job.h"
#include "policy/server.h"

static inline const tt_ps_params *tt__server_params(const tt_job *job)
{
    return (const tt_ps_params *)(const void *)job->exchange.policy_params;
}

// Ranks that only keep weights: of a server that workers push to.
int32_t tt__dynamic_servers(const tt_job *job);

// In configure: how many workers there are; later, what has no meaning.
tt_status tt__dynamic_count(tt_job *job);
tt_status tt__dynamic_check(tt_job *job);
// In start: job->room, if the job's executor will be its worker's too (wall_memory.c).
tt_status tt__wall_job_room(tt_job *job);

// What the optimiser is built with. Asynchrony acts like a momentum of 1 - 1 / workers
// (Mitliagkas 2016), which staleness=momentum takes off, below 0 if need be.
double tt__dynamic_momentum(const tt_job *job);

#endif
