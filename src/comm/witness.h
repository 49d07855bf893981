// witness - a child process of a rank that another launcher started. When the rank is
// killed or crashes, the witness tells the user which rank it was and where.
//
// MPI's launchers end all ranks when one dies, and say only that some process did. The
// witness is forked before any thread is started. It sleeps, learns of the rank's end
// from a socket that closes, speaks and exits. It is in the rank's process group, so a
// launcher that ends the rank also ends the witness, which then says nothing.

#ifndef TT_COMM_WITNESS_H
#define TT_COMM_WITNESS_H

#include "comm/journal.h"
#include "comm/world.h"

typedef struct tt_witness tt_witness;

// Says it to the user; called in the witness's process.
typedef void tt_witness_fn(void *user, const char *text);

tt_status tt_witness_start(const tt_world *world, tt_witness_fn *say,
                           void *user, tt_witness **witness_out);

// Where the rank notes what it does, for the witness to tell.
tt_journal *tt_witness_journal(tt_witness *witness);

// The rank ends by itself, and has said why.
void tt_witness_stop(tt_witness *witness); // NULL is fine

#endif
