// rank_threads - ranks as threads of this process, over the rings of shared memory.

#ifndef TT_CHECK_RANK_THREADS_H
#define TT_CHECK_RANK_THREADS_H

#include "backend/backend.h"
#include "comm/comm.h"

enum { TT_RANK_THREADS_MOST = 9 };

// What one rank does; a failure's message is kept.
typedef tt_status tt_rank_threads_fn(tt_comm *comm, void *user);

// Runs `fn` as every one of `n` ranks, each with `rank_bytes` of memory that the
// others can read. Returns the first rank's failure that was not about a peer.
tt_status tt_rank_threads_run(int32_t n, int64_t rank_bytes,
                              tt_rank_threads_fn *fn, void *user);
// The backend that ranks work on: one that is asked for by name (or NULL), if its
// memory is not the host's; else the reference.
const tt_backend_def *tt_rank_threads_device(const char *name);
// Whether each of so many ranks has a device of its own, with links to the others.
bool tt_rank_threads_have_devices(const tt_backend_def *device, int32_t n);

#endif
