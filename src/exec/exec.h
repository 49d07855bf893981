// exec - runs a plan on a device: one block of memory for everything, then steps
// that neither allocate nor look anything up.
//
// One thread at a time. Plan and backend must outlive it.

#ifndef TT_EXEC_EXEC_H
#define TT_EXEC_EXEC_H

#include "backend/backend.h"
#include "plan/plan.h"

typedef struct tt_exec tt_exec;

// When a flight was carried out (tt_clock_seconds).
typedef struct tt_flight_times {
    double begun, ended;
} tt_flight_times;

// How collectives are done. The executor knows no transport: it calls these functions,
// and exec/wire implements them over one. Tests implement `collective` alone. `in` and
// `out` are local operands.
typedef struct tt_wire {
    // One collective, done on return. May be NULL when there is begin().
    tt_status (*collective)(void *ctx, const tt_step *step,
                            const void *const *in, void *const *out);
    // Prepares for a plan, once, before anything of it runs. `args` has the addresses of
    // every step of every slot (args[slot * n_steps + step]), in the backend's memory, with
    // the newest weights; they never change. It returns what the others get. NULL: not needed.
    tt_status (*bind)(void *ctx, const tt_plan *plan, tt_backend *backend,
                      const tt_args *args, void **bound_out);
    void (*unbind)(void *ctx, void *bound); // the reverse; or NULL
    // Begins a flight, in the row `order` of the plan's order; finish() waits for it and
    // gets the same row. A flight may be under way once for each slot. NULL:
    // collective() does each member where its flight begins.
    tt_status (*begin)(void *ctx, void *bound, int32_t flight,
                       const tt_order *order);
    tt_status (*finish)(void *ctx, void *bound, int32_t flight,
                        const tt_order *order, tt_flight_times *times_out);
    // Whether a flight that was begun is over, and since when. Does not wait.
    bool (*is_over)(void *ctx, void *bound, int32_t flight,
                    const tt_order *order, double *since_out);
    // Waits until more flights are over than `*n_over_io`, and says how many. With -1 it
    // only says. NULL, and so is_over: flights are over when they have begun.
    tt_status (*wait_any)(void *ctx, int64_t *n_over_io);
    // Zeroed memory of the host that peers can read in place, for the plan's
    // shared_bytes; NULL: there is none, or not enough. It is not given back.
    void *(*alloc)(void *ctx, int64_t bytes);
    void *ctx;
} tt_wire;

typedef struct tt_exec_options {
    bool poison;       // fill memory with NaN first: see tt_exec_peak_used
    bool trace;        // keep the time of every step
    bool check_finite; // after every step: slow, names the first culprit
    bool wait;         // for a device after every step, so that the times of
                       // steps are the device's; `trace` does so too
    bool marks;        // times of steps are those between marks that a device
                       // keeps by itself, without waiting; others: no times
    bool span;         // only the time of whole runs, of a device that keeps it
    bool rows;         // keep the times of the order's rows: tt_exec_rows
    // For trials: seconds that each segment of the plan takes. What is left after
    // computing is slept, before messages leave. Borrowed; NULL: no sleep.
    const double *pace;
    const tt_wire *wire; // NULL: a plan with collectives is refused
    // On the host, without a wire: for the plan's persistent_bytes up to the next multiple
    // of 64, zeroed and so aligned. Borrowed; NULL: own memory.
    void *room;
} tt_exec_options;

tt_status tt_exec_create(const tt_plan *plan, tt_backend *backend,
                         const tt_exec_options *options, tt_exec **exec_out);
void tt_exec_destroy(tt_exec *exec); // NULL is fine
const tt_plan *tt_exec_plan(const tt_exec *exec);
// From now on as with the option `marks`; states stay what they are.
tt_status tt_exec_mark(tt_exec *exec);

// Sets every state to its initial value: a function of seed, name and global index.
tt_status tt_exec_init_state(tt_exec *exec, uint64_t seed);

// The local part of a value, dense, from and to the host. Values that do not
// outlive the step cannot be read: mark them as outputs.
tt_status tt_exec_write(tt_exec *exec, tt_val v, const void *data);
tt_status tt_exec_read(tt_exec *exec, tt_val v, void *data_out);
// Where it lies, if dense in the host's memory, to be read between runs; else NULL.
void *tt_exec_dense(const tt_exec *exec, tt_val v);

// The same in three parts, for a device that computes meanwhile. room() is memory for the
// next input (NULL: use write()). send() starts the copy and returns at once. take() makes
// it the value's content.
tt_status tt_exec_room(tt_exec *exec, tt_val v, void **room_out);
tt_status tt_exec_send(tt_exec *exec, tt_val v);
tt_status tt_exec_take(tt_exec *exec, tt_val v);

// States as they are now, dense, to memory of the host (best pinned, see
// backend/drain.h), while later steps run: between begin() and end() one call for each
// state. The memory holds them when wait() returns, which any thread may call; a device
// does not change a state before it was copied. On the host each is copied at once.
tt_status tt_exec_drain_begin(tt_exec *exec);
tt_status tt_exec_drain(tt_exec *exec, tt_val v, void *to);
tt_status tt_exec_drain_end(tt_exec *exec);
tt_status tt_exec_drain_wait(const tt_exec *exec);
tt_backend *tt_exec_backend(const tt_exec *exec);

// Copies a state, and restores it from that copy. Neither waits for the device.
tt_status tt_exec_save_value(tt_exec *exec, tt_val v);
tt_status tt_exec_restore_value(tt_exec *exec, tt_val v);
// The same for part i of n equal ones along its first dim.
tt_status tt_exec_restore_part(tt_exec *exec, tt_val v, int64_t i, int64_t n);

// One number, converted.
tt_status tt_exec_set_scalar(tt_exec *exec, const char *name, double value);
tt_status tt_exec_get_scalar(tt_exec *exec, tt_val v, double *value_out);
// Some, waited for once; 0 for those that are no value (TT_NONE).
enum { TT_EXEC_SCALARS = 16 };
tt_status tt_exec_get_scalars(tt_exec *exec, const tt_val *v, int n,
                              double *value_out);

// Writes the inputs of micro-batch `micro`; called before its forward segment.
typedef tt_status tt_feed_fn(void *user, tt_exec *exec, int32_t micro);

// One step. Usually that is the plan's order from beginning to end. An order of several
// steps (n_updates of the plan) is run from where the run before has ended to the end of
// this rank's next step, with micro-batches left on their way. `feed` may be NULL.
tt_status tt_exec_run(tt_exec *exec, tt_feed_fn *feed, void *user);

// So many steps, at most n_updates, from now on; then nothing is on its way any more.
// Nothing may be now. Without: the whole order.
tt_status tt_exec_stretch(tt_exec *exec, int32_t n_steps);

// Called before each row of an order of several steps, for what changes between them.
typedef tt_status tt_row_fn(void *user, tt_exec *exec, const tt_order *row);
void tt_exec_before_rows(tt_exec *exec, tt_row_fn *fn, void *user);

// A part of the order alone. The gradient's leaves sums of gradients and tallies in their
// values, which must be outputs; the update's takes them as they are then, read or written.
// `wanted` says of each step of the plan whether it is to run; NULL: all are.
typedef enum tt_exec_part {
    TT_RUN_ALL,
    TT_RUN_GRADIENT, // all but the update
    TT_RUN_UPDATE,
} tt_exec_part;
tt_status tt_exec_run_part(tt_exec *exec, tt_exec_part part, const bool *wanted,
                           tt_feed_fn *feed, void *user);

// Called before each step of the plan, by the thread that runs it; NULL: no more.
typedef tt_status tt_between_fn(void *user);
void tt_exec_between(tt_exec *exec, tt_between_fn *fn, void *user);

// A segment of a phase aside (graph/graph.h), between two steps.
tt_status tt_exec_run_aside(tt_exec *exec, tt_phase phase, int32_t stage);

typedef struct tt_exec_stats { // over all runs since creation or reset
    int64_t n_runs;
    double wall_seconds, kernel_seconds, feed_seconds;
    double wait_seconds; // for flights, and in collectives without a thread
    double overhead_fraction;    // of the wall time, outside of all these
    double flops;                // counted as the steps ran
    int64_t n_steps, n_replayed; // that had kernels; of these, not one by one
    // With `marks` or `span`: from the first step's beginning to the last one's end.
    // With `marks`: of that inside steps.
    double device_seconds, busy_seconds;
    // Encoding and decoding; bytes before, and of codes that are no packets.
    double coding_seconds, raw_bytes, added_bytes;
} tt_exec_stats;
void tt_exec_stats_get(const tt_exec *exec, tt_exec_stats *stats_out);
void tt_exec_stats_reset(tt_exec *exec);

// One row of the plan's order in the newest run (tt_clock_seconds).
typedef struct tt_row_time {
    double start, end;
    double waited; // of these: for messages of other stages
    double idle;   // for others in any way: in collectives too
    int32_t peer;  // for whose, mostly: a rank; -1: for none
} tt_row_time;
// Sums over runs since creation or reset, without the first where there are more.
typedef struct tt_row_sums {
    int64_t n_runs, n_steps;
    double bubble; // waiting for messages, from the first row to the update
    double span; // from the first row's message to the end of the last gradient
    double *computed;        // per row: the rest of its time
    double *waited;          // per rank: for its messages
    int64_t n_paced, n_late; // rows with a pace; that computed 5% longer
} tt_row_sums;
// NULL without `rows` or `pace`.
const tt_row_time *tt_exec_rows(const tt_exec *exec);
const tt_row_sums *tt_exec_row_sums(const tt_exec *exec);
// Seconds per step of the plan since then; a flight's waits count for its first member.
const double *tt_exec_step_seconds(const tt_exec *exec);

bool tt_exec_is_traced(const tt_exec *exec); // with `trace`
// The newest events as a Chrome trace; TT_ERR_STATE without `trace`.
tt_status tt_exec_trace_print(const tt_exec *exec, tt_str *out);

// Bytes up to the highest one that was changed; -1 without `poison`.
int64_t tt_exec_peak_used(const tt_exec *exec);

// A buffer after whose end a byte of none was changed; -1: none, or without `poison`.
int32_t tt_exec_overrun(const tt_exec *exec);

#endif
