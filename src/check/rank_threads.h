// rank_threads - ranks as threads of this process, over the shared-memory transport.
//
// The executor, the wire and the transport are the real ones; only the processes are
// threads. So a law can look at all ranks' results directly, and a sanitizer or
// debugger sees them all.

#ifndef TT_CHECK_RANK_THREADS_H
#define TT_CHECK_RANK_THREADS_H

#include "backend/backend.h"
#include "check/law.h"
#include "comm/comm.h"

enum { TT_RANK_THREADS_MOST = 9 };

// What one rank does. The message of a failure is kept.
typedef tt_status tt_rank_threads_fn(tt_comm *comm, void *user);

// Runs `fn` on `n` ranks, each with `rank_bytes` of memory that the others can read.
// Returns the failure of the first rank that did not merely see another one fail.
tt_status tt_rank_threads_run(int32_t n, int64_t rank_bytes,
                              tt_rank_threads_fn *fn, void *user);
// The same, each end wrapped by `wrap` of the def, if it has one.
tt_status tt_rank_threads_run_over(const tt_comm_def *transport, int32_t n,
                                   tt_rank_threads_fn *fn, void *user);
// The checks of all ranks of a launcher (r->comm), added up on each of them.
tt_status tt_rank_threads_add_up(tt_law_report *r);
// The backend for the ranks: the one named (may be NULL), if its memory is not the
// host's; else the reference.
const tt_backend_def *tt_rank_threads_device(const char *name);
// Whether each of `n` ranks has a device of its own, with links to the others.
bool tt_rank_threads_have_devices(const tt_backend_def *device, int32_t n);

#endif
