// packet - the check and the header of packets. Bound by memory: a body is read once. Of
// a body whose length only the device knows, there are threads for the most that it may
// have; those after its end write the zeros there.

#include "backend/cuda/dev/codec/packet.cuh"

// Zeros from byte `from` on, up to `end`; one warp does it.
__device__ static inline void clear(uint8_t *body, int64_t from, int64_t end)
{
    const int64_t first = (from + 3) / 4 * 4, last = end / 4 * 4;
    const int l = threadIdx.x % 32;
    for (int64_t i = from + l; i < first && i < end; i += 32)
        body[i] = 0;
    for (int64_t i = first + 4 * l; i < last; i += 4 * 32)
        *(uint32_t *)(body + i) = 0;
    for (int64_t i = (last > first ? last : first) + l; i < end; i += 32)
        body[i] = 0;
}

// The term of segment s of a body of `bytes` bytes; a warp has it, a lane of it a chain
// of words.
__device__ static inline uint32_t term_of(const uint8_t *body, int64_t bytes,
                                          int64_t s)
{
    const int64_t first = s * PACKET_SEGMENT, left = bytes - first;
    const int64_t length =
        left < PACKET_SEGMENT ? left : (int64_t)PACKET_SEGMENT;
    const uint32_t l = threadIdx.x % 32;
    uint32_t lane = l;
#pragma unroll 8
    for (int64_t i = 0; 4 * i < length; i += 32) {
        lane ^= packet_word(body + first, length, i + l);
        lane = (lane << 13 | lane >> 19) + 0x9e3779b1u;
    }
    const uint32_t sum = warp_sum(packet_mix(lane ^ l * 0x9e3779b1u));
    return packet_mix(sum ^ packet_mix((uint32_t)s + 1));
}

__device__ static inline int64_t segment_of_warp(void)
{
    return blockIdx.x * (int64_t)(PACKET_THREADS / 32) + threadIdx.x / 32;
}

// Of packets that came.
__global__ void hash_segments(tt_cuda_packet p, const uint8_t *packets,
                              uint32_t *sums)
{
    const int64_t s = segment_of_warp();
    const uint8_t *packet = packets + blockIdx.y * p.capacity;
    const int64_t bytes = p.is_long ? packet_used(p, packet) : p.body;
    if (s * PACKET_SEGMENT >= bytes)
        return; // the whole warp
    const uint32_t term = term_of(packet + PACKET_HEADER, bytes, s);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&sums[blockIdx.y], term);
}

// Of a packet that is written; zeros go after its end.
__global__ void hash_written(tt_cuda_packet p, const int64_t *used,
                             uint8_t *packet, uint32_t *sums)
{
    const int64_t s = segment_of_warp(), first = s * PACKET_SEGMENT;
    const int64_t bytes = used != NULL ? *used : p.body;
    const int64_t end =
        first + PACKET_SEGMENT < p.body ? first + PACKET_SEGMENT : p.body;
    clear(packet + PACKET_HEADER, first > bytes ? first : bytes, end);
    if (first >= bytes)
        return; // the whole warp
    const uint32_t term = term_of(packet + PACKET_HEADER, bytes, s);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sums, term);
}

__global__ void write_head(tt_cuda_packet p, const int64_t *used,
                           uint8_t *packet, const uint32_t *sums)
{
    const int64_t body = used != NULL ? *used : p.body;
    const int64_t bytes = PACKET_HEADER + body;
    if (threadIdx.x == 0) {
        const uint32_t hash = packet_mix((uint32_t)body) + sums[0];
        packet_head *head = (packet_head *)packet;
        head->magic = p.magic;
        head->check = packet_check(p, bytes, hash);
        head->n = p.n;
        head->bytes = bytes;
    }
    for (int64_t i = PACKET_HEADER + p.body + threadIdx.x; i < p.capacity;
         i += blockDim.x)
        packet[i] = 0;
}

__global__ void check_heads(tt_cuda_packet p, int64_t peers,
                            const uint8_t *packets, const uint32_t *sums,
                            int *fault)
{
    const int64_t r = blockIdx.x * (int64_t)PACKET_THREADS + threadIdx.x;
    if (r >= peers)
        return;
    const packet_head *head = (const packet_head *)(packets + r * p.capacity);
    const int64_t body = head->bytes - PACKET_HEADER;
    const bool fits = p.is_long ? body >= 0 && body <= p.body : body == p.body;
    const uint32_t hash = packet_mix((uint32_t)body) + sums[r];
    if (head->magic != p.magic || head->n != p.n || !fits ||
        head->check != packet_check(p, head->bytes, hash))
        *fault = FAULT_CODE;
}

static unsigned blocks_of(const tt_cuda_packet *p)
{
    return (unsigned)ceil_div(ceil_div(p->body, PACKET_SEGMENT),
                              PACKET_THREADS / 32);
}

const char *tt_cuda_packet_close(tt_cuda *c, const tt_cuda_packet *p,
                                 const int64_t *used, uint8_t *packet,
                                 uint32_t *sums)
{
    TRY_CUDA(cudaMemsetAsync(sums, 0, sizeof *sums, c->stream));
    hash_written<<<blocks_of(p), PACKET_THREADS, 0, c->stream>>>(*p, used,
                                                                 packet, sums);
    write_head<<<1, 32, 0, c->stream>>>(*p, used, packet, sums);
    return launched();
}

const char *tt_cuda_packet_open(tt_cuda *c, const tt_cuda_packet *p,
                                int64_t peers, const uint8_t *packets,
                                uint32_t *sums)
{
    const dim3 grid(blocks_of(p), (unsigned)peers);
    TRY_CUDA(cudaMemsetAsync(sums, 0, (size_t)peers * sizeof *sums, c->stream));
    hash_segments<<<grid, PACKET_THREADS, 0, c->stream>>>(*p, packets, sums);
    check_heads<<<(unsigned)ceil_div(peers, PACKET_THREADS), PACKET_THREADS, 0,
                  c->stream>>>(*p, peers, packets, sums, c->fault_device);
    return launched();
}
