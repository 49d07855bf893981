// replicas - see replicas.c. Placements of the results are the caller's business.

#ifndef TT_OPS_COMM_REPLICAS_H
#define TT_OPS_COMM_REPLICAS_H

#include "graph/build.h"

#define TT_REPLICA                                                             \
    "replica" // the first dim of what all replicas have of their own

#define TT_GROUP "group" // a dim before it: groups of replicas. And a mesh axis

typedef struct tt_own_params {
    int64_t drop; // dims at the front that are left out
} tt_own_params;

typedef struct tt_stack_params {
    const char *dims; // at the front, as a shape: "replica:4"
} tt_stack_params;

typedef struct tt_replica_seed_params {
    int64_t replicas; // 0: the same seed for all
    int64_t salt;     // another one for each tensor
} tt_replica_seed_params;

typedef struct tt_replica_number_params {
    const char *values; // "0.5,0.25": one for each replica
} tt_replica_number_params;

tt_val tt_own(tt_builder *b, tt_val x, int64_t drop);
tt_val tt_stack(tt_builder *b, tt_val x, const char *dims);
tt_val tt_replica_seed(tt_builder *b, tt_val seed,
                       const tt_replica_seed_params *params);
// Numbers of the replicas, of the dtype of `like`.
tt_val tt_replica_number(tt_builder *b, tt_val like, const char *values);
// Number i of the text; the number of them.
double tt_replica_number_at(const char *values, int64_t i);
int64_t tt_replica_number_count(const char *values);

// Seed i of those that are made of one seed and a salt: 52 bits, which every number type
// that a scalar may pass through can hold.
static inline int64_t tt_replica_seed_of(int64_t seed, int64_t salt, int64_t i)
{
    uint64_t h = (uint64_t)seed + 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
    h ^= (uint64_t)salt * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((h ^ h >> 31) >> 12);
}

#endif
