// verify_parts - what the files of verify share. Internal.

#ifndef TT_VERIFY_VERIFY_PARTS_H
#define TT_VERIFY_VERIFY_PARTS_H

#include "verify/verify.h"

// A replica that should have the same bits as the first and has not.
typedef struct tt__copy {
    int64_t of;   // index of the tensor
    int32_t rank; // the lowest rank that holds a part of this replica
    double *data;
} tt__copy;

// Whole tensors as doubles: a job's gradients, or its states. Only rank 0 has data and
// copies; the other ranks just take part in the gathering.
typedef struct tt__taken {
    int64_t n;
    tt_tensor *tensor; // in the order in which they are compared
    double **data;     // each gathered from the first replica
    int64_t n_copies;
    tt__copy *copy; // only those that differ, sorted by `of`
} tt__taken;

typedef struct tt__ran {
    double loss, norm; // of the first step; see verify_take.c
    tt__taken grads;   // after it
    tt__taken states;  // after the last
} tt__ran;

// Starts a job, makes its steps and keeps the results, of gradients those of the first
// step or of the last. All ranks of the job call it.
typedef struct tt__verify_steps {
    int64_t n;
    bool sees_last;
} tt__verify_steps;
tt_status tt__verify_run(tt_job *job, const tt__verify_steps *steps,
                         tt_arena *arena, tt__ran *ran_out);
// Keeps every state as it is now.
tt_status tt__verify_take(tt_job *job, tt_arena *arena, tt__taken *out);
// Adds the replicas that differ from the first to what was taken. All ranks call it.
tt_status tt__verify_copies(tt_job *job, tt_arena *arena, tt__taken *t);

// How far `a`, with all its copies, is from `b` by the measure in verify.h. Both have
// the same tensors.
typedef struct tt__distance {
    double worst;
    int64_t at;           // the tensor with `worst`; -1: all are equal
    int64_t first;        // the first beyond the tolerance; -1: none
    double first_rel;     // and by how much
    const tt__copy *copy; // the replica that is off; NULL: the first
} tt__distance;
tt__distance tt__verify_compare(const tt__taken *a, const tt__taken *b,
                                double tolerance);
// Makes `a` equal to `b` in every element whose gradient the measure cannot tell from
// zero. There the update is made of rounding and says nothing (see verify.h). With
// `exact` (low precisions; else NULL) this includes gradients within a few times their
// usual error.
void tt__verify_level(const tt__taken *grads, const tt__taken *exact,
                      tt__taken *a, const tt__taken *b);
bool tt__verify_equal(const tt__taken *a,
                      const tt__taken *b); // bit for bit, and no copies differ
// Low precisions: how many times further from `exact` `a`, with its worst copies, is
// than `b`, over all tensors.
double tt__verify_ratio(const tt__taken *a, const tt__taken *b,
                        const tt__taken *exact);
// The same per tensor. The error of a single tensor counts as at least the average
// one, so that a tensor which happens to be nearly exact on one rank is not held
// against many.
tt__distance tt__verify_low(const tt__taken *a, const tt__taken *b,
                            const tt__taken *exact, double most);
// Index of the element with the largest difference.
int64_t tt__verify_furthest(const double *a, const double *b, int64_t n);

// Whether each job loads, bit for bit, what the other has saved. All ranks of `many`
// call it.
tt_status tt__verify_checkpoint(const tt_verify_request *request, bool *ok_out);

#endif
