// pick - what pick.cu and dgc.cu share: the search for the largest entries of a vector.

#ifndef TT_BACKEND_CUDA_DEV_CODEC_PICK_CUH
#define TT_BACKEND_CUDA_DEV_CODEC_PICK_CUH

#include "backend/cuda/dev/codec/packet.cuh"
#include "backend/cuda/dev/codec/scan.cuh"

enum { PICK_BINS = 2048 };

// At the beginning of the scratch memory. Zeros, but for k, left and least, before the
// search begins.
struct pick_state {
    double squares; // of all entries
    int64_t k;      // at most so many are picked
    int64_t left;   // of the entries that match the prefix, so many are picked
    uint64_t total; // entries above the cut (high half) and as large (low half)
    int64_t used;   // bytes of the body
    unsigned long long found; // entries of at least `least`
    uint32_t least, tau;      // bits of a size
    uint32_t prefix,
        mask;         // bits of the k-th size that are known; where they are
    uint32_t is_done; // no more than k are found: all of them are picked
    uint32_t is_bad;  // an entry is not finite
    uint32_t sum;     // of the packet's check
    unsigned long long bin[PICK_BINS];
};
static_assert(sizeof(pick_state) <= TT_CUDA_PICK_HEAD, "fits");

struct pick_room {
    pick_state *state;
    uint64_t *count, *scan; // of each tile; to scan them
    double *squares;        // of each piece
};

static inline pick_room pick_room_of(void *scratch, int64_t n)
{
    const int64_t tiles = n / TT_CUDA_TILE + 1;
    uint64_t *count = (uint64_t *)((char *)scratch + TT_CUDA_PICK_HEAD);
    uint64_t *scan = count + tiles;
    return {(pick_state *)scratch, count, scan,
            (double *)(scan + scan_room(tiles))};
}

// Where entries come from: x, or x + residual, which then goes to `left`.
struct pick_source {
    const float *x, *residual;
    float *left;
};

__device__ static inline float pick_take(const pick_source &e, int64_t i)
{
    float x = e.x[i];
    if (e.residual != NULL) {
        x = __fadd_rn(x, e.residual[i]);
        e.left[i] = x;
    }
    return x;
}

// Once somebody has read all entries, they lie in `left`.
static inline void pick_taken(pick_source *e)
{
    e->x = e->residual != NULL ? e->left : e->x;
    e->residual = NULL;
}

// How entries are sent, and what is left of them.
struct pick_job {
    tt_cuda_packet packet;
    pick_source e;
    float *left;   // NULL: nobody wants it
    float *masked; // 0 where an entry is picked; NULL: nothing
    bool is_all;   // k is the number of all entries
    bool is_threshold, has_values;
    uint8_t *out;
};

// Queues: the sum of squares to state->squares; all of the search, and the packet.
const char *tt_cuda_pick_squares(tt_cuda *c, pick_source *e, int64_t n,
                                 const pick_room *room);
const char *tt_cuda_pick_write(tt_cuda *c, pick_job *job,
                               const pick_room *room);

#endif
