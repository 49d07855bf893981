// crowd - workers with weights and an optimiser of their own: their vectors, and who has
// which. Files of job/dynamic/ only.
//
// The rules (exchange/peer.h) say of each delivery what is mixed with what. This adds the
// numbers: a worker's vectors lie at its rank, the centre and the model at rank 0. What is
// mixed with a vector of another rank travels there.
//
//   weights   [ weights | buffers | states of the optimiser ]   of a worker
//             |--- mixed ---------|
//
// The job's executor makes the steps of all workers of a rank: a worker's weights and states
// are written to it before and read after. A worker computes its gradient at a copy of its
// weights, so others may change them meanwhile.
//
//   crowd_open   memory       crowd_step   a delivery      crowd_state   model, checkpoints
//   crowd_wall, crowd_post    the wall clock

#ifndef TT_JOB_DYNAMIC_CROWD_H
#define TT_JOB_DYNAMIC_CROWD_H

#include "exchange/peer.h"
#include "job/dynamic/dynamic.h"

typedef struct tt__crowd {
    tt_peer_state rules;
    int32_t n_states;
    tt_tensor *state;           // of the optimiser, and moving averages
    tt_vector_span whole;       // weights, buffers and states
    void **v[TT_PEER_VECTORS];  // of this rank; by worker, box, or one
    int64_t n[TT_PEER_VECTORS]; // how many
    void *room;                 // for what comes
    double *count; // per worker of this rank: what its gradient is divided by
    double lr;     // of the step that is made next
    struct tt__crowd_wall *wall; // crowd_wall.h; NULL: ranks follow a list
} tt__crowd;

// Whether the job's workers have weights of their own.
bool tt__crowd_is(const tt_job *job);
tt_status tt__crowd_check(const tt_job *job);
// What the rest of this folder is told instead of a server's options.
const tt_ps_params *tt__crowd_params(const tt_job *job, tt_arena *arena);

tt_status tt__crowd_open(tt_dynamic *d);
void tt__crowd_close(tt_dynamic *d); // without: nothing

tt_status tt__crowd_deliver(tt_dynamic *d, int32_t worker);
// The same of a gradient that its rank has computed; others may have its head or NULL.
tt_status tt__crowd_follow(tt_dynamic *d, int32_t worker, const double *head);

// crowd_wall: by the wall clock; without: nothing.
tt_status tt__crowd_wall_open(tt_dynamic *d);
void tt__crowd_wall_close(tt_dynamic *d);
void tt__crowd_wall_resume(tt_dynamic *d);
tt_status tt__crowd_wall_step(tt_dynamic *d, tt_step_result *result_out);
// A vector from one rank to another, in a turn.
tt_status tt__crowd_post(tt_dynamic *d, const tt__post *post);

// After all ranks have heard of a step: the length of its last mean gradient.
double tt__crowd_norm(const tt_dynamic *d);
// A step of the worker's optimiser along its gradient, its `number`th from 1 on: `x` has
// its weights and states before and after.
tt_status tt__crowd_step(tt_dynamic *d, int32_t worker, int64_t number,
                         void *x);
// What the rules have listed, on so much of each vector.
tt_status tt__crowd_run(tt_dynamic *d, const tt_vector_span *span);

// The vector, if it is this rank's; else NULL. And whose it is.
void *tt__crowd_at(const tt_dynamic *d, tt_peer_place place);
int32_t tt__crowd_rank(const tt_dynamic *d, tt_peer_place place);

// The model's states in the executor of rank 0.
tt_status tt__crowd_model(tt_dynamic *d);
// What a checkpoint has besides what all jobs with workers have.
tt_status tt__crowd_save(tt_dynamic *d, tt_str *out);
tt_status tt__crowd_load(tt_dynamic *d, const char *bytes, int64_t n);

#endif
