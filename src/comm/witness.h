// witness - a process beside a rank that another launcher started: when the rank is
// killed or crashes, the witness says which and where.
//
// MPI's launchers end all ranks when one dies, and say only that a process did. The
// witness is a child of the rank, forked before any thread. It sleeps, learns of the
// rank's end from a socket that closes, and ends with it. It is of the rank's process
// group, so a launcher that ends the rank ends the witness too, in silence.

#ifndef TT_COMM_WITNESS_H
#define TT_COMM_WITNESS_H

#include "comm/journal.h"
#include "comm/world.h"

typedef struct tt_witness tt_witness;

// Says it to the user; called in the witness's process.
typedef void tt_witness_fn(const char *text);

tt_status tt_witness_start(const tt_world *world, tt_witness_fn *say,
                           tt_witness **witness_out);

// Where the rank notes what it does, for the witness to tell.
tt_journal *tt_witness_journal(tt_witness *witness);

// The rank ends by itself, and has said why.
void tt_witness_stop(tt_witness *witness); // NULL is fine

#endif
