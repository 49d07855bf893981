// plan - a graph lowered for one rank: segments of flat steps, buffers with
// offsets, and the order in which segments run. Immutable after lowering.
//
//   arena   [ shared | persistent | slots | scratch ]   all assigned here
//   peak  = these, scratch at its largest               known before anything runs
//
// Buffers that live within one segment are scratch; from the forward segment to
// the backward of the same micro-batch, slot; over steps, persistent. With one
// slot (no pipeline) slots and scratch are packed together by lifetime. With several,
// each is a copy of the same layout, slot_bytes after the one before: a micro-batch in
// flight has its own inputs, activations and messages.

#ifndef TT_PLAN_PLAN_H
#define TT_PLAN_PLAN_H

#include "base/arena.h"
#include "graph/graph.h"
#include "graph/site.h"
#include "plan/options.h"
#include "plan/order.h"
#include "plan/target.h"

typedef enum tt_buffer_class {
    TT_PERSISTENT,
    TT_SLOT,
    TT_SCRATCH,
    TT_N_BUFFER_CLASSES,
} tt_buffer_class;

// What the bytes are for: the rows of the memory table.
typedef enum tt_buffer_use {
    TT_USE_PARAM,
    TT_USE_GRAD,
    TT_USE_OPTIM,
    TT_USE_BUFFER, // model state, inputs, scalars, tallies
    TT_USE_ACTIVATION,
    TT_USE_SCRATCH, // kernels' own scratch memory, conversions
    TT_N_BUFFER_USES,
} tt_buffer_use;

typedef struct tt_buffer {
    const char *name;
    tt_buffer_class class_;
    tt_buffer_use use;
    int64_t bytes, offset;
    bool on_host; // then the offset is in the host's arena
    // Steps (in the one-micro-batch order) that touch it; last = n_steps: read
    // by the host afterwards.
    int32_t first, last;
} tt_buffer;

// An operand's place: buffer, byte offset inside it, form.
typedef struct tt_ref {
    int32_t buffer; // -1: absent
    int64_t offset;
    tt_operand operand;
} tt_ref;

typedef enum tt_accumulate {
    TT_WRITE,           // output 0 is overwritten
    TT_ADD_AFTER_FIRST, // written for micro-batch 0, added to afterwards
    TT_ADD,             // always added to
} tt_accumulate;

typedef struct tt_step {
    const char *name; // origin and operator, for traces and errors
    int32_t node;     // of the graph; -1 for conversions
    const tt_op_def *op;
    const void *params;
    tt_choice choice; // of a collective, which the wire does: no kernel
    int32_t n_in, n_out;
    const tt_ref *in, *out;
    int32_t scratch; // buffer or -1
    tt_accumulate accumulate;
    tt_phase phase; // of the node: a backward segment may hold weight gradients
    tt_cost cost;   // local
    int64_t moved_bytes; // of a collective: input 0 as it lies; else 0
    // Copies from and to the host that must be over after this step (offload.c), as a
    // list: `ends` is the first, `next_end` of a copy is the next; -1: none.
    int32_t ends, next_end;
    bool is_beside; // this step is such a copy: it runs while other steps do
} tt_step;

typedef struct tt_segment {
    const char *name; // "forward.0"
    tt_phase phase;
    int32_t stage;
    int32_t first, n; // steps
} tt_segment;

// Whether a step of the row's segment runs in that row: what belongs to the update, but
// stands in backward (early.c), runs when sums over micro-batches are complete.
static inline bool tt_step_runs(const tt_order *row, const tt_step *step)
{
    return row->is_last || step->phase != TT_UPDATE;
}

// Collectives that are carried out together while other steps run: begun before
// one step, over before another. Every collective step is a member of one flight
// and does nothing itself.
typedef struct tt_flight {
    const char *name;
    int32_t first, n;   // members: plan->member[first .. first + n)
    int32_t begin, end; // steps; end = n_steps: over when the run ends
    int32_t ready;      // from this step on it may begin
    bool is_last_only;  // of the update: begins in the last micro-batch
    bool is_joined;     // all-reduces side by side in memory: done as one
    // Of a joined flight that was cut into pieces: the bytes [from, to) of the row.
    // to = 0: the whole row. All pieces have the same members.
    int64_t from, to;
    int32_t piece; // its number
    bool
        is_open; // sends to a stage: over when its slot is used again, or at the end
    // Brings something from another stage, and is begun before its row (bound > 0).
    bool is_ahead;
    int32_t lands;  // the segment that waits for it, if that is another; else 0
    int32_t needed; // the first step of the next run that uses the result
    int64_t bytes;  // size of what is moved, counted once
} tt_flight;

typedef struct tt_plan {
    tt_arena *arena;
    const tt_graph *graph; // borrowed
    tt_target *target;     // borrowed; kernels of the steps belong to it
    int32_t rank;
    int32_t n_buffers, n_steps, n_segments;
    int32_t n_order, n_aside; // rows of a step; of segments aside, after them
    int32_t n_flights, n_members;
    tt_flight *flight; // in the order in which they begin
    int32_t *member;   // steps
    tt_flight_order flight_order;
    double *clock; // per step: work done before it; the same on all ranks
    tt_buffer *buffer;
    tt_step *step;
    tt_segment *segment;
    tt_order *order;
    tt_ref *home; // per graph value: where it lies after its producer (or -1)
    const tt_type **own_type; // per graph value, see own.h; or NULL
    bool *is_kept; // per graph value: the host may read it after a step
    int32_t n_micro, n_slots;
    int32_t bound; // of tt_lower_options: the rows have no order
    // Steps in the order, each with its update; 1: the pipe is empty at each.
    int32_t n_updates;
    int32_t n_places; // of weights, the newest counted too
    int32_t n_stashes;
    tt_stash *stash;
    int64_t stash_bytes; // of persistent_bytes
    int64_t
        bytes_by_use[TT_N_BUFFER_USES]; // persistent: sum; others: at the peak
    int64_t persistent_bytes;
    // The first bytes of the arena: what flights read, best in memory that peers
    // see. Sums of gradients lie in rows, whose gaps are summed too.
    int64_t shared_bytes;
    int64_t peak_bytes; // of the arena
    int64_t slot_bytes; // from one slot to the next; 0: there is one
    // A second arena, in the host's memory, for what is offloaded.
    int64_t host_bytes, host_slot_bytes;
    // Of one step: n_micro forward and backward, one update. Depth is the longest
    // path through one micro-batch and the update.
    tt_cost cost;
} tt_plan;

// Lowers a verified graph. Does not check that it fits: see tt_plan_check_fit.
// Graph and target must outlive the plan.
tt_status tt_plan_lower(const tt_graph *g, tt_target *target,
                        const tt_lower_options *options, tt_plan **plan_out);
void tt_plan_destroy(tt_plan *plan); // NULL is fine

// Checks everything a plan promises about memory; names the first offender.
tt_status tt_plan_verify(const tt_plan *plan);

// Orders the buckets: of those that are ready, the one with the smallest key goes first.
// Gives the step at which each flight begins, and all flights in that order. The result
// is the same on every rank if the keys are. Arrays have n_flights entries.
void tt_plan_schedule(const tt_plan *plan, const double *key,
                      int32_t *begin_out, int32_t *order_out);

// A hash of what is sent, in which layout and order. All ranks of a job must agree on it.
uint64_t tt_plan_flights_hash(const tt_plan *plan);

// The memory table and the sums; the step list too when `with_steps`.
void tt_plan_print(const tt_plan *plan, bool with_steps, tt_str *out);
void tt_plan_print_memory(const tt_plan *plan, tt_str *out);
uint64_t
tt_plan_hash(const tt_plan *plan); // of the text with steps; 0: no memory

// A changed setting and what the plan would need with it.
typedef struct tt_alternative {
    const char *text; // "batch=4 with accumulate=2"
    int64_t bytes;
} tt_alternative;

// TT_OK when the plan fits into `memory_bytes` (0: unknown, fits); else
// TT_ERR_NOMEM with the memory table and the alternatives that would fit, in their
// order; NULL: none were computed.
tt_status tt_plan_check_fit(const tt_plan *plan, int64_t memory_bytes,
                            const tt_alternative *alternatives, int n);

#endif
