// driven - which row runs next: the next of the plan's order, or one whose messages have
// come. Nobody but the files of exec/ includes it.

#ifndef TT_EXEC_DRIVEN_H
#define TT_EXEC_DRIVEN_H

#include "exec/exec.h"

// Rows that run as their messages come (driven.c); all NULL: they have an order.
typedef struct tt__driven {
    tt_order *order;        // the plan's rows, with what was decided
    int32_t *after;         // per row: the next of its micro-batch; -1: none
    int32_t *first_row;     // per micro-batch
    int32_t *next;          // per slot: the row that comes next; -1: it is free
    int32_t *n_rows, *left; // per segment: all, and those that have not run
    // [first_flight[s], first_flight[s + 1]) of `flight` come before segment s.
    int32_t *flight, *first_flight;
    int32_t n_started;  // micro-batches that have got a slot
    double waited;      // before the row that runs
    int32_t waited_for; // its flight
} tt__driven;

// A run begins; the row that runs next, and that it is over. Without a bound the
// rows are in the plan's order.
tt_status tt__driven_init(tt_exec *exec);
void tt__driven_fini(tt_exec *exec);
tt_status tt__driven_begin(tt_exec *exec);
tt_status tt__driven_next(tt_exec *exec, int32_t i, const tt_order **row_out);
tt_status tt__driven_ended(tt_exec *exec);

#endif
