// schedule - the learning rate as a pure function of the step.
//
// Every schedule begins with `warmup` steps in which the factor grows linearly, from
// 1 / (warmup + 1) in step 0; then, with t steps done after it and n in all:
//
//   constant   1
//   linear     from 1 to `final`, in a straight line
//   cosine     from 1 to `final`, along half a cosine
//   step       step_factor ^ floor(t / step_every)
//   rsqrt      sqrt(w / (w + t)), w = max(warmup, 1)
//   wsd        1, and over the last decay_steps linearly to `final`
//
// linear, cosine and wsd reach `final` at the end of the last step and stay there.

#ifndef TT_CONFIG_SCHEDULE_H
#define TT_CONFIG_SCHEDULE_H

#include "base/settings/opt.h"

#include <stdbool.h>
#include <stdint.h>

// optim.schedule and what it takes.
typedef struct tt_schedule {
    int kind; // tt_schedule_kind
    int64_t warmup, step_every, decay_steps;
    double final, step_factor;
} tt_schedule;
extern const tt_opt tt_schedule_options[];

typedef enum tt_schedule_kind {
    TT_SCHEDULE_CONSTANT,
    TT_SCHEDULE_LINEAR,
    TT_SCHEDULE_COSINE,
    TT_SCHEDULE_STEP,
    TT_SCHEDULE_RSQRT,
    TT_SCHEDULE_WSD,
} tt_schedule_kind;

// What the learning rate is multiplied by in the step that `step` others precede,
// in a run of `steps`.
double tt_schedule_factor(const tt_schedule *schedule, int64_t step,
                          int64_t steps);

// Whether another number of steps would change any of them.
bool tt_schedule_needs_end(const tt_schedule *schedule);

#endif
