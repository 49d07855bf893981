// trace_merge - what several ranks did, as one Chrome trace (Perfetto,
// chrome://tracing): a process per rank with the rows steps, stages, compute
// and network.
//
//   tt_trace_begin, tt_trace_add of every rank (made where its events are, sent as
//   text), tt_trace_end

#ifndef TT_EXEC_TRACE_MERGE_H
#define TT_EXEC_TRACE_MERGE_H

#include "exec/wire/wire.h"

typedef struct tt_trace_mark { // something that the host did
    const char *what;          // "step", "evaluate"
    int64_t number;            // of the step
    double start, end;         // tt_clock_seconds
} tt_trace_mark;

typedef struct tt_trace_part {
    int32_t rank;
    const char *host;
    const tt_exec *exec;   // with `trace`
    const tt_exec *worker; // computes gradients beside it; NULL: exec does
    const tt_wire_event *flight; // oldest first
    int64_t n_flights;
    const tt_trace_mark *mark;
    int64_t n_marks;
    double zero;        // when the common clock showed 0, by this rank's
    int64_t max_events; // that many at most, the newest
} tt_trace_part;

void tt_trace_begin(tt_str *out);
void tt_trace_add(const tt_trace_part *part, tt_str *out);
void tt_trace_next(tt_str *out); // between two parts
void tt_trace_end(tt_str *out);

#endif
