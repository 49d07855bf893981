// schedule - the learning rate as a function of the step; see the header for the
// formulas.
//
// A schedule has no state. A resumed run, a rollback and a plot all compute the
// same rate from the step alone. What depends on the length of the run says so
// (needs_end), so that a run that is resumed with more steps knows whether its past
// would have been different.

#include "config/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

// The part of the steps after the warm-up that is done, from 0 to 1.
static double progress(int64_t done, int64_t all)
{
    if (all <= 0 || done >= all)
        return 1;
    return (double)done / (double)all;
}

static double constant(const tt_schedule *s, int64_t done, int64_t all)
{
    (void)s, (void)done, (void)all;
    return 1;
}

static double linear(const tt_schedule *s, int64_t done, int64_t all)
{
    return 1 - (1 - s->final) * progress(done, all);
}

static double cosine(const tt_schedule *s, int64_t done, int64_t all)
{
    const double height = 0.5 * (1 + cos(pi * progress(done, all)));
    return s->final + (1 - s->final) * height;
}

static double step(const tt_schedule *s, int64_t done, int64_t all)
{
    (void)all;
    const int64_t cuts = done / s->step_every;
    return pow(s->step_factor, (double)cuts);
}

static double rsqrt(const tt_schedule *s, int64_t done, int64_t all)
{
    (void)all;
    const double w = s->warmup > 1 ? (double)s->warmup : 1;
    return sqrt(w / (w + (double)done));
}

static double wsd(const tt_schedule *s, int64_t done, int64_t all)
{
    const int64_t tail = s->decay_steps < all ? s->decay_steps : all;
    const int64_t into = done - (all - tail);
    if (into <= 0)
        return 1;
    return 1 - (1 - s->final) * progress(into, tail);
}

static const struct {
    double (*factor)(const tt_schedule *s, int64_t done, int64_t all);
    bool needs_end;
} kinds[] = {
    [TT_SCHEDULE_CONSTANT] = {constant, false},
    [TT_SCHEDULE_LINEAR] = {linear, true},
    [TT_SCHEDULE_COSINE] = {cosine, true},
    [TT_SCHEDULE_STEP] = {step, false},
    [TT_SCHEDULE_RSQRT] = {rsqrt, false},
    [TT_SCHEDULE_WSD] = {wsd, true},
};

double tt_schedule_factor(const tt_schedule *schedule, int64_t step_index,
                          int64_t steps)
{
    const int64_t warmup = schedule->warmup;
    if (step_index < warmup)
        return (double)(step_index + 1) / (double)(warmup + 1);
    return kinds[schedule->kind].factor(schedule, step_index - warmup,
                                        steps - warmup);
}

bool tt_schedule_needs_end(const tt_schedule *schedule)
{
    return kinds[schedule->kind].needs_end;
}

const tt_opt tt_schedule_options[] = {
    {"schedule", "constant", "the learning rate over the run", TT_OPT_CHOICE,
     offsetof(tt_schedule, kind), "constant|linear|cosine|step|rsqrt|wsd"},
    {"warmup", "0", "steps in which the learning rate grows", TT_OPT_I64,
     offsetof(tt_schedule, warmup), NULL, 0, 9e15},
    {"final", "0", "part of lr that linear, cosine and wsd end with",
     TT_OPT_F64, offsetof(tt_schedule, final), NULL, 0, 1},
    {"step_every", "1000", "steps between two cuts of schedule step",
     TT_OPT_I64, offsetof(tt_schedule, step_every), NULL, 1, 9e15},
    {"step_factor", "0.1", "what schedule step multiplies lr by", TT_OPT_F64,
     offsetof(tt_schedule, step_factor), NULL, 0, 1},
    {"decay_steps", "1000", "length of the last part of schedule wsd",
     TT_OPT_I64, offsetof(tt_schedule, decay_steps), NULL, 1, 9e15},
    {0},
};
