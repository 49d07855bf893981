// mpi - ranks that an MPI launcher started, over the library it belongs to.

#ifndef TT_COMM_TRANSPORT_MPI_H
#define TT_COMM_TRANSPORT_MPI_H

#include "base/str.h"
#include "comm/comm.h"
#include "comm/world.h"

// Which library the launcher speaks for: "openmpi", "mpich"; NULL: no MPI launcher.
const char *tt_mpi_flavour(tt_env_fn *get);

// The path of libtutti-mpi-FLAVOUR.so in the first of `folders` (with ':' between)
// that has it.
tt_status tt_mpi_find(const char *folders, const char *flavour,
                      tt_str *path_out);

// Loads it and joins MPI's world, once per process. A wait fails when a peer it waits
// for has given no sign of life for `deadline` seconds, or when all ranks wait and
// nothing has moved for about twice that. The transport has a thread of its own that
// answers for this rank while it computes.
tt_status tt_mpi_open(const char *folders, const char *flavour, double deadline,
                      tt_comm **comm_out);

// Of an open one: "Open MPI 4.1.4"; the host of every rank, counted in their order.
const char *tt_mpi_about(const tt_comm *comm);
bool tt_mpi_has_lost_first(const tt_comm *comm); // rank 0 gives no sign of life
const int32_t *tt_mpi_hosts(const tt_comm *comm, int32_t *n_hosts_out);

#endif
