// sparse - the options of the codecs that pick some entries.
//
//   topk        the largest entries, exactly ceil(ratio n) of them
//   dgc         likewise, with momentum inside
//   threshold   the entries above a threshold, each as plus or minus the threshold
//   nonzero     the entries that are not zero
//   randomk     random entries, the same ones in all replicas; no packet
//
// Packets of topk and dgc are of one kind, which topk_sum reads; those of nonzero look alike:
//
//   body   count (8 bytes), values [count], places [count] (u32, ascending)
//
// Of threshold:
//
//   body   count (u32), the threshold (float), places [count] (31 bits, ascending; the
//          top bit says minus)
//
// With `values` its packets are of the first kind.
//
// Entries are compared by absolute value; NaN is above all, and of equal entries the
// first ones are taken.

#ifndef TT_OPS_CODEC_SPARSE_H
#define TT_OPS_CODEC_SPARSE_H

#include "ops/codec/packet.h"

enum { TT_SPARSE_HEAD = 8 };

typedef struct tt_sparse_params {
    double ratio; // of the entries, that are picked; at least one is

    // threshold
    double tau, relative;
    bool has_values; // packets are of topk's kind: each entry with its value

    // dgc
    double momentum, clip, start;
    int64_t warm_up, peers;
} tt_sparse_params;

extern const tt_opt tt_topk_options[], tt_threshold_options[], tt_dgc_options[],
    tt_randomk_options[];

// Of topk_encode and threshold_encode: flops_each per element.
tt_op_cost_fn tt__sparse_cost;

// ceil(ratio n), from 1 to n.
int64_t tt_sparse_count(double ratio, int64_t n);

// The factor by which the part that dgc picks changes in a step of the warm-up, and its
// power. A power is made of products, in the same order in all kernels: a GPU's pow has
// other bits, and one more entry would be picked now and then.
double tt_dgc_factor(const tt_sparse_params *p);
static inline double tt_dgc_power(double x, int64_t n)
{
    double y = 1;
    for (; n > 0; n /= 2, x *= x)
        y = n % 2 != 0 ? y * x : y;
    return y;
}

// Steps of the warm-up; 0: there is none.
int64_t tt_dgc_warm_up(const tt_sparse_params *p);

// How many of n entries dgc picks at a step; and never more than this.
int64_t tt_dgc_count(const tt_sparse_params *p, int64_t n, int64_t step);
int64_t tt_dgc_most(const tt_sparse_params *p, int64_t n);

// Bytes of the bodies with at most k entries.
static inline int64_t tt_sparse_body(int64_t k, int64_t value_bytes)
{
    return TT_SPARSE_HEAD + k * (value_bytes + 4);
}
static inline int64_t tt_threshold_body(int64_t k)
{
    return TT_SPARSE_HEAD + 4 * k;
}

// Inputs and outputs of dgc_encode.
enum { TT_DGC_X, TT_DGC_U, TT_DGC_V, TT_DGC_STEP, TT_DGC_N };
enum { TT_DGC_CODE, TT_DGC_U_OUT, TT_DGC_V_OUT };

// The place that randomk picks of part j of k; parts are as equal as can be.
static inline int64_t tt_randomk_first(int64_t n, int64_t k, int64_t j)
{
    return j * (n / k) + (j < n % k ? j : n % k);
}
static inline int64_t tt_randomk_place(uint64_t key, int64_t n, int64_t k,
                                       int64_t j)
{
    const int64_t first = tt_randomk_first(n, k, j);
    const uint64_t length = (uint64_t)(tt_randomk_first(n, k, j + 1) - first);
    const uint64_t bits = tt_packet_random(key, (uint32_t)j);
    return first + (int64_t)(bits * length >> 32);
}

// Inputs of randomk_take and randomk_put; `like` gives the shape of what is put back.
enum { TT_RK_X, TT_RK_RESIDUAL, TT_RK_SEED, TT_RK_STEP, TT_RK_N };
enum { TT_RP_VALUES, TT_RP_SEED, TT_RP_STEP, TT_RP_LIKE, TT_RP_N };

#endif
