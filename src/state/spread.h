// spread - a snapshot of states that ranks share. Each rank copies its own parts, and
// rank 0's writer puts whole tensors together later, while steps run.
//
//   all ranks   tt_spread_begin: each copies its parts      training goes on
//               tt_spread_carry: after every step           moves a piece, if it must
//   writer      tt_spread_wait, then tt_spread_fetch of     in a thread of rank 0
//               every tensor
//
// So no rank waits for the bytes of another.

#ifndef TT_STATE_SPREAD_H
#define TT_STATE_SPREAD_H

#include "state/tensors.h"

typedef struct tt_spread tt_spread;

// Bytes that a rank needs. Where ranks see each other's memory (is_shared), rank 0
// needs room for its own parts and for one tensor; else for the parts of all.
int64_t tt_spread_bytes(const tt_graph *graph, const tt_tensors *all,
                        int32_t rank, bool is_shared);

// Called on all ranks, for tensors of which some are in parts. *spread_out is NULL on
// all of them if it would need more than `most` bytes on a rank, or there are not so
// many. A thread gets the memory ready meanwhile. The states of `exec` are copied.
tt_status tt_spread_open(tt_exec *exec, const tt_tensors *all, int64_t most,
                         tt_spread **spread_out);
// On rank 0 after the writer has ended. NULL is fine.
void tt_spread_close(tt_spread *spread);

// Called on all ranks, when rank 0's writer has ended with the last one, and all know.
// Messages, if there must be some, have `piece` bytes, or fewer: the same number on all
// ranks.
tt_status tt_spread_begin(tt_spread *spread, int64_t piece);

// Called on all ranks after every step: one more piece travels during the next step.
// Nothing where ranks see each other's memory, or all has arrived.
tt_status tt_spread_carry(tt_spread *spread);
// All that is left, now: before somebody waits for the writer.
tt_status tt_spread_finish(tt_spread *spread);

// For the thread that writes, on rank 0: waits until everything has been copied.
tt_status tt_spread_wait(tt_spread *spread);
// A whole tensor, until the next call; as tt_checkpoint_content.fetch.
tt_status tt_spread_fetch(tt_spread *spread, const char *name,
                          const void **data_out);
// Ranks have lost each other: tt_spread_wait fails instead of waiting. Parts that have
// arrived stay.
void tt_spread_give_up(tt_spread *spread);

// Bytes of a snapshot that must go through messages, and the seconds of one byte as
// measured on this rank (0: not yet).
int64_t tt_spread_to_carry(const tt_spread *spread);
double tt_spread_per_byte(const tt_spread *spread);

#endif
