// dynamic - a job whose workers go at their own pace: gradients and weights of the plan as
// vectors, and who carries what. Files of job/ only.
//
// The rules (who is next, what becomes an update, who goes on) are exchange/'s and are
// followed by every rank alike. This folder adds the numbers:
//
//   worker   weights that it fetched; their gradient, computed by an executor of its own
//   shard    a rank's part of the server's weights, in the job's executor, where the plan's
//            update is run; gradients that wait for an update
//
//   flat vector   [ weight 0 | weight 1 | ... | buffers ]     of 32 or 64 bits
//                 | shard of rank 0 | of rank 1 |             whole tensors
//
//   dynamic_open   layout, memory                dynamic_worker   gradients
//   dynamic_step   one step: follow the list     dynamic_server   updates
//   dynamic_state  the model, checkpoints        dynamic_post     messages
//   dynamic_wall   one step by the wall clock    dynamic_list     a recorded order
//   wall_rules     its order, updates, answers   wall_post        its letters
//   dynamic_check  refusals                      coder            gradients as codes
//   dynamic_did    for reports                   stepper          optimisers of workers
//   proxy          sums between workers and the server; wall_proxy
//   chain          copies of shards at the next ranks
//   crowd, hog     workers with weights of their own; or that share them without locks
//
// The same arithmetic runs wherever it is done: a run has the same bits on any number of ranks.

#ifndef TT_JOB_DYNAMIC_DYNAMIC_H
#define TT_JOB_DYNAMIC_DYNAMIC_H

#include "exchange/clock.h"
#include "exchange/drawn.h"
#include "exchange/tree.h"
#include "exchange/vector.h"
#include "job/dynamic/dynamic_check.h"
#include "job/dynamic/dynamic_post.h"
#include "job/workers.h"

// What travels with a gradient.
enum {
    TT_HEAD_LOSS,
    TT_HEAD_COUNT,
    TT_HEAD_CORRECT,
    TT_HEAD_SQUARES, // of the whole gradient
    TT_HEAD_REFUSED,
    TT_HEAD_BYTES, // that its shards get
    TT_HEAD_N,
};
typedef struct tt__push_head {
    double v[TT_HEAD_N];
} tt__push_head;

typedef struct tt__dynamic_part { // a tensor of the flat vector
    tt_tensor tensor, grad;       // of a buffer: no gradient
    bool is_buffer;
    int64_t at; // in elements
    int32_t owner;
} tt__dynamic_part;

typedef struct tt__dynamic_worker { // of this rank
    void *weights, *gradient;
    tt__push_head head;
    bool is_placed;   // the executor has the weights; `weights` only statistics
    bool is_computed; // gradient and head are of `number`
    int64_t number;   // of the gradient that it computes, from 0
    int64_t left_out; // micro-batches at its end that were not finished
} tt__dynamic_worker;

typedef struct tt_dynamic {
    tt_job *job;
    tt_arena *arena;
    const tt_ps_params *params;
    int32_t workers, per_rank; // of a rank that has workers
    int32_t first, n_own;      // workers of this one
    int32_t servers;           // the first ranks, that have no workers
    tt_vector_span all;
    int32_t n_parts;
    tt__dynamic_part *part;
    int64_t *bound; // ranks + 1: shards, in elements
    tt_exec *exec;  // computes gradients
    bool is_one;    // it is the job's: weights are updated where they are read
    char *room;     // what it keeps, if all ranks see that; or NULL
    bool *wanted;   // steps of the update of this rank's shard
    tt_server server;
    tt_drawn drawn;
    tt__dynamic_worker *own; // n_own of them
    // The shard's, of shard.n elements.
    tt_vector_span shard;
    void *now;                // weights
    void **slot;              // gradients that wait; NULL: not yet used
    void **lent;              // the same, at the worker: instead; or NULL
    tt__push_head *slot_head; // the same
    void **then;              // per worker: what it fetched; NULL: nobody asks
    void *before, *ahead; // weights before the last update; predicted; or NULL
    void *sum;            // room for that of an update
    void *total;         // where the sum of an update is; NULL: in the executor
    double norm;         // of the last update's mean gradient
    int64_t *n_refused;  // per worker
    double *up;          // the same: bytes that it has pushed
    double *tally;       // per delivery of a step, TT_HEAD_N each; and wishes
    int32_t n_delivered; // of this step
    int32_t *delivered;  // by whom
    tt_turn *turn;       // what it did for that; of drawn or measured times
    // The server's load in this start of the run: seconds in which it was busy, of all.
    double busy, seconds;
    int64_t n_updates;
    tt_job_feed_fn *feed; // of this step
    void *feed_user;
    double *rate;                // per worker: the rate of its local steps
    struct tt__copies *chain;    // copies of shards, or NULL
    double passed;               // bytes that were passed on to these
    tt_tree *tree;               // proxies, or NULL
    void *from_member;           // a gradient on its way to its proxy
    struct tt__coder *coder;     // of gradients, or NULL
    struct tt__stepper *stepper; // workers' optimisers, or NULL
    struct tt__crowd *crowd; // of workers with weights of their own, or NULL
    struct tt__hog *hog;     // of those that share them, or NULL
    // The wall clock's: workers are taken as they come; and the list that repeats one.
    bool is_live;
    struct tt__wall *wall;
    tt_comm *comm; // while a step runs
    tt_str record; // who delivered when, a line each
    struct tt__list_line *list;
    int64_t n_list, list_at; // lines; that of the gradient that is delivered
    void *x, *local, *mean;  // a dense tensor on its way; local steps' weights
    struct tt__federated *federated; // NULL: workers go at their own pace
} tt_dynamic;

static inline int64_t tt__element(const tt_dynamic *d)
{
    return d->all.is_wide ? 8 : 4;
}

static inline char *tt__element_at(const tt_dynamic *d, void *vector, int64_t i)
{
    return (char *)vector + i * tt__element(d);
}

static inline int32_t tt__worker_rank(const tt_dynamic *d, int32_t worker)
{
    return d->servers + worker / d->per_rank;
}

// The worker, if it is this rank's; else NULL.
static inline tt__dynamic_worker *tt__worker_own(const tt_dynamic *d,
                                                 int32_t worker)
{
    return tt__worker_rank(d, worker) == d->job->peers.rank
               ? &d->own[worker - d->first]
               : NULL;
}

static inline int64_t tt__shard_size(const tt_dynamic *d, int32_t rank)
{
    return d->bound[rank + 1] - d->bound[rank];
}

// Whether a rank hears of gradients: with shards all do, be theirs empty.
static inline bool tt__keeps_weights(const tt_dynamic *d, int32_t rank)
{
    if (d->servers > 0)
        return rank < d->servers;
    return d->params->server == TT_SERVER_SHARDED || rank == 0;
}

tt_status tt__dynamic_open(tt_job *job); // unless it is open
void tt__dynamic_close(tt_dynamic *d);   // NULL is fine
tt_status tt__dynamic_step(tt_job *job, tt_job_feed_fn *feed, void *user,
                           tt_step_result *result_out);

// worker: computes what is not computed yet.
tt_status tt__worker_compute(tt_dynamic *d, int32_t worker);
// One of this rank's that can, and whether there was one.
tt_status tt__worker_compute_any(tt_dynamic *d, bool *did_out);

// Notes a delivery of which the server says whether it is dropped.
void tt__dynamic_note(tt_dynamic *d, int32_t worker, bool is_dropped);
// Adds up what was delivered in a step; refused gradients are counted.
void tt__dynamic_add_up(tt_dynamic *d, tt_step_result *result);
// Refuses a gradient whose loss is above the job's limit: when it is delivered.
void tt__dynamic_judge(const tt_dynamic *d, double *head);

// list: reads the file that exchange.schedule names; who is next by it; tt__dynamic_judge, or its own word.
tt_status tt__list_open(tt_dynamic *d);
tt_status tt__list_next(tt_dynamic *d, int32_t *worker_out);
void tt__list_judge(const tt_dynamic *d, double *head);

// server: memory for a gradient that waits; one of `worker` comes to the shards; what is pending becomes an update;
// weights go to a worker.
tt_status tt__dynamic_room(tt_dynamic *d, int32_t slot);
tt_status tt__dynamic_take(tt_dynamic *d, int32_t worker, int32_t slot);
tt_status tt__dynamic_apply(tt_dynamic *d, double *change_out);
tt_status tt__dynamic_answer(tt_dynamic *d, int32_t worker);
// What this rank's shard gives a worker.
void *tt__dynamic_weights(tt_dynamic *d, int32_t worker);
// The shard's weights from the executor.
tt_status tt__dynamic_read(tt_dynamic *d);
// The update steps that the shards of this rank need.
tt_status tt__dynamic_steps(tt_dynamic *d);

#endif
