// shm - ranks on one machine, over memory that all of them see.
//
// The world is made before the ranks: they inherit it by fork, or share it as threads
// of one process. It has no name in any file system, so nothing is left after a crash.

#ifndef TT_COMM_TRANSPORT_SHM_H
#define TT_COMM_TRANSPORT_SHM_H

#include "comm/comm.h"

typedef struct tt_shm_world tt_shm_world;

// `rank_bytes` of address space per rank for tt_comm_def.alloc; pages that are not
// touched cost nothing.
tt_status tt_shm_world_create(int32_t n_ranks, int64_t rank_bytes,
                              tt_shm_world **world_out);
void tt_shm_world_destroy(tt_shm_world *world); // NULL is fine

// The same in a memory file (memfd) whose descriptor processes hand to each other. It
// must lie at the same address in all of them: one maps it, the others attach to it.
int64_t tt_shm_world_bytes(int32_t n_ranks, int64_t rank_bytes);
tt_status tt_shm_world_map(int fd, void *at, int32_t n_ranks,
                           int64_t rank_bytes, tt_shm_world **world_out);
tt_status tt_shm_world_attach(int fd, void *at, tt_shm_world **world_out);

// This rank's end. Each rank opens its own, once.
tt_status tt_shm_open(tt_shm_world *world, int32_t rank, double deadline,
                      tt_comm **comm_out);

bool tt_shm_world_has_lost(const tt_shm_world *world, int32_t rank);

// Says that a rank ended well, if it has not said so itself; or that it is gone for
// another reason: so that waits for it end. Any process of the world.
void tt_shm_world_leave(tt_shm_world *world, int32_t rank);
void tt_shm_world_fail(tt_shm_world *world, int32_t rank);

#endif
