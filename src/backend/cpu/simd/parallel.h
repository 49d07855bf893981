// parallel - how work is cut for threads.
//
// Blocks depend on the problem's size alone, never on the number of threads. Threads
// take blocks; a sum adds the blocks' results in order, after all are there. So every
// result has the same bits on any number of threads. The price is that a problem with
// few blocks cannot use more threads than that.

#ifndef TT_BACKEND_CPU_SIMD_PARALLEL_H
#define TT_BACKEND_CPU_SIMD_PARALLEL_H

#include <stdint.h>

enum {
    TT_BLOCK = 4096,         // elements of one block of a flat array
    TT_FORK_ELEMENTS = 65536 // fewer than this: one thread is faster
};

static inline int64_t tt__simd_blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

// Rows per block so that a block holds about TT_BLOCK elements.
static inline int64_t tt__rows_per_block(int64_t cols)
{
    const int64_t rows = TT_BLOCK / (cols > 0 ? cols : 1);
    return rows > 0 ? rows : 1;
}

// Sums over many rows are cut into at most TT_PARTS parts, each summed by one
// thread; the parts are then added in order.
enum { TT_PARTS = 32, TT_PART_ROWS_MIN = 32, TT_GROUP_ROWS = 64 };

static inline int64_t tt__parts(int64_t rows)
{
    const int64_t parts = tt__simd_blocks(rows, TT_PART_ROWS_MIN);
    return parts < 1 ? 1 : (parts > TT_PARTS ? TT_PARTS : parts);
}

// Calls row(type, a, r) for every row of `a`, with the type as a constant, so that the
// compiler makes one loop per type. `forks`: it is worth more than one thread.
#define TT_EACH_ROW(a, forks, row)                                             \
    do {                                                                       \
        const bool is_forked = (forks);                                        \
        _Pragma("omp parallel for schedule(static) if (is_forked)") for (      \
            int64_t r = 0; r < (a)->rows; r++)                                 \
        {                                                                      \
            if ((a)->type == TT_SIMD_BF16)                                     \
                row(TT_SIMD_BF16, a, r);                                       \
            else                                                               \
                row(TT_SIMD_F32, a, r);                                        \
        }                                                                      \
    } while (0)

#endif
