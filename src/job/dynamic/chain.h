// chain - copies of the server's shards at the next ranks (exchange.chain). Files of job/ only.
//
// A rank that dies takes its shard of the weights and of the optimiser's states with it. With a
// chain of k each shard is held by k ranks: its own, the head, and the k - 1 next ones in the
// ring of ranks that keep weights (chain replication: van Renesse 2004; Li 2014).
//
//   k = 3             head      ->        ->     tail
//       shard 0      rank 0      rank 1      rank 2     workers push to the head;
//       shard 1      rank 1      rank 2      rank 3     the sum of an update is passed on;
//       shard 2      rank 2      rank 3      rank 0     the tail answers workers and gives
//       shard 3      rank 3      rank 0      rank 1     the model its shard
//
// So what a worker, an evaluation or a checkpoint has seen is at all k ranks. What is not:
// gradients that wait at the head for an update.
//
// What is passed on is the gradient of an update, summed, corrected and clipped by the head, and
// not the states that it makes: each holder runs the plan's update itself. That is the least to
// send, whatever the optimiser (adamw's states would be three times as much), and the least to
// write, since an update is already one run over the tensors that a rank wants, and copies are
// more of these. The arithmetic is deterministic, so copies have the same bits. That is not taken
// on trust: before somebody reads the model, ranks compare the hashes of all that they hold
// along the chain, and a difference ends the run.
//
//   bytes of an update   k - 1 times those of the weights and statistics, over all ranks
//   time                 the update k times, a message for each of k - 1 hops, two hops for an
//                        answer that had none; hashes of k shards when the model is read
//   memory of a copy     two vectors of its length, four with staleness=predict. Its states lie
//                        in the rank's executor, which has room for the whole model anyway

#ifndef TT_JOB_DYNAMIC_CHAIN_H
#define TT_JOB_DYNAMIC_CHAIN_H

#include "job/dynamic/dynamic.h"

typedef struct tt__shard_copy {
    int32_t head; // whose shard it is
    tt_vector_span span;
    void *now, *sum;      // as of the rank's own shard
    void *before, *ahead; // the same; or NULL
} tt__shard_copy;

typedef struct tt__copies {
    int32_t length; // ranks that hold a shard
    int32_t ring;   // ranks that keep weights
    tt__shard_copy *
        copy; // length - 1: of the rank before this one, of that before it, ...
} tt__copies;

// Ranks that are to hold each shard; 1: there are no copies.
int64_t tt__copies_length(const tt_job *job);
tt_status tt__copies_check(const tt_job *job);

tt_status tt__copies_open(tt_dynamic *d); // unless there are no copies
void tt__copies_close(tt_dynamic *d);

// The rank whose shard has a state: a weight, or the optimiser's of one; -1: none has.
int32_t tt__copies_head(const tt_dynamic *d, const tt_tensor *tensor);
// This rank's copy of the shard of `rank`; NULL: it has none.
tt__shard_copy *tt__copies_of(const tt_dynamic *d, int32_t rank);
// Who answers with the shard of `rank`.
int32_t tt__copies_tail(const tt_dynamic *d, int32_t rank);

// Weights before the next update are those of now; or, where copies have any, those of a
// whole vector.
void tt__copies_remember(tt_dynamic *d);
void tt__copies_load(tt_dynamic *d, void *before);
// Ranks that keep weights: the sum of an update goes to all holders of its shard.
tt_status tt__copies_pass(tt_dynamic *d);
// All ranks: refuses to go on where holders of a shard have other bits.
tt_status tt__copies_compare(tt_dynamic *d);

#endif
