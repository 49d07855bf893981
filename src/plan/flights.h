// flights - what the files that make flights share; nobody else includes it.
//
//   bucket     gradients that are reduced together, by the order of their nodes
//   move_steps steps move so that they wait for communication as late as they can
//   flight     from when to when each collective may travel, and with which others
//   prefetch   gathers of weights ahead of their use
//   slice      buckets in pieces, so that others need not wait long
//   schedule   which bucket goes first
//   driven     rows whose order is decided while they run
//
// All ranks must begin the same flights in the same order, so what decides (the
// order of nodes, sizes of whole values) does not depend on the rank.

#ifndef TT_PLAN_FLIGHTS_H
#define TT_PLAN_FLIGHTS_H

#include "plan/lower.h"

typedef struct tt__trip { // one collective
    int32_t node, step;
    int32_t at;         // position of the node that makes its input
    int64_t bytes;      // the same on every rank
    int32_t bucket;     // -1: none
    int32_t ready, due; // steps: may begin at, must be over before
    bool is_taken;      // is in a flight
} tt__trip;

typedef struct tt__bucket {
    int32_t first, n; // members: order[first .. first + n)
} tt__bucket;

typedef struct tt__trips {
    tt__lower *l;
    tt__trip *trip; // in the order of steps
    int32_t n;
    int32_t *order; // trips, bucket after bucket
    tt__bucket *bucket;
    int32_t n_buckets;
} tt__trips;

// The segment of a step, and the first step of a phase.
const tt_segment *tt__segment_of(const tt_plan *plan, int32_t step);
int32_t tt__first_step_of(const tt_plan *plan, tt_phase phase);

// The segment in which flights end that begin in segment s: s itself, unless this is an
// agreement of which the rest comes later (TT_LAND).
int32_t tt__landing_of(const tt_plan *plan, int32_t s);

// Whether two steps must keep their order: one writes what the other touches.
bool tt__steps_conflict(const tt_step *a, const tt_step *b);

// Whether the update of each chunk is a segment of its own: on a rank without stages, where
// rows say when updates come.
static inline bool tt__updates_apart(const tt__lower *l)
{
    return l->is_endless && tt_mesh_pipe(&l->g->mesh) < 0;
}

// Whether a step sends something away in a micro-batch: its flight is open.
bool tt__is_open(const tt_step *step);
// Whether a step is communication between stages. These have different steps, so what
// they say to each other in the update keeps the order of nodes.
bool tt__is_across_stages(const tt_graph *g, const tt_step *step);

tt_status tt__buckets_make(tt__trips *t);
// The size at which a bucket is full; `left` of `all` bytes of gradients are still to
// come.
int64_t tt__bucket_full(const tt__lower *l, bool is_first, int64_t all,
                        int64_t left);
// The same for gradients that are reduce-scattered in backward: smaller, so that whole
// gradients are freed early.
int64_t tt__scatter_full(const tt__lower *l, int64_t all);
// Whether a step reduce-scatters gradients before the update (ZeRO 2 and 3).
bool tt__is_scatter(const tt_step *step);
tt_status tt__steps_reorder(tt__trips *t);

// Adds a flight of `n` trips and marks them as taken. It is ready when the last of them
// is, and must be over when the first of them must.
tt_flight *tt__flight_add(tt__trips *t, const int32_t *trips, int32_t n);
tt_status tt__prefetch(tt__trips *t);
tt_status tt__flights_slice(tt__trips *t); // flights are sorted

// With options.bound, which flights are begun before their rows; refuses what must
// have an order.
tt_status tt__driven_mark(const tt__lower *l);

#endif
