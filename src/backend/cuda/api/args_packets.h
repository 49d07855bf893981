// args_packets - arguments of the launchers of codecs that write packets, and the sizes of
// their scratch memory.

#ifndef TT_BACKEND_CUDA_API_ARGS_PACKETS_H
#define TT_BACKEND_CUDA_API_ARGS_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

// A packet (ops/codec/packet.h): what its header says, and the bytes of its body.
typedef struct tt_cuda_packet {
    uint32_t magic, options;
    int64_t n, body, capacity;
    bool
        is_long; // the body has at most so many bytes; how many depends on the numbers
} tt_cuda_packet;

typedef enum tt_cuda_code {
    TT_CUDA_INT8,
    TT_CUDA_ONEBIT,
    TT_CUDA_SIGN,
    TT_CUDA_TWOBIT,
    TT_CUDA_TERNARY,
    TT_CUDA_NATURAL,
} tt_cuda_code;

// Of X_encode: x + residual -> a packet, and what it does not say.
typedef struct tt_cuda_code_args {
    tt_cuda_code code;
    tt_cuda_packet packet;
    int64_t block;
    float threshold;
    const int64_t *seed, *step; // NULL: no random numbers
    uint64_t origin_hash;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    uint8_t *out;
    void *scratch; // 4 bytes
} tt_cuda_code_args;

// Of X_sum.
typedef struct tt_cuda_code_sum_args {
    tt_cuda_code code;
    tt_cuda_packet packet; // each of them
    int64_t block, peers;
    const uint8_t *packets;
    float *y;
    void *scratch; // 4 bytes for each peer
} tt_cuda_code_sum_args;

// Kernels that write lists work in tiles of so many numbers. Squares are added up in
// pieces of so many (ops/codec/threshold.c).
enum { TT_CUDA_TILE = 2048, TT_CUDA_SQUARES = 4096 };

// Bytes of scratch to scan numbers for n things in tiles: a count each, and the sums.
static inline int64_t tt_cuda_scan_scratch(int64_t tiles)
{
    return 8 * (tiles + tiles / 256 + 1);
}

// Of the encoders that pick entries (ops/codec/sparse.h): the k largest of those whose
// size has the bits `least` or more.
typedef struct tt_cuda_pick_args {
    tt_cuda_packet packet;
    int64_t k;
    uint32_t least;
    bool
        is_threshold; // each entry is sent as plus or minus tau, whose bits are `least`
    bool has_values; // of a threshold: with a value each
    bool
        is_relative; // tau: `relative` times the root of the mean square, if larger
    double relative;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    uint8_t *out;
    void *scratch; // tt_cuda_pick_scratch
} tt_cuda_pick_args;

enum { TT_CUDA_PICK_HEAD = 17 << 10 };
static inline int64_t tt_cuda_pick_scratch(int64_t n)
{
    return TT_CUDA_PICK_HEAD + tt_cuda_scan_scratch(n / TT_CUDA_TILE + 1) +
           8 * (n / TT_CUDA_SQUARES + 1);
}

// Of dgc_encode. The part of the entries that is picked at a step before `warm_up` is
// start times factor to the power of the step.
typedef struct tt_cuda_dgc_args {
    tt_cuda_packet packet;
    int64_t most, warm_up; // warm_up 0: `ratio` at all steps
    double ratio, start, factor;
    double norm; // that a gradient has at most; 0: any
    float momentum;
    const int64_t *step;
    const float *x, *u, *v;
    float *u_out, *v_out; // may be u and v
    uint8_t *out;
    void *scratch; // tt_cuda_pick_scratch
} tt_cuda_dgc_args;

// Of the sums of lists: entries, or thresholds and their places.
typedef struct tt_cuda_list_sum_args {
    tt_cuda_packet packet; // each of them
    bool is_threshold;
    int64_t peers;
    const uint8_t *packets;
    float *y;
    void *scratch; // 4 bytes for each peer
} tt_cuda_list_sum_args;

// Of the encoders whose codes have a length that depends on the numbers
// (ops/codec/entropy.h).
typedef struct tt_cuda_entropy_args {
    tt_cuda_packet packet;
    int64_t block;
    int levels, bits;           // qsgd: of a level, when all are written
    float shrink, sparsity;     // of qsgd with a residual; of 3lc
    const int64_t *seed, *step; // NULL: no random numbers
    uint64_t origin_hash;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    uint8_t *out;
    void *scratch; // tt_cuda_entropy_scratch
} tt_cuda_entropy_args;

typedef struct tt_cuda_entropy_sum_args {
    tt_cuda_packet packet; // each of them
    int64_t block;
    int levels, bits;
    int64_t peers;
    const uint8_t *packets;
    float *y;
    void *scratch; // tt_cuda_entropy_scratch
} tt_cuda_entropy_sum_args;

// For `lists` lists of m numbers that are scanned, `bytes` bytes and the packets' checks.
static inline int64_t tt_cuda_entropy_scratch(int64_t peers, int64_t m,
                                              int lists, int64_t bytes)
{
    return 16 + 8 * (peers / 2 + 1) + 8 * m * (lists - 1) +
           tt_cuda_scan_scratch(m) + bytes;
}

#endif
