// carry - carries a schedule out with values, as the ranks of a job would, and looks
// whether the result is right. It knows nothing of src/pipe/check.c: no rules about
// orders, only slots, sums, weights and messages that hold what was last put there.

#ifndef TT_TESTS_PIPE_CARRY_H
#define TT_TESTS_PIPE_CARRY_H

#include "pipe/pipe.h"

// Whether all ranks come to their end with the right sums and weights. Ranks are
// asked in an order drawn with `seed`. When not, *why_out says what was seen.
bool tt_pipe_carry(const tt_pipe *p, int32_t capacity, uint64_t seed,
                   const char **why_out);

#endif
