// packet - the check and the header of packets. Bound by memory: a body is read once.

#include "backend/cuda/dev/codec/packet.cuh"

// A warp has a segment, a lane of it a chain of words.
__global__ void hash_segments(tt_cuda_packet p, const uint8_t *packets,
                              uint32_t *sums)
{
    const int64_t s =
        blockIdx.x * (int64_t)(PACKET_THREADS / 32) + threadIdx.x / 32;
    const int64_t first = s * PACKET_SEGMENT;
    const uint32_t l = threadIdx.x % 32;
    if (first >= p.body)
        return;
    const uint8_t *body =
        packets + blockIdx.y * p.capacity + PACKET_HEADER + first;
    const int64_t left = p.body - first;
    const int64_t bytes =
        left < PACKET_SEGMENT ? left : (int64_t)PACKET_SEGMENT;
    uint32_t lane = l;
#pragma unroll 8
    for (int64_t i = 0; 4 * i < bytes; i += 32) {
        lane ^= packet_word(body, bytes, i + l);
        lane = (lane << 13 | lane >> 19) + 0x9e3779b1u;
    }
    const uint32_t sum = warp_sum(packet_mix(lane ^ l * 0x9e3779b1u));
    if (l == 0)
        atomicAdd(&sums[blockIdx.y],
                  packet_mix(sum ^ packet_mix((uint32_t)s + 1)));
}

__global__ void write_head(tt_cuda_packet p, uint8_t *packet,
                           const uint32_t *sums)
{
    const int64_t bytes = PACKET_HEADER + p.body;
    if (threadIdx.x == 0) {
        const uint32_t hash = packet_mix((uint32_t)p.body) + sums[0];
        packet_head *head = (packet_head *)packet;
        head->magic = p.magic;
        head->check = packet_check(p, bytes, hash);
        head->n = p.n;
        head->bytes = bytes;
    }
    for (int64_t i = bytes + threadIdx.x; i < p.capacity; i += blockDim.x)
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
    const uint32_t hash = packet_mix((uint32_t)p.body) + sums[r];
    if (head->magic != p.magic || head->n != p.n ||
        head->bytes != PACKET_HEADER + p.body ||
        head->check != packet_check(p, head->bytes, hash))
        *fault = FAULT_CODE;
}

static const char *hash(tt_cuda *c, const tt_cuda_packet *p, int64_t peers,
                        const uint8_t *packets, uint32_t *sums)
{
    const int64_t segments = ceil_div(p->body, PACKET_SEGMENT);
    const dim3 grid((unsigned)ceil_div(segments, PACKET_THREADS / 32),
                    (unsigned)peers);
    TRY_CUDA(cudaMemsetAsync(sums, 0, (size_t)peers * sizeof *sums, c->stream));
    hash_segments<<<grid, PACKET_THREADS, 0, c->stream>>>(*p, packets, sums);
    return launched();
}

const char *tt_cuda_packet_close(tt_cuda *c, const tt_cuda_packet *p,
                                 uint8_t *packet, uint32_t *sums)
{
    TRY(hash(c, p, 1, packet, sums));
    write_head<<<1, 32, 0, c->stream>>>(*p, packet, sums);
    return launched();
}

const char *tt_cuda_packet_open(tt_cuda *c, const tt_cuda_packet *p,
                                int64_t peers, const uint8_t *packets,
                                uint32_t *sums)
{
    TRY(hash(c, p, peers, packets, sums));
    check_heads<<<(unsigned)ceil_div(peers, PACKET_THREADS), PACKET_THREADS, 0,
                  c->stream>>>(*p, peers, packets, sums, c->fault_device);
    return launched();
}
