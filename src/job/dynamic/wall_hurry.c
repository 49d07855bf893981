// wall_hurry - stragglers by the wall clock: exchange.clock=absp.
//
// The problem. Under bsp all wait for the slowest gradient, though most of it may be done.
//
// The idea. A gradient is a sum over micro-batches. When enough workers have delivered, rank 0
// says so, and the others push the sum of what they have finished.
//
//   worker 0   | 0 | 1 | 2 | 3 | push           HURRY: gradients up to number k
//   worker 1   | 0 | 1 | 2 | 3 | push --> rank 0 --> all
//   worker 2   |     0     |     1     | push: without 2 and 3
//
// All workers compute gradients of the same number, so the letter names a number and no
// worker. One that comes when its worker has delivered says nothing more, and one that comes
// before its worker has weights is remembered: that worker pushes an empty sum.
//
// A letter is heard between kernels and heeded between micro-batches. How many were left out
// stands in the record, as the third number of a line, so a repetition leaves out the same.
//
// The cost: a letter to each rank in a step. A worker is waited for as long as one micro-batch.

#include "exec/limit.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/wall.h"

bool tt__hurry_is(const tt_dynamic *d)
{
    return d->wall != NULL && d->server.rules.clock->takes_parts;
}

void tt__hurry_heard(tt_dynamic *d, int64_t number)
{
    if (number > d->wall->hurried)
        d->wall->hurried = number;
}

tt_status tt__hurry_say(tt_dynamic *d, int32_t worker)
{
    const int64_t number = d->server.worker[worker].pushed - 1;
    const tt__wall_letter head = {.kind = TT_WALL_HURRY, .v = {(double)number}};
    if (!tt_clock_is_hurried(&d->server) || number <= d->wall->hurried)
        return TT_OK;
    tt__hurry_heard(d, number);
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        TT_TRY(tt__wall_send(d, d->wall->line[i].peer, &head, NULL, NULL));
    return TT_OK;
}

bool tt__hurry_is_over(const tt_dynamic *d)
{
    return tt__hurry_is(d) && d->job->number <= d->wall->hurried;
}

tt_status tt__hurry_before(tt_dynamic *d, int32_t micro, bool *is_over_out)
{
    *is_over_out = false;
    if (!tt__hurry_is(d))
        return TT_OK;
    TT_TRY(tt__wall_pace(d, d->job->worker,
                         (double)micro / (double)d->job->options.accumulate));
    *is_over_out = tt__hurry_is_over(d);
    if (*is_over_out)
        tt_exec_limit(d->exec, micro);
    return TT_OK;
}
