// meet - ranks of one host that were started as separate processes find their shared
// memory.
//
// Rank 0 listens on an abstract socket, whose name is made of the launcher's variables
// and lies in no file system. The others tell it who they are and get the memory as a
// descriptor. Nothing is left when the last rank ends, however it ends.

#ifndef TT_COMM_TRANSPORT_MEET_H
#define TT_COMM_TRANSPORT_MEET_H

#include "comm/transport/shm.h"
#include "comm/world.h"

typedef struct tt_meet_options {
    tt_env_fn *get; // MASTER_PORT and TORCHELASTIC_* or TUTTI_JOB name the job
    int32_t rank, size;
    int64_t rank_bytes; // of shared memory, the same on every rank
    double deadline;    // seconds until all are there
} tt_meet_options;

tt_status tt_meet(const tt_meet_options *options, tt_shm_world **world_out);

#endif
