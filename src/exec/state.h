// state - what the files of exec/ share; nobody else includes it.

#ifndef TT_EXEC_STATE_H
#define TT_EXEC_STATE_H

#include "exec/exec.h"

typedef struct tt__event {
    int32_t step, micro;
    double start, seconds;
} tt__event;

typedef struct tt__host_kernel { // converts between a value's form and dense
    tt_choice choice;
    void *scratch;
    bool is_ready;
} tt__host_kernel;

struct tt_exec {
    const tt_plan *plan;
    tt_backend *backend;
    tt_exec_options options;
    char *memory;
    bool is_shared;  // the memory is the wire's
    bool *is_in_air; // per flight
    tt_args *args;   // per step, addresses resolved
    void **address;
    tt__host_kernel *to_host, *from_host; // per value
    double *step_seconds;
    tt__event *event; // a ring
    int64_t n_events, events_capacity;
    tt_exec_stats stats;
    int64_t n_runs; // since creation: for messages
};

static inline char *tt__address(const tt_exec *exec, const tt_ref *ref)
{
    return ref->buffer < 0
               ? NULL
               : exec->memory + exec->plan->buffer[ref->buffer].offset +
                     ref->offset;
}

// Index of the first element of a step's outputs that is NaN or infinite, with
// the output's number; -1 when all are finite.
int64_t tt__find_not_finite(const tt_exec *exec, const tt_step *step,
                            int *output_out, bool *is_nan_out);

// air: begins and finishes the flights that the plan wants before step `s`; at the
// end of a segment only those are finished that end there.
tt_status tt__flights_begin(tt_exec *exec, int32_t s, int32_t micro);
tt_status tt__flights_finish(tt_exec *exec, int32_t s);

#endif
