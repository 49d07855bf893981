// exact - what `exact: true` asks of a job. A micro-batch is cut into blocks, as many
// whatever the number of ranks is; the graph is partitioned for as many ranks, and each
// rank does the work of several (pass/blocks.c). Files of this folder only.

#ifndef TT_JOB_EXACT_H
#define TT_JOB_EXACT_H

#include "job/job.h"
#include "pass/chain.h"
#include "pass/partition/partition.h"

// The blocks of a micro-batch along the axis of replicas; 1: the job is not exact, or
// it cannot be cut.
int64_t tt__exact_blocks(const tt_job *job, int64_t micro);

// Refuses what cannot be exact.
tt_status tt__exact_check(const tt_job *job);

// Partitioning for blocks instead of ranks, and giving the blocks to the ranks.
tt_status tt__exact_partition(const tt_job *job, int64_t blocks,
                              tt_partition_params *params);
void tt__exact_fold(const tt_job *job, int64_t blocks, int64_t micro,
                    tt_chain *chain);

#endif
