// outcomes - what settings lead to: the same on any number of ranks, and the same as other
// settings do.

#ifndef TT_TESTS_OUTCOMES_H
#define TT_TESTS_OUTCOMES_H

#include <stdint.h>

enum { SETTINGS = 20 };

// Plain SGD in fp64: what is equal by mathematics is equal but for rounding.
#define USUAL                                                                  \
    "batch=8", "precision=fp64", "optim=sgd", "optim.clip=0", "optim.lr=0.1"
#define FOUR USUAL, "exchange.replicas=4"
#define EIGHT USUAL, "exchange.replicas=8"

// Training with these settings (fp64) leaves the same states and loss on one rank and on
// the others that are named; 0 ends the list.
void check_ranks(const char *name, const char *const *more,
                 const int32_t *ranks, int64_t steps);

// Two settings leave the same in tensors that both have, with a suffix in their names.
void check_same(const char *const *a, const char *const *b, const char *suffix,
                int steps);

#endif
