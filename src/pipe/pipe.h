// pipe - schedules of pipelines, as data.
//
// Problem: a model is cut into chunks of layers, which lie on ranks along the axis pipe.
// Each rank must know which piece of work comes next. The published schedules differ in
// nothing but that order. Idea: a schedule is a table, not code. A generator writes the
// table, one function checks it, another measures it; text, picture, executor and
// simulator read it, and a user can write one by hand.
//
//   def (1f1b, ...)  --tt_pipe_create-->  tt_pipe  --tt_pipe_check-->  may run
//   file             --tt_pipe_parse--->     |     --tt_pipe_measure--> seconds, bubble
//                                            |     --tt_pipe_print, tt_pipe_draw
//
// Words. A *chunk* is a virtual stage: a place in the chain of layers, 0 to n_chunks - 1;
// a rank may hold several. A *micro-batch* passes forward through all chunks, then its
// gradient comes back. A *slot* holds what the gradient needs of one micro-batch in one
// chunk: it is taken by the forward row and given back by the last gradient row. A
// *copy*: bidirectional schedules hold the model twice, in opposite directions; each
// micro-batch goes through one of the copies. A *step* is what ends with an update.
//
// Costs: a table has about 3 rows per chunk and micro-batch; all functions take time
// proportional to that. Page: docs/pipelines.md.
//
// A tt_pipe is immutable after tt_pipe_create or tt_pipe_parse.

#ifndef TT_PIPE_PIPE_H
#define TT_PIPE_PIPE_H

#include "base/arena.h"
#include "base/settings/opt.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_PIPE_RANKS_MAX = 1024,
    TT_PIPE_CHUNKS_MAX = 1 << 16, // of all copies
    TT_PIPE_MICRO_MAX = 1 << 20,  // in a table, all steps together
    TT_PIPE_COPIES_MAX = 2,
    TT_PIPE_WORK_MAX = 1 << 24, // chunks times micro-batches that a def fills
};

// A chunk's gradients are computed either together (backward) or apart: first that of
// the input, which the chunk before waits for, and some time later that of the weights.
typedef enum tt_pipe_phase {
    TT_PIPE_FORWARD,
    TT_PIPE_BACKWARD,
    TT_PIPE_INPUT_GRAD,
    TT_PIPE_WEIGHT_GRAD,
    TT_PIPE_UPDATE,
    TT_N_PIPE_PHASES,
} tt_pipe_phase;

// Which weights a row reads. Version v: the weights after v updates since the table
// began. A chunk has n_versions places for weights; version v lies in v % n_versions.
typedef enum tt_pipe_rule {
    TT_PIPE_FLUSH,  // those of its step: the pipe is empty at each update
    TT_PIPE_STASH,  // forward: the newest; gradients: those that forward read
    TT_PIPE_DOUBLE, // those before the step before: the update is one step late
    TT_PIPE_PREDICT, // the newest, carried `ahead` updates on by the momentum
    TT_N_PIPE_RULES,
} tt_pipe_rule;

typedef struct tt_pipe_row {
    tt_pipe_phase phase;
    int32_t chunk, copy;
    int32_t micro;   // counted over all steps; of an update: the step's last
    int32_t slot;    // of this chunk and copy; -1 for an update
    int32_t version; // of an update: the one that it reads; it makes the next
    int32_t ahead;   // TT_PIPE_PREDICT only
    // Of the rows with this phase, chunk and copy in this step: the first writes sums,
    // later ones add to them; after the last they are complete.
    bool is_first, is_last;
} tt_pipe_row;

typedef struct tt_pipe_rank {
    int32_t n, capacity;
    tt_pipe_row *row; // in running order
} tt_pipe_rank;

typedef struct tt_pipe {
    tt_arena *arena;
    const char *name;
    int32_t n_ranks;
    int32_t n_chunks; // of one copy
    int32_t n_copies;
    int32_t n_micro; // per step
    int32_t n_steps; // in the table
    tt_pipe_rule rule;
    // The order is decided at run time: a rank runs what has arrived, see
    // message_driven.c. No chunk has more than `bound` micro-batches in flight. The rows
    // are one such order. 0: the order is that of the rows.
    int32_t bound;
    // Per chunk, see tt_pipe_at: rank, places for weights, slots.
    int32_t *place, *n_versions, *n_slots;
    tt_pipe_rank *rank;
} tt_pipe;

// The index of a chunk of a copy in `place`, `n_versions` and `n_slots`.
static inline int32_t tt_pipe_at(const tt_pipe *p, int32_t copy, int32_t chunk)
{
    return copy * p->n_chunks + chunk;
}

// ---- generators ----------------------------------------------------------

typedef struct tt_pipe_shape {
    int32_t ranks;
    int32_t chunks; // per rank (and copy); 0 counts as 1
    int32_t micro;  // micro-batches per step
    int32_t steps;  // in the table; 0 counts as 1
} tt_pipe_shape;

// Seconds of one row by phase, the same for all chunks.
typedef struct tt_pipe_even {
    double forward, input_grad, weight_grad; // backward: the last two together
} tt_pipe_even;

typedef struct tt_pipe_def {
    const char *name, *doc, *paper;
    const tt_opt *options;
    int64_t params_bytes;
    tt_pipe_rule rule;
    int32_t n_copies;
    bool has_no_chunks; // one chunk per rank only
    // Says in a sentence why there is no such schedule; NULL: there always is.
    tt_status (*refuse)(const tt_pipe_shape *shape, const void *params);
    // Adds phase, chunk, copy and micro-batch of all rows; of one step if the rule is
    // TT_PIPE_FLUSH. May change place, n_versions and bound. The rest is filled in.
    tt_status (*fill)(tt_pipe *p, const tt_pipe_shape *shape,
                      const void *params);
    // What the papers say, for rows that take the same time in all chunks and
    // transfers that take none. Bubble: most seconds in which a rank waits between its
    // first row and its last. Slots: most micro-batches in flight on a rank, summed
    // over its chunks. Negative: there is no formula for this shape.
    double (*bubble)(const tt_pipe_shape *shape, const void *params,
                     const tt_pipe_even *seconds);
    int64_t (*slots)(const tt_pipe_shape *shape, const void *params,
                     int32_t rank);
} tt_pipe_def;

const tt_pipe_def *const *tt_pipe_all(int *n);
const tt_pipe_def *tt_pipe_find(const char *name); // NULL: unknown

// Makes a def's table. `options` as for tt_opt_parse ("slots=6"); NULL: defaults.
tt_status tt_pipe_create(const tt_pipe_def *def, const tt_pipe_shape *shape,
                         const char *options, tt_pipe **pipe_out);
void tt_pipe_destroy(tt_pipe *p); // NULL is fine

// The formulas of a def. Negative: there is none for this shape.
tt_status tt_pipe_bubble(const tt_pipe_def *def, const tt_pipe_shape *shape,
                         const char *options, const tt_pipe_even *seconds,
                         double *bubble_out);
tt_status tt_pipe_slots(const tt_pipe_def *def, const tt_pipe_shape *shape,
                        const char *options, int32_t rank, int64_t *slots_out);

// ---- what a table says ---------------------------------------------------

// Checks everything that a table promises: each piece of work is there once, after
// what it needs; flags, slots and versions are right; and ranks that send to each other
// never all wait. From each rank to each other there is room for `capacity` messages: a
// message lies there from the end of the row that made it to the start of the row that
// uses it, and a row without room for its message does not end. 0: no limit.
// TT_ERR_ARG names the first row that is wrong.
tt_status tt_pipe_check(const tt_pipe *p, int32_t capacity);

// The least capacity with which tt_pipe_check finds no deadlock.
tt_status tt_pipe_least_capacity(const tt_pipe *p, int32_t *capacity_out);

// The rank whose message a row needs, and the rank that its result is sent to; -1:
// none, or it is the row's own rank.
int32_t tt_pipe_source(const tt_pipe *p, const tt_pipe_row *row);
int32_t tt_pipe_target(const tt_pipe *p, const tt_pipe_row *row);

// Most updates of a rank that come between the weights that a micro-batch reads forward and
// the update that its gradient goes into; 0: none, the pipe is emptied before each.
int32_t tt_pipe_staleness(const tt_pipe *p, int32_t rank);

const char *tt_pipe_phase_name(tt_pipe_phase phase); // "input gradient"
const char *tt_pipe_rule_name(tt_pipe_rule rule);    // "stash"

#endif
