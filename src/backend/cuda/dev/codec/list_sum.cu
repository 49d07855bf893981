// list_sum - adds entries at their places, for packets of picked entries and of
// thresholds (ops/codec/sparse.h). Bound by memory, at scattered places. Replicas are
// added one after another, a launch each, so sums have an order; places of one packet
// ascend, so no two threads have the same. A packet that no encoder writes is noted as a
// fault, and nothing outside y is touched.

#include "backend/cuda/dev/codec/packet.cuh"

enum { THREADS = 256 };

template <bool IS_THRESHOLD>
__global__ void add(tt_cuda_packet p, const uint8_t *packet, float *y,
                    int *fault)
{
    const uint32_t *body = (const uint32_t *)(packet + PACKET_HEADER);
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t each = IS_THRESHOLD ? 4 : 8;
    const uint64_t count =
        IS_THRESHOLD ? body[0] : (uint64_t)body[1] << 32 | body[0];
    const uint32_t mask = IS_THRESHOLD ? 0x7fffffffu : 0xffffffffu;
    if (count > (uint64_t)p.n || (int64_t)count > (p.body - 8) / each ||
        packet_used(p, packet) != 8 + each * (int64_t)count) {
        *fault = FAULT_CODE;
        return;
    }
    if (i >= (int64_t)count)
        return;
    const uint32_t *places = body + 2 + (IS_THRESHOLD ? 0 : count);
    const uint32_t word = places[i], place = word & mask;
    if ((int64_t)place >= p.n || (i > 0 && (places[i - 1] & mask) >= place)) {
        *fault = FAULT_CODE;
        return;
    }
    const uint32_t value =
        IS_THRESHOLD ? body[1] ^ (word & ~mask) : body[2 + i];
    y[place] = __fadd_rn(y[place], __uint_as_float(value));
}

extern "C" const char *tt_cuda_list_sum(tt_cuda *c,
                                        const tt_cuda_list_sum_args *a)
{
    const tt_cuda_packet *p = &a->packet;
    const int64_t most = (p->body - 8) / (a->is_threshold ? 4 : 8);
    const unsigned blocks = (unsigned)ceil_div(most, THREADS);
    TRY(tt_cuda_packet_open(c, p, a->peers, a->packets,
                            (uint32_t *)a->scratch));
    TRY_CUDA(cudaMemsetAsync(a->y, 0, (size_t)p->n * sizeof *a->y, c->stream));
    for (int64_t r = 0; r < a->peers; r++) {
        const uint8_t *packet = a->packets + r * p->capacity;
        if (a->is_threshold)
            add<true><<<blocks, THREADS, 0, c->stream>>>(*p, packet, a->y,
                                                         c->fault_device);
        else
            add<false><<<blocks, THREADS, 0, c->stream>>>(*p, packet, a->y,
                                                          c->fault_device);
    }
    return launched();
}
