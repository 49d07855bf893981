// judge - what to do about NaN, spikes and overflow; see judge.h for the rules.
//
// The limit for a step is computed before the step, and the update itself is
// guarded by it (tt_job.guard). So a bad step changes no weight, and "skip" costs
// nothing: no copy of the weights is needed to undo it.
//
// Skips and rollbacks are limited (in a row), because a model that has diverged
// would otherwise burn time for ever. Each rollback goes no further back than the
// one before: `anchor` is where the last one went, `furthest` the step that went
// wrong. Passing that step counts as success.

#include "train/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double tt_judge_limit(const tt_judge *judge, const tt_train_options *options)
{
    double sum = 0, squares = 0;
    if (options->spike == TT_SPIKE_NONE || judge->n < TT_JUDGE_LEAST)
        return (double)INFINITY;
    for (int64_t i = 0; i < judge->n; i++)
        sum += judge->window[i];
    const double mean = sum / (double)judge->n;
    for (int64_t i = 0; i < judge->n; i++)
        squares += (judge->window[i] - mean) * (judge->window[i] - mean);
    // The lower bound on the deviation: if losses hardly differ, every small change
    // would be a spike.
    const double deviation =
        fmax(sqrt(squares / (double)judge->n), 1e-3 * fabs(mean));
    return mean + options->spike_sigma * deviation;
}

static void push(tt_judge *judge, double loss)
{
    if (!isfinite(loss)) // of a replica that left this step out
        return;
    if (judge->n == TT_JUDGE_WINDOW) {
        memmove(judge->window, judge->window + 1,
                sizeof judge->window - sizeof judge->window[0]);
        judge->n--;
    }
    judge->window[judge->n++] = loss;
}

static tt_verdict give_up(const char *what, int n, char why[256])
{
    char last[160];
    snprintf(last, sizeof last, "%.159s", why);
    snprintf(why, 256, "%s, and %d %s in a row did not help", last, n, what);
    return TT_VERDICT_STOP;
}

static tt_verdict skip(tt_judge *judge, char why[256])
{
    if (judge->skips_in_row == TT_JUDGE_SKIPS)
        return give_up("skipped steps", TT_JUDGE_SKIPS, why);
    judge->skips++;
    judge->skips_in_row++;
    return TT_VERDICT_SKIP;
}

static tt_verdict roll_back(const tt_judge *judge, char why[256])
{
    return judge->rollbacks_in_row == TT_JUDGE_ROLLBACKS
               ? give_up("rollbacks", TT_JUDGE_ROLLBACKS, why)
               : TT_VERDICT_ROLLBACK;
}

static tt_verdict judge_nan(tt_judge *judge, const tt_train_options *options,
                            const tt_judge_step *step, char why[256])
{
    if (step->n_bad > 0 && isfinite(step->loss))
        snprintf(why, 256,
                 "%.0f of %.0f steps of single replicas until step %lld had a "
                 "loss or gradient that is not finite",
                 step->n_bad, step->n_single, (long long)step->step);
    else
        snprintf(why, 256, "the %s is not finite in step %lld",
                 isfinite(step->loss) ? "gradient" : "loss",
                 (long long)step->step);
    if (options->nan == TT_NAN_STOP)
        return TT_VERDICT_STOP;
    return options->nan == TT_NAN_SKIP ? skip(judge, why)
                                       : roll_back(judge, why);
}

// What the window is about.
static double loss_of(const tt_judge_step *step)
{
    return step->n_single > 0 ? step->single : step->loss;
}

// A replica that skipped a step alone is no reason to skip more.
static bool is_bad(const tt_train_options *options, const tt_judge_step *step)
{
    const bool is_finite = isfinite(step->loss) && isfinite(step->norm);
    return step->n_bad > 0 ? options->nan != TT_NAN_SKIP || !is_finite
                           : step->n_spikes == 0 && !is_finite;
}

static bool is_spike(const tt_train_options *options, const tt_judge_step *step)
{
    if (step->n_single > 0)
        return step->n_spikes > 0 &&
               (options->spike == TT_SPIKE_ROLLBACK || !isfinite(step->loss));
    return step->loss > step->limit;
}

// The loss of a spike goes into the window too. If losses have really risen to a
// new level, the limit follows, and training is not skipped for ever.
static tt_verdict judge_spike(tt_judge *judge, const tt_train_options *options,
                              const tt_judge_step *step, char why[256])
{
    if (step->n_single > 0)
        snprintf(why, 256,
                 "%.0f of %.0f steps of single replicas until step %lld had a "
                 "loss above %.4g",
                 step->n_spikes, step->n_single, (long long)step->step,
                 step->limit);
    else
        snprintf(why, 256, "the loss of step %lld, %.4g, is above %.4g",
                 (long long)step->step, step->loss, step->limit);
    push(judge, loss_of(step));
    return options->spike == TT_SPIKE_SKIP ? skip(judge, why)
                                           : roll_back(judge, why);
}

// An overflow of fp16 is no fault of the data. The step was skipped and the loss
// scale is lower now, so the next gradients fit.
static tt_verdict judge_overflow(tt_judge *judge, const tt_judge_step *step,
                                 char why[256])
{
    snprintf(why, 256,
             "the gradient of step %lld is beyond fp16, the loss scale is now "
             "%.10g",
             (long long)step->step, step->loss_scale);
    return skip(judge, why);
}

tt_verdict tt_judge_verdict(tt_judge *judge, const tt_train_options *options,
                            const tt_judge_step *step, char why[256])
{
    if (step->loss_scale > 0 && isfinite(step->loss) && !isfinite(step->norm))
        return judge_overflow(judge, step, why);
    if (is_bad(options, step))
        return judge_nan(judge, options, step, why);
    if (options->spike != TT_SPIKE_NONE && is_spike(options, step))
        return judge_spike(judge, options, step, why);
    if (options->spike != TT_SPIKE_NONE)
        push(judge, loss_of(step));
    judge->skips_in_row = 0;
    if (step->step > judge->furthest)
        judge->rollbacks_in_row = 0;
    return TT_VERDICT_GOOD;
}

// The restored state has the counters of an older step. Those of the bad step are
// kept, or the limit of rollbacks in a row would never be reached.
void tt_judge_rolled_back(tt_judge *judge, const tt_judge *before,
                          int64_t bad_step, int64_t step)
{
    judge->skips = before->skips;
    judge->rollbacks = before->rollbacks + 1;
    judge->rollbacks_in_row = before->rollbacks_in_row + 1;
    judge->furthest = bad_step > before->furthest ? bad_step : before->furthest;
    judge->anchor = step;
}

void tt_judge_print(const tt_judge *judge, tt_json *json, const char *key)
{
    tt_json_open(json, key, '{');
    tt_json_i64(json, "skips", judge->skips);
    tt_json_i64(json, "skips_in_row", judge->skips_in_row);
    tt_json_i64(json, "rollbacks", judge->rollbacks);
    tt_json_i64(json, "rollbacks_in_row", judge->rollbacks_in_row);
    tt_json_i64(json, "furthest", judge->furthest);
    tt_json_i64(json, "anchor", judge->anchor);
    tt_json_open(json, "losses", '[');
    for (int64_t i = 0; i < judge->n; i++)
        tt_json_f64(json, NULL, judge->window[i]);
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

static int64_t count_at(const tt_json_value *value, const char *key)
{
    return tt_json_int(tt_json_get(value, key), 0);
}

void tt_judge_read(const tt_json_value *value, tt_judge *judge_out)
{
    tt_judge judge = {
        .skips = count_at(value, "skips"),
        .skips_in_row = count_at(value, "skips_in_row"),
        .rollbacks = count_at(value, "rollbacks"),
        .rollbacks_in_row = count_at(value, "rollbacks_in_row"),
        .furthest = count_at(value, "furthest"),
        .anchor = count_at(value, "anchor"),
    };
    const tt_json_value *losses = tt_json_get(value, "losses");
    if (losses != NULL && losses->type == TT_JSON_ARRAY)
        for (const tt_json_value *v = losses->first; v != NULL; v = v->next)
            push(&judge, tt_json_number(v, 0));
    *judge_out = judge;
}
