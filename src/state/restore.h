// restore - all states of a job from the two files of a checkpoint, whatever layout
// they were saved under: each rank reads what it holds.

#ifndef TT_STATE_RESTORE_H
#define TT_STATE_RESTORE_H

#include "state/slices.h"

typedef struct tt_restore {
    const tt_safetensors *model, *optim; // rank 0's; others: NULL
    const char *name;                    // what errors call them
    // NULL: all must be there with type and shape, and nothing besides, else nothing
    // changes. With notes (a fork under other settings) this holds for the model
    // only: optimiser states and averages that are not there stay as they are and
    // are named here, one sentence a line; an average that is not there starts as
    // its weight.
    tt_str *notes;
} tt_restore;

// Bit for bit, on all ranks. Where result_out->is_damaged, states are lost, and the
// message says what is damaged, not where.
tt_status tt_tensors_restore(tt_exec *exec, const tt_tensors *all,
                             const tt_restore *restore,
                             tt_slices_result *result_out);
// Whether that would do, but for the data: names, types and shapes. Of one process.
tt_status tt_tensors_check(const tt_tensors *all, const tt_restore *restore);

#endif
