// shm_world - what lies in the shared memory, and one rank's view of it. Internal to
// the transport.
//
//   | world | seats, one per rank | rings [from][to] | stages | memory of each rank |
//
//   seat     what others must know of a rank: presence, bell, heartbeat, journal
//   ring     messages of one rank to one other
//   stage    room for collectives whose operands are in ordinary memory
//   memory   the rank's own, given out by tt_comm_alloc; peers read it in place
//
// Fields that different ranks write lie on cache lines of their own (TT__LINE).
// Otherwise a store of one rank would take the line away from another core that only
// reads a neighbouring field (false sharing).

#ifndef TT_COMM_TRANSPORT_SHM_WORLD_H
#define TT_COMM_TRANSPORT_SHM_WORLD_H

#include "comm/coll/coll.h"
#include "comm/transport/shm.h"

#include <stdatomic.h>

enum {
    TT__LINE = 64,
    TT__RING_BYTES = 64 << 10, // a power of two
    TT__RING_UNIT = 8,         // everything in a ring starts at a multiple
    TT__STAGE_BYTES = 4 << 20, // per rank, for collectives of ordinary memory
};

// One direction between two ranks: one writer, one reader. Head and tail count
// bytes since the beginning.
typedef struct tt__ring {
    _Alignas(TT__LINE) atomic_ullong head; // written
    _Alignas(TT__LINE) atomic_ullong tail; // read
    _Alignas(TT__LINE) atomic_ullong done; // messages read in place
    _Alignas(TT__LINE) atomic_ullong step; // of the writer, in collectives
    _Alignas(TT__LINE) char data[TT__RING_BYTES];
} tt__ring;

typedef enum tt__presence {
    TT__ABSENT,
    TT__HERE,
    TT__LEFT,
    TT__FAILED
} tt__presence;

typedef enum tt__shm_loss { // how a rank that failed was lost
    TT__LOST_SOMEHOW,
    TT__LOST_GONE,   // its process has ended
    TT__LOST_SILENT, // it does not run
} tt__shm_loss;

typedef struct tt__seat {
    _Alignas(TT__LINE) atomic_uint bell; // rung when it sleeps and should not
    atomic_uint n_asleep;
    atomic_int presence, loss;
    atomic_int pid; // 0: nobody needs to know
    // What the running collective may touch; NULL: not in shared memory.
    _Alignas(TT__LINE) const char *in;
    char *out;
    _Alignas(TT__LINE) atomic_uint beats; // as long as the process runs
    // Since when it waits and nothing has moved, by the host's clock; 0: it works.
    _Atomic double idle_since;
    char message[512]; // why it failed
    double failed_at;  // tt_clock_seconds
    tt_journal journal;
} tt__seat;

struct tt_shm_world {
    int32_t n_ranks;
    int64_t rank_bytes, total_bytes;
    char *memory;   // rank_bytes per rank, at the same address in every process
    char *stage;    // TT__STAGE_BYTES per rank
    tt__seat *seat; // per rank
    tt__ring *ring; // [from][to]
};

static inline tt__ring *tt__ring_of(const tt_shm_world *w, int32_t from,
                                    int32_t to)
{
    return &w->ring[(int64_t)from * w->n_ranks + to];
}

// Wakes a rank that sleeps. What it sleeps for was stored before, in the one total
// order of such stores and of the sleeper's looks.
void tt__bell_ring(tt__seat *seat);

// Sleeps unless the bell was rung since `seen`.
void tt__bell_wait(tt__seat *seat, unsigned seen, double seconds);

// ---- one rank's end ------------------------------------------------------

typedef struct tt__header {
    int64_t bytes;
    const char *direct; // where the bytes are; NULL: they follow
    int32_t tag, padding;
} tt__header;

typedef struct tt__shm_queue {
    tt_msg *first, *last;
} tt__shm_queue;

typedef struct tt__peer {
    tt__shm_queue out;    // not written yet, or in part
    tt__shm_queue unread; // written as addresses; the receiver reads them
    tt__shm_queue in;     // posted receives
    bool is_started;      // of `out`: the first one's header is written
    bool has_header;      // of `in`: it belongs to the first one
    tt__header header;
    uint64_t n_direct;        // addresses sent
    uint64_t head, tail_seen; // of the ring to it: ours, and its when last read
    uint64_t tail, head_seen; // of the ring from it
    uint64_t steps, awaited;  // in collectives: ours, and its that we wait for
    unsigned beats;           // as they were last seen, and when they changed
    double beat_at;
} tt__peer;

typedef struct tt__shm {
    tt_comm base;
    tt_shm_world *world;
    int64_t used;            // of this rank's shared memory
    const tt_group *meeting; // whose steps are awaited; NULL: nobody's
    _Atomic bool is_woken; // by another thread of this rank: it shall not doze
    const char **from;     // per rank: room for a collective's addresses
    char **to;
    tt__peer peer[];
} tt__shm;

bool tt__shm_owns(const tt__shm *s, const void *data, int64_t bytes);

// Fails when any rank failed, or when this one, which is waited for, left: those
// that leave because of a failure are not its cause.
tt_status tt__shm_check(const tt__shm *s, int32_t rank, bool is_awaited);
// To be asked before looking whether it has done its part: it may do that and leave.
bool tt__shm_has_left(const tt__shm *s, int32_t rank);

bool tt__shm_has_met(const tt__shm *s, const tt_group *group);
bool tt__shm_has_native(const tt_comm *comm, const tt_coll_call *call);
tt_status tt__shm_native(tt_comm *comm, const tt_coll_call *call);

#endif
