// verify - compares a job on many ranks with the same job on one.
//
// Problem: a layout (data, tensor, ZeRO, ...) that is slightly wrong still trains. Its
// loss falls, only more slowly, and nobody notices. Idea: run the user's own job twice
// with the same seed and the same random batches, once on all ranks and once on one,
// and compare everything that comes out: the loss, every gradient, the norm, the
// updated weights, and checkpoints, which each side must be able to load from the
// other.
//
//   settings --+--> many ranks --> loss, norm, gradients, states --+
//              |                                                   +--> compare
//              +--> one rank   --> loss, norm, gradients, states --+    and blame
//              |                                                   |
//              +--> one rank in fp32 (low precisions only) --------+
//
// The measure for a tensor with n of all N elements, with Euclidean norms:
//
//   rel = |many - one| / max(|one|, 0.01 |all of one| sqrt(n / N))
//
// The second term of the max is there for gradients that are zero in mathematics:
// their computed values are pure rounding, so a relative error of their own means
// nothing. Updates have the same problem below fp64. An optimiser that divides by the
// gradient's size (Adam) turns such rounding into a full step, so these elements are
// left out.
//
// In bf16, fp16 and fp8 two correct runs differ visibly. There the question is another
// one: are many ranks further from fp32 than one rank is?
//
// Cost: rank 0 holds whole tensors as doubles, and runs the job once or twice more,
// alone.
//
// What belongs here: a proof about one layout, for users. Statements about every
// member of a registry are laws (check).

#ifndef TT_VERIFY_VERIFY_H
#define TT_VERIFY_VERIFY_H

#include "job/job.h"

typedef struct tt_verify_result {
    bool ok;
    // Limits. `tolerance` is for loss and norm, and for gradients except in low
    // precisions; `update_tolerance` is for weights and optimiser states.
    double tolerance, update_tolerance;
    double loss_rel, grad_rel_max, norm_rel, update_rel_max;
    const char *worst_tensor; // with the largest difference of all
    bool checkpoint_ok;
    // Loss, norm, gradients, weights and states are equal bit for bit.
    bool bits_equal;
    // Low precisions only: how many times further from fp32 many ranks are than one,
    // over all gradients, and for the worst single gradient. A single error counts as
    // at least of the usual size. Limits of 0: not compared this way.
    double low_ratio, low_each;
    double low_ratio_limit, low_each_limit;
    // The first tensor beyond its tolerance, in the order of the backward pass: the
    // cause is there, and later ones only inherit the error.
    const char *culprit;     // NULL: none
    const char *op, *origin; // what computed it, and for which layer
    int32_t rank;            // that holds the part that is furthest off
    bool has_copies;         // other ranks hold the same value, equally wrong
    double culprit_rel;
    // Set by tt_verify_settings only.
    int32_t n_ranks;
    const char *model;
} tt_verify_result;

// The jobs to compare; none of them is started yet. `many` is configured for all
// ranks. `one` is for rank 0 alone, and NULL on other ranks. `low` is like `one` but
// in fp32, and is set where `many` has a low precision. All ranks call tt_verify, and
// rank 0 gets the result. Checkpoints are written to `folder`, which exists and is
// empty again afterwards. Texts live in the arena.
typedef struct tt_verify_request {
    tt_job *many, *one, *low;
    // Steps before weights are compared; gradients are compared after the first. 0: two
    // in fp64, one otherwise.
    int64_t steps;
    const char *folder;
    tt_arena *arena;
} tt_verify_request;

tt_status tt_verify(const tt_verify_request *request,
                    tt_verify_result *result_out);

// The same from settings: this makes the jobs, and a folder inside `folder`. `extra`
// is as for tt_job_configure.
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
