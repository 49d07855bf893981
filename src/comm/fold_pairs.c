// fold_pairs - see the header.
//
// A recursion over the tree of pairs: fold the left half into a buffer, the right half
// into the destination, then both. It works on pieces of 16 KiB, so that the buffers
// (one per level) stay in the cache and each input is read from memory once. 16-bit
// floats that are rounded once go through the same tree in 32 bits.

#include "comm/fold_pairs.h"

#include <string.h>

enum { LEVELS = 16 };              // of pairs: 65536 arrays
enum { WIDE = TT_FOLD_PIECE / 2 }; // bytes of 16-bit floats at a time

bool tt_fold_is_wide(const tt_fold_set *set)
{
    const tt_num type = set->fold.type;
    return set->n > 2 && !set->each && set->fold.op == TT_FOLD_SUM &&
           (type == TT_NUM_BF16 || type == TT_NUM_F16);
}

// The left of two folds has the largest power of two that leaves something.
static int32_t left_of(int32_t n)
{
    int32_t half = 1;
    while (2 * half < n)
        half *= 2;
    return half;
}

typedef struct piece {
    tt_fold fold;
    const char *const *src;
    int64_t at, bytes;
} piece;

// The fold of n arrays from `first` on; a single one stays where it is.
static const char *fold_each(const piece *p, int32_t first, int32_t n, char *to,
                             char (*sum)[TT_FOLD_PIECE])
{
    if (n == 1)
        return p->src[first] + p->at;
    const int32_t half = left_of(n);
    const char *left = fold_each(p, first, half, sum[0], sum + 1);
    const char *right = fold_each(p, first + half, n - half, to, sum + 1);
    tt_fold_two(p->fold, to, left, right, p->bytes);
    return to;
}

static void fold_wide(const piece *p, int32_t first, int32_t n, float *to,
                      char (*sum)[TT_FOLD_PIECE])
{
    static const tt_fold wide = {TT_FOLD_SUM, TT_NUM_F32};
    const int64_t count = p->bytes / tt_num_bytes(p->fold.type);
    if (n == 1) {
        tt_fold_widen(p->fold.type, to, p->src[first] + p->at, count);
        return;
    }
    const int32_t half = left_of(n);
    float *left = (float *)(void *)sum[0];
    fold_wide(p, first, half, left, sum + 1);
    fold_wide(p, first + half, n - half, to, sum + 1);
    tt_fold_two(wide, to, left, to, count * (int64_t)sizeof *to);
}

static void fold_piece(const tt_fold_set *set, const piece *p, char *dst)
{
    _Alignas(64) char sum[LEVELS + 1][TT_FOLD_PIECE];
    if (!tt_fold_is_wide(set)) {
        const char *all = fold_each(p, 0, set->n, dst, sum);
        if (all != dst) // one array
            memmove(dst, all, (size_t)p->bytes);
        return;
    }
    float *all = (float *)(void *)sum[LEVELS];
    fold_wide(p, 0, set->n, all, sum);
    tt_fold_narrow(p->fold.type, dst, all,
                   p->bytes / tt_num_bytes(p->fold.type));
}

void tt_fold_pairs(const tt_fold_set *set, void *dst, int64_t at, int64_t bytes)
{
    const int64_t most = tt_fold_is_wide(set) ? WIDE : TT_FOLD_PIECE;
    piece p = {set->fold, set->src, at, most};
    for (int64_t done = 0; done < bytes; done += most) {
        p.at = at + done;
        p.bytes = bytes - done < most ? bytes - done : most;
        fold_piece(set, &p, (char *)dst + done);
    }
}
