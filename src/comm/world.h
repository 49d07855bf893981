// world - which launcher started this process, as which of how many ranks, read from
// the environment. Opens nothing.
//
//   precedence        TUTTI_RANK, TUTTI_WORLD_SIZE (set by hand) > RANK, WORLD_SIZE
//                     (torchrun) > OMPI_* > PMI_* > SLURM_* > one process
//
// Two that disagree are an error. Slurm's variables count only inside a step, and not
// when the step is another launcher's daemon.

#ifndef TT_COMM_WORLD_H
#define TT_COMM_WORLD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_world {
    const char
        *launcher;   // "none", "torchrun", "mpirun", "mpiexec", "srun", "tutti"
    const char *why; // "OMPI_COMM_WORLD_RANK is set"
    int32_t rank, size;
    int32_t local_rank, local_size; // on this host; size 0: not known
    bool has_mpi;                   // the launcher starts MPI programs
} tt_world;

// `get` reads the environment: nobody below the command line does.
typedef const char *tt_env_fn(const char *name);
tt_status tt_world_find(tt_env_fn *get, tt_world *world_out);

#endif
