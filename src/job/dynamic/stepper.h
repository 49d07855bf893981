// stepper - exchange.optimiser=worker: each worker makes the step of its own optimiser and
// pushes the change of its weights; the server adds the mean of changes. Files of job/ only.
//
//   worker   weights that it got -> gradient -> its optimiser -> change
//   server   weights += sum of (samples * change) / samples
//
// The optimiser runs where the gradient lies, in the executor that computed it. Its states are
// the worker's: they are written there before a step and read after it. With plain descent,
// and with momentum under bsp, that is the server's optimiser to rounding: both are linear.
//
// The cost: for each worker twice the states of the optimiser. Those before its last gradient
// are kept, since a checkpoint may come between computing and delivery.

#ifndef TT_JOB_DYNAMIC_STEPPER_H
#define TT_JOB_DYNAMIC_STEPPER_H

#include "job/dynamic/dynamic_math.h"

typedef struct tt__stepper tt__stepper;

bool tt__stepper_is(const tt_job *job);
tt_status tt__stepper_check(const tt_job *job, const tt_clock_def *clock);
// Opens d->stepper if workers have optimisers.
tt_status tt__stepper_open(tt_dynamic *d);
void tt__stepper_close(tt_dynamic *d);

// All local steps of a worker; its gradient is then samples * change.
tt_status tt__stepper_run(tt_dynamic *d, int32_t worker, tt__worker_feeding *f);

// As tt__coder_state.
int64_t tt__stepper_state_bytes(const tt_dynamic *d);
char *tt__stepper_state(const tt_dynamic *d, int32_t worker, bool is_before);

#endif
