// verify - a job on many ranks against the same job on one: the same seed, the same
// random batches; loss, every gradient, norm, updated weights, and checkpoints that
// each can load from the other.
//
// The measure, per tensor of n of all N elements, with Euclidean norms:
//   rel = |many - one| / max(|one|, 0.01 |all of one| sqrt(n / N))
// A gradient that is zero in mathematics has no relative error of its own. Nor has
// an update of it below fp64, where optimisers that divide by a gradient's size make
// something of its rounding: such elements are left out.
//
// The folder verify: proofs about one layout, for users. Statements about every member of
// a registry are laws (check).

#ifndef TT_VERIFY_VERIFY_H
#define TT_VERIFY_VERIFY_H

#include "job/job.h"

typedef struct tt_verify_result {
    bool ok;
    // The limits of what is compared: the first of loss and norm, and of gradients but in
    // low precisions, which have limits of their own below.
    double tolerance, update_tolerance;
    double loss_rel, grad_rel_max, norm_rel, update_rel_max;
    const char *worst_tensor; // the largest of gradients and updates
    bool checkpoint_ok;
    // Loss, norm, all gradients, weights and states, bit for bit.
    bool bits_equal;
    // bf16 and fp16: how much further from fp32 many ranks are than one, over all
    // gradients, and for a single gradient, measured against errors of the usual size
    // at least; limits of 0: not asked.
    double low_ratio, low_each;
    double low_ratio_limit, low_each_limit;
    // The first tensor beyond the tolerance, in the order of backward.
    const char *culprit; // NULL: none
    const char *op, *origin;
    int32_t rank;    // whose part is furthest off
    bool has_copies; // others hold the same, equally wrong
    double culprit_rel;
    // Of tt_verify_settings.
    int32_t n_ranks;
    const char *model;
} tt_verify_result;

// `many` is configured for all ranks of `peers`, `one` on rank 0 for it alone and
// NULL elsewhere, `low` likewise in fp32 where many is in a low precision. None is
// started. All ranks call it; the result is rank 0's. Checkpoints go to `folder`,
// which is there and is emptied again. Text lies in the arena.
typedef struct tt_verify_request {
    tt_job *many, *one, *low;
    // Before updated weights are compared; gradients: after one. 0: 2 in fp64, 1
    // in others.
    int64_t steps;
    const char *folder;
    tt_arena *arena;
} tt_verify_request;

tt_status tt_verify(const tt_verify_request *request,
                    tt_verify_result *result_out);

// The same from settings: makes the jobs, and a folder in `folder`. `extra` as for
// tt_job_configure.
typedef struct tt_verify_subject {
    tt_settings *settings;
    const tt_opt *extra;
    const tt_peers *peers;
    int64_t steps;
    const char *folder;
    tt_arena *arena;
} tt_verify_subject;

tt_status tt_verify_settings(const tt_verify_subject *v,
                             tt_verify_result *result_out);

#endif
