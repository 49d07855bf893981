// verify_parts - what the files of verify share. Internal.

#ifndef TT_VERIFY_VERIFY_PARTS_H
#define TT_VERIFY_VERIFY_PARTS_H

#include "verify/verify.h"

// What ranks hold that should have the same bits as others and have not.
typedef struct tt__copy {
    int64_t of;   // which tensor
    int32_t rank; // the first of those that hold this copy of the whole
    double *data;
} tt__copy;

// Whole tensors as doubles, of a job's gradients or states. On ranks that only take
// part there are no data and no copies.
typedef struct tt__taken {
    int64_t n;
    tt_tensor *tensor; // in the order in which they are compared
    double **data;     // of each: rank 0's, and those that hold the rest of it
    int64_t n_copies;
    tt__copy *copy; // by `of`
} tt__taken;

typedef struct tt__ran {
    double loss, norm; // of the first step
    tt__taken grads;   // after it
    tt__taken states;  // after the last
} tt__ran;

// Starts a job and makes its steps. On all ranks of the job.
tt_status tt__verify_run(tt_job *job, int64_t steps, tt_arena *arena,
                         tt__ran *ran_out);
// Every state as it is now.
tt_status tt__verify_take(tt_job *job, tt_arena *arena, tt__taken *out);
// Adds the copies of other ranks to what was taken. On all ranks.
tt_status tt__verify_copies(tt_job *job, tt_arena *arena, tt__taken *t);

// How far `a`, with all its copies, is from `b`, by the measure; both have the same
// tensors.
typedef struct tt__distance {
    double worst;
    int64_t at;           // which tensor; -1: all are equal
    int64_t first;        // the first beyond the tolerance; -1: none
    double first_rel;     // and by how much
    const tt__copy *copy; // of it; NULL: rank 0's
} tt__distance;
tt__distance tt__verify_compare(const tt__taken *a, const tt__taken *b,
                                double tolerance);
// Makes `a` equal to `b` wherever the gradient is below what the measure tells from
// zero: an optimiser that divides by its size turns its rounding into an update. With
// `exact` (low precisions; else NULL) where it is below a few times its usual error
// too.
void tt__verify_level(const tt__taken *grads, const tt__taken *exact,
                      tt__taken *a, const tt__taken *b);
bool tt__verify_equal(const tt__taken *a,
                      const tt__taken *b); // in every bit, with all copies
// Low precisions: how much further `a`, with all its copies, is from `exact` than
// `b` is, over all tensors.
double tt__verify_ratio(const tt__taken *a, const tt__taken *b,
                        const tt__taken *exact);
// The same per tensor, where the size of all errors is what one is measured against
// at least; distances are such ratios.
tt__distance tt__verify_low(const tt__taken *a, const tt__taken *b,
                            const tt__taken *exact, double most);
// Index of the element that is furthest off.
int64_t tt__verify_furthest(const double *a, const double *b, int64_t n);

// Whether each loads what the other saved, bit for bit. On all ranks of `many`.
tt_status tt__verify_checkpoint(const tt_verify_request *request, bool *ok_out);

#endif
