// scan - see scan.cuh. Up to 256 numbers are scanned by one block. More are cut into
// tiles of 256: their sums are scanned by one block, 256 at a time, then each tile. Bound
// by launches: there are few numbers, one for some hundreds of what is counted.

#include "backend/cuda/dev/codec/scan.cuh"

template <bool IS_MAX>
__global__ void join_tiles(const uint64_t *x, int64_t n, uint64_t *tile)
{
    __shared__ uint64_t room[SCAN_THREADS / 32];
    const int64_t i = blockIdx.x * (int64_t)SCAN_THREADS + threadIdx.x;
    uint64_t all;
    scan_block<IS_MAX>(i < n ? x[i] : 0, room, &all);
    if (threadIdx.x == 0)
        tile[blockIdx.x] = all;
}

template <bool IS_MAX>
__global__ void scan_one(uint64_t *x, int64_t n, uint64_t *total)
{
    __shared__ uint64_t room[SCAN_THREADS / 32];
    uint64_t before = 0;
    for (int64_t first = 0; first < n; first += SCAN_THREADS) {
        const int64_t i = first + threadIdx.x;
        uint64_t all;
        const uint64_t own = scan_block<IS_MAX>(i < n ? x[i] : 0, room, &all);
        if (i < n)
            x[i] = scan_join<IS_MAX>(before, own);
        before = scan_join<IS_MAX>(before, all);
    }
    if (threadIdx.x == 0 && total != NULL)
        *total = before;
}

template <bool IS_MAX>
__global__ void scan_tiles(uint64_t *x, int64_t n, const uint64_t *tile)
{
    __shared__ uint64_t room[SCAN_THREADS / 32];
    const int64_t i = blockIdx.x * (int64_t)SCAN_THREADS + threadIdx.x;
    uint64_t all;
    const uint64_t own = scan_block<IS_MAX>(i < n ? x[i] : 0, room, &all);
    if (i < n)
        x[i] = scan_join<IS_MAX>(tile[blockIdx.x], own);
}

template <bool IS_MAX>
static const char *scan(tt_cuda *c, uint64_t *x, int64_t n, uint64_t *room,
                        uint64_t *total)
{
    const int64_t tiles = ceil_div(n, SCAN_THREADS);
    if (tiles <= 1) {
        scan_one<IS_MAX><<<1, SCAN_THREADS, 0, c->stream>>>(x, n, total);
        return launched();
    }
    join_tiles<IS_MAX>
        <<<(unsigned)tiles, SCAN_THREADS, 0, c->stream>>>(x, n, room);
    scan_one<IS_MAX><<<1, SCAN_THREADS, 0, c->stream>>>(room, tiles, total);
    scan_tiles<IS_MAX>
        <<<(unsigned)tiles, SCAN_THREADS, 0, c->stream>>>(x, n, room);
    return launched();
}

const char *tt_cuda_scan_sums(tt_cuda *c, uint64_t *x, int64_t n,
                              uint64_t *room, uint64_t *total)
{
    return scan<false>(c, x, n, room, total);
}

const char *tt_cuda_scan_most(tt_cuda *c, uint64_t *x, int64_t n,
                              uint64_t *room, uint64_t *total)
{
    return scan<true>(c, x, n, room, total);
}
