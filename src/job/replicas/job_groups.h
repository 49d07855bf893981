// job_groups - replicas in groups: who agrees with whom at which level, and on which ranks.
//
//   exchange.replicas=8 exchange.group=4
//
//              group 0      group 1
//   8 ranks    0 1 2 3      4 5 6 7
//   4 ranks    01 23        45 67
//   2 ranks    0123         4567
//   1 rank     0123 4567
//
// Without groups there is one level. With exchange.policy=allreduce inside a group there
// is one, too: a group has one set of weights, its members divide the samples.

#ifndef TT_JOB_REPLICAS_JOB_GROUPS_H
#define TT_JOB_REPLICAS_JOB_GROUPS_H

#include "job/job.h"
#include "pass/blocks.h"
#include "pass/replicas.h"

// The job's replicas, once exchange.replicas is known.
typedef struct tt__job_groups {
    tt_replicas_level level[TT_REPLICAS_LEVELS]; // from the lowest on
    int64_t n[TT_REPLICAS_LEVELS];               // that agree at each
    int n_levels;
    int64_t replicas; // with weights of their own
    int64_t share;    // members of a group that divide its samples; 1: none do
    // Ranks along data and along the axis of a group.
    int64_t data_ranks, group_ranks;
} tt__job_groups;

void tt__job_groups_of(const tt_job *job, tt__job_groups *groups_out);

// Refuses groups that have no meaning, or that the ranks cannot carry.
tt_status tt__job_groups_check(const tt_job *job);

// Ranks or blocks along the axis of a group.
int64_t tt__job_groups_size(const tt_job *job, const tt__job_groups *groups);

// The mesh as if each replica were a rank, and how ranks carry it; false: one replica is
// on each rank.
tt_status tt__job_groups_mesh(const tt_job *job, const tt__job_groups *groups,
                              const char **mesh_out);
bool tt__job_groups_fold(const tt_job *job, const tt__job_groups *groups,
                         tt_blocks_params *fold_out);

#endif
