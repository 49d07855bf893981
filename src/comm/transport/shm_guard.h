// shm_guard - ranks that another launcher started watch each other. The death of one is
// known to all at once; that one no longer runs is known after the deadline.

#ifndef TT_COMM_TRANSPORT_SHM_GUARD_H
#define TT_COMM_TRANSPORT_SHM_GUARD_H

#include "comm/transport/shm.h"

typedef struct tt_shm_guard tt_shm_guard; // a thread of the rank's

tt_status tt_shm_guard_start(tt_shm_world *world, int32_t rank, double deadline,
                             tt_shm_guard **guard_out);
void tt_shm_guard_stop(tt_shm_guard *guard); // NULL is fine

#endif
