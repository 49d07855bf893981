#include "job/dynamic/wall_hurry.h"

#include "exec/limit.h"
#include "job/dynamic/dynamic_math.h"

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
    if (!tt_clock_is_hurried(&d->server))
        return TT_OK;
    const int64_t number = d->server.worker[worker].pushed - 1;
    const tt__wall_letter head = {.kind = TT_WALL_HURRY, .v = {(double)number}};
    if (number <= d->wall->hurried)
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
