// packet - headers of packets and their check (ops/codec/packet.h), computed on the
// device: a warp for each segment of a body, whose terms are added. They are integers,
// so the order of the additions does not matter.

#ifndef TT_BACKEND_CUDA_DEV_CODEC_PACKET_CUH
#define TT_BACKEND_CUDA_DEV_CODEC_PACKET_CUH

#include "backend/cuda/dev/common.cuh"

enum { PACKET_HEADER = 24, PACKET_SEGMENT = 4096, PACKET_THREADS = 256 };

__device__ static inline uint32_t packet_mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// Random bits of element i, as tt_packet_random.
__device__ static inline uint32_t packet_random(uint64_t key, uint32_t i)
{
    uint32_t h = i * 0x9e3779b1u + (uint32_t)key;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    h = (h ^ h >> 16) + (uint32_t)(key >> 32);
    h = (h ^ h >> 15) * 0x9e3779b1u;
    return h ^ h >> 16;
}

__device__ static inline bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

// by / scale, or 0 where that is not a finite number.
__device__ static inline float inverse(float by, float scale)
{
    const float inv = __fdiv_rn(by, scale);
    return scale > 0.f && is_finite(inv) && is_finite(scale) ? inv : 0.f;
}

// Word w of `bytes` bytes, with zeros after their end.
__device__ static inline uint32_t packet_word(const uint8_t *body,
                                              int64_t bytes, int64_t w)
{
    if (4 * w + 4 <= bytes)
        return ((const uint32_t *)body)[w];
    uint32_t word = 0;
    for (int k = 0; k < 4 && 4 * w + k < bytes; k++)
        word |= (uint32_t)body[4 * w + k] << 8 * k;
    return word;
}

// What a packet says about itself.
struct packet_head {
    uint32_t magic, check;
    int64_t n, bytes;
};

__device__ static inline uint32_t packet_check(const tt_cuda_packet &p,
                                               int64_t bytes, uint32_t hash)
{
    const uint32_t words[6] = {p.magic,
                               (uint32_t)p.n,
                               (uint32_t)((uint64_t)p.n >> 32),
                               (uint32_t)bytes,
                               (uint32_t)((uint64_t)bytes >> 32),
                               p.options};
    for (int i = 0; i < 6; i++)
        hash = packet_mix(hash ^ words[i]);
    return hash;
}

// Bytes of the body that a packet says it has; 0 where they cannot be.
__device__ static inline int64_t packet_used(const tt_cuda_packet &p,
                                             const uint8_t *packet)
{
    const int64_t used = ((const packet_head *)packet)->bytes - PACKET_HEADER;
    return used < 0 || used > p.capacity - PACKET_HEADER ? 0 : used;
}

// Queues the kernels of packet.cu. `sums` has room for a word for each packet.
//
//   close   writes the header of a packet, and zeros after its body. `used`, on the
//           device, is how many bytes the body has; NULL: p.body
//   open    looks at `peers` packets, one after another; a fault is noted where one is
//           not what it should be. Bodies have p.body bytes, if is_long at most
const char *tt_cuda_packet_close(tt_cuda *c, const tt_cuda_packet *p,
                                 const int64_t *used, uint8_t *packet,
                                 uint32_t *sums);
const char *tt_cuda_packet_open(tt_cuda *c, const tt_cuda_packet *p,
                                int64_t peers, const uint8_t *packets,
                                uint32_t *sums);

#endif
