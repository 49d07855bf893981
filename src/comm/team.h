// team - makes this process a rank of the world that a launcher started: opens the
// transport that its ranks share.
//
//   mpirun, mpiexec, srun   MPI, from a plug-in
//   torchrun, by hand       shared memory, when all ranks are on this host
//
// Ranks that `tutti -n` forks need none of this: they inherit their world.

#ifndef TT_COMM_TEAM_H
#define TT_COMM_TEAM_H

#include "comm/comm.h"
#include "comm/world.h"

typedef struct tt_team_options {
    tt_env_fn *get;        // the environment
    const char *transport; // "auto" or NULL, "mpi", "shm"
    const char *plugins; // folders in which plug-ins may lie, with ':' between
    double deadline;     // seconds without a sign of life; 0: 30
    int64_t rank_bytes;  // of shared memory per rank, where there is some
} tt_team_options;

typedef struct tt_team {
    tt_comm *comm;
    const int32_t *host; // of every rank, counted in the order of ranks
    int32_t n_hosts;
    const char *transport; // "mpi", "shm"
    const char *why;       // "Open MPI 4.1.4", "all ranks are on one host"
} tt_team;

// All ranks of the world together; starts a thread, so fork before.
tt_status tt_team_join(const tt_world *world, const tt_team_options *options,
                       tt_team **team_out);

// Whether rank 0, which speaks for all, is gone: then rank 1 speaks.
bool tt_team_has_lost_first(const tt_team *team);

// The end. After a failure the others are not waited for: this process must then
// exit with a status that is not 0, and the launcher ends the rest.
void tt_team_leave(tt_team *team, tt_status status); // NULL is fine

#endif
