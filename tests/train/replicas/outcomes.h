// outcomes - what settings lead to: the same on any number of ranks, and the same as other
// settings do.

#ifndef TT_TESTS_OUTCOMES_H
#define TT_TESTS_OUTCOMES_H

#include "base/arena.h"
#include "policy/policy.h"

#include <stdint.h>

enum { SETTINGS = 20 };

// Plain SGD in fp64: what is equal by mathematics is equal but for rounding.
#define USUAL                                                                  \
    "batch=8", "precision=fp64", "optim=sgd", "optim.clip=0", "optim.lr=0.1"
#define FOUR USUAL, "exchange.replicas=4"
#define EIGHT USUAL, "exchange.replicas=8"

// The settings of a policy and one of its samples, and more; in the arena.
void with_policy(const tt_policy_def *policy, const char *sample,
                 const char *const *more, tt_arena *arena,
                 const char *all[SETTINGS]);

// Every sample of every policy that is wanted; how many there were.
typedef bool policy_wanted_fn(const tt_policy_def *policy);
typedef void policy_fn(const tt_policy_def *policy, const char *sample,
                       tt_arena *arena);
int each_policy(policy_wanted_fn *is_wanted, policy_fn *check);

// Training with these settings (fp64) leaves the same states and loss on one rank and on
// the others that are named; 0 ends the list.
void check_ranks(const char *name, const char *const *more,
                 const int32_t *ranks, int64_t steps);

// Two settings leave the same in tensors that both have, with a suffix in their names.
void check_same(const char *const *a, const char *const *b, const char *suffix,
                int steps);

#endif
