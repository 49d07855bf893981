// state - what the files of exec/ share; nobody else includes it.

#ifndef TT_EXEC_STATE_H
#define TT_EXEC_STATE_H

#include "exec/driven.h"

// What a trace shows: a step; a flight, under its first member's; or the wait for it.
typedef struct tt__event {
    int32_t step, micro;
    double start, seconds;
    int32_t flight; // -1: none
    bool is_wait;
} tt__event;

typedef struct tt__host_kernel { // converts between a value's form and dense
    tt_choice choice;
    void *scratch;
    void *dense; // in the backend's memory where that is not the host's
    bool is_ready;
} tt__host_kernel;

// Flights of the run, as arrays over flights and over steps (flights.c).
typedef struct tt__exec_flights {
    const tt_order **begun; // in this row of the order; NULL: is not under way
    int32_t *begin, *order; // when; in which order
    int32_t *by_end;        // flights in the order of their ends
    // [first_begin[s], first_begin[s + 1]) of `order` begin before step s; so `by_end`.
    int32_t *first_begin, *first_end;
    double *key; // by magnitude: minus the squares of the results
    void *copy;  // a device's result, to be weighed here; NULL: not needed
} tt__exec_flights;

// Rows of the order, as they were timed (rows.c); all NULL: they are not.
typedef struct tt__row_state {
    tt_row_time *time; // of the newest run
    tt_row_sums sums;
    int64_t n_runs; // of the order, from beginning to end
    int32_t *peer;  // per flight: the rank at the other end; -1: several
    double *tail;   // per segment: seconds from its first message to its end
    double sent;    // when this row's first message left; 0: not yet
    double longest; // wait of this row
} tt__row_state;

// Consecutive steps that a device can replay (replay.c): all that changes between runs
// is in its memory. Micro-batches differ only in their slot and in whether they add.
typedef struct tt__piece_take {
    int32_t n_runs;
    void *recording; // NULL: not yet
} tt__piece_take;
typedef struct tt__recording {
    int32_t first, end;
    bool differs;         // the first micro-batch differs from the others
    bool is_direct;       // could not be recorded
    tt__piece_take *take; // two for each slot and place of weights
} tt__recording;

struct tt_exec {
    const tt_plan *plan;
    tt_backend *backend;
    tt_exec_options options;
    void *bound;   // the wire's side of the plan
    bool is_bound; // the wire wants to know of the end
    // The arena: its first shared_bytes are the wire's, the rest lies apart.
    char *shared, *memory;
    int64_t shared_bytes;
    char *on_host; // the arena of what is offloaded; NULL: nothing is
    tt__exec_flights flights;
    tt_args *args; // per place of weights, slot and step, addresses resolved
    void **address;
    tt__host_kernel *to_host, *from_host; // per value
    void **lane, **kept; // per value, see lane.c, rollback.c; NULL: none yet
    void *scalars;   // on the device, on their way to the host; NULL: none yet
    bool *is_early;  // per buffer, while states are drained; see drain.c
    bool is_held_up; // what writes states comes after what is drained
    double *step_seconds;
    struct tt__coding *coding; // coding.c
    tt__event *event;          // a ring
    int64_t n_events, events_capacity;
    tt_exec_stats stats;
    int64_t n_runs;        // since creation: for messages
    const tt_order *order; // the plan's, or that of `driven`
    tt__driven driven;
    const tt_order *row; // that runs; NULL: none does
    int32_t next;        // row of the order
    int32_t until;       // micro-batches that it has; 0: all of the order
    tt_row_fn *before_row;
    tt_between_fn *between;
    void *before_user, *between_user;
    tt_exec_part part;  // that runs
    const bool *wanted; // steps of it; NULL: all
    int32_t n_micros;   // exec/limit.h
    int32_t *marked;    // the step of each pair of marks; NULL: none are made
    int64_t n_marked;
    tt__row_state rows;
    tt__recording *piece; // in the order of their steps
    tt__piece_take *take; // of all pieces
    int32_t n_pieces;
};

static inline char *tt__at(const tt_exec *exec, int64_t offset)
{
    return offset < exec->shared_bytes
               ? exec->shared + offset
               : exec->memory + (offset - exec->shared_bytes);
}

// The arguments of a step's kernel in the row that runs.
static inline tt_args *tt__args_of(const tt_exec *exec, int32_t s)
{
    const tt_plan *plan = exec->plan;
    const bool is_update = plan->segment[exec->row->segment].phase == TT_UPDATE;
    const int64_t place = is_update ? 0 : exec->row->place;
    return &exec->args[(place * plan->n_slots + exec->row->slot) *
                           plan->n_steps +
                       s];
}

// Of the row that runs, or of the first slot.
static inline char *tt__address(const tt_exec *exec, const tt_ref *ref)
{
    if (ref->buffer < 0)
        return NULL;
    const tt_buffer *b = &exec->plan->buffer[ref->buffer];
    const int32_t slot =
        b->class_ == TT_SLOT && exec->row != NULL ? exec->row->slot : 0;
    const int64_t offset = b->offset + ref->offset +
                           slot * (b->on_host ? exec->plan->host_slot_bytes
                                              : exec->plan->slot_bytes);
    return b->on_host ? exec->on_host + offset : tt__at(exec, offset);
}

// host: where dense data of a value are written, and what makes its form of them.
tt_status tt__host_target(tt_exec *exec, tt_val v, void **to_out);
tt_status tt__host_convert(tt_exec *exec, tt_val v);

bool tt__is_offloaded(const tt_exec *exec, tt_val v); // to the host's memory

tt_status tt__drain_hold(tt_exec *exec); // before anything writes states
// What a value is read from: its dense form in the backend's memory.
tt_status tt__host_source(tt_exec *exec, tt_val v, const void **from_out);

void tt__lanes_fini(tt_exec *exec);
void tt__saved_values_fini(tt_exec *exec);

// poison: fills all memory with NaN and puts guards after buffers.
tt_status tt__poison(tt_exec *exec);
int64_t
tt__guard_bytes(const tt_exec *exec); // after the last; 0 without poison

// Finds the first element of a step's outputs that is NaN or infinite.
typedef struct tt__culprit {
    int64_t index; // -1: all are finite
    int output;
    bool is_nan;
} tt__culprit;
tt_status tt__find_not_finite(const tt_exec *exec, const tt_step *step,
                              tt__culprit *culprit_out);

// marks: when a device began and ended each step, if that is wanted.
tt_status tt__marks_init(tt_exec *exec);
tt_status tt__mark(tt_exec *exec, int32_t step, bool is_end);
tt_status tt__mark_run(tt_exec *exec, bool is_end); // if only that is wanted
tt_status tt__marks_read(tt_exec *exec); // adds to the times of steps

// replay: pieces are recorded the second time they run (the first time, libraries still
// get memory and load kernels) and replayed from then on.
tt_status tt__replay_init(tt_exec *exec); // after flights
void tt__replay_fini(tt_exec *exec);
tt__recording *tt__recording_at(const tt_exec *exec,
                                int32_t step); // NULL: none begins
tt_status tt__recording_run(tt_exec *exec, tt__recording *piece);

// Steps [first, end), one by one, for the row that runs.
tt_status tt__run_steps(tt_exec *exec, int32_t first, int32_t end);

// Keeps an event, if the run is traced.
void tt__trace_record(tt_exec *exec, const tt__event *event);

// Fails when a step's results are not finite, if that is to be checked.
tt_status tt__check_finite(const tt_exec *exec, const tt_step *step,
                           int32_t micro);

// flights: those that begin before step `s` are begun; those that must be
// over before it are waited for.
tt_status tt__exec_flights_init(tt_exec *exec);
void tt__exec_flights_fini(tt_exec *exec);
void tt__exec_flights_order(tt_exec *exec); // before a run
tt_status tt__exec_flights_begin(tt_exec *exec, int32_t s,
                                 const tt_order *order);
tt_status tt__exec_flights_finish(tt_exec *exec, int32_t s);
// A flight that is_ahead is begun for a row that will run; whether it has come, and when.
tt_status tt__exec_flight_expect(tt_exec *exec, int32_t f,
                                 const tt_order *order);
bool tt__exec_flight_came(const tt_exec *exec, int32_t f, const tt_order *order,
                          double *since_out);
// Waits until all that was sent from a slot is gone: it will be written again.
tt_status tt__exec_slot_clear(tt_exec *exec, int32_t slot);

#endif
