// arrivals - who came when to the collectives of a run, summed up by name.

#ifndef TT_TRAIN_ARRIVALS_H
#define TT_TRAIN_ARRIVALS_H

#include "base/arena.h"
#include "base/status.h"
#include "train/ranks.h"

typedef struct tt_arrivals tt_arrivals; // one thread at a time

// One rank at one collective: ready for it, busy with it.
typedef struct tt_arrival {
    double ready, begun, ended;
} tt_arrival;

tt_status tt_arrivals_create(int32_t n_ranks, tt_arrivals **arrivals_out);
void tt_arrivals_destroy(tt_arrivals *arrivals); // NULL is fine

// One collective: at[r] is rank r's, all by one clock. The name is copied; those
// beyond a few thousand count as "others".
tt_status tt_arrivals_add(tt_arrivals *arrivals, const char *name,
                          const tt_arrival *at);

// Mean spread since the last call of this; NaN: no collective.
double tt_arrivals_recent(tt_arrivals *arrivals);

// Fills in what ranks.h says about arrivals: `row` has an entry per rank, the list of
// names lies in the arena.
tt_status tt_arrivals_sum(const tt_arrivals *arrivals, tt_arena *arena,
                          tt_rank_row *row, tt_ranks *ranks_out);

#endif
