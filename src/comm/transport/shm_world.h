// shm_world - what lies in the shared memory. Internal to the transport.

#ifndef TT_COMM_TRANSPORT_SHM_WORLD_H
#define TT_COMM_TRANSPORT_SHM_WORLD_H

#include "comm/transport/shm.h"

#include <stdatomic.h>

enum {
    TT__LINE = 64,
    TT__RING_BYTES = 64 << 10, // a power of two
    TT__RING_UNIT = 8,         // everything in a ring starts at a multiple
};

// One direction between two ranks: one writer, one reader. Head and tail count
// bytes since the beginning.
typedef struct tt__ring {
    _Alignas(TT__LINE) atomic_ullong head; // written
    _Alignas(TT__LINE) atomic_ullong tail; // read
    _Alignas(TT__LINE) atomic_ullong done; // messages read in place
    _Alignas(TT__LINE) char data[TT__RING_BYTES];
} tt__ring;

typedef enum tt__presence {
    TT__ABSENT,
    TT__HERE,
    TT__LEFT,
    TT__FAILED
} tt__presence;

typedef struct tt__seat {
    _Alignas(TT__LINE) atomic_uint bell; // rung when something may have changed
    atomic_uint n_asleep;
    atomic_int presence;
    _Alignas(TT__LINE) atomic_uint beats; // as long as the process runs
    char message[512];                    // why it failed
    tt_journal journal;
} tt__seat;

struct tt_shm_world {
    int32_t n_ranks;
    int64_t rank_bytes, total_bytes;
    char *memory;   // rank_bytes per rank, at the same address in every process
    tt__seat *seat; // per rank
    tt__ring *ring; // [from][to]
};

static inline tt__ring *tt__ring_of(const tt_shm_world *w, int32_t from,
                                    int32_t to)
{
    return &w->ring[(int64_t)from * w->n_ranks + to];
}

void tt__bell_ring(tt__seat *seat);
void tt__bell_wait(tt__seat *seat, unsigned seen, double seconds);

#endif
