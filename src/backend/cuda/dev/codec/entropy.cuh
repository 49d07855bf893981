// entropy - the scratch memory of codes of unknown length (qsgd.cu, threelc.cu).

#ifndef TT_BACKEND_CUDA_DEV_CODEC_ENTROPY_CUH
#define TT_BACKEND_CUDA_DEV_CODEC_ENTROPY_CUH

#include "backend/cuda/dev/codec/packet.cuh"
#include "backend/cuda/dev/codec/scan.cuh"
#include "backend/cuda/dev/random.cuh"

struct entropy_room {
    uint64_t *total; // of the numbers that were scanned
    int64_t *used;   // bytes of the body
    uint32_t *sums;  // of the packets' checks
    uint64_t *scan;
    uint64_t *count; // m of them, for each list
    uint8_t *bytes;
};

static inline entropy_room entropy_room_of(void *scratch, int64_t peers,
                                           int64_t m, int lists)
{
    uint64_t *word = (uint64_t *)scratch;
    uint64_t *scan = word + 2 + peers / 2 + 1;
    uint64_t *count = scan + scan_room(m);
    return {word,  (int64_t *)(word + 1),         (uint32_t *)(word + 2), scan,
            count, (uint8_t *)(count + m * lists)};
}

#endif
