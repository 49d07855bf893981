// dynamic_list - a recorded order: the file that a run by the wall clock has left.
//
//   3 0.001204     worker, seconds; a line for each delivery from the first step on
//   0 0.001377
//   2 0.001512 3 and micro-batches that were left out (exchange.clock=absp)

#include "base/alloc.h"
#include "base/file.h"
#include "job/dynamic/dynamic.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

// What is behind the worker in a line: seconds, and what was left out, if anything.
static int32_t parse_left(const char *text)
{
    const size_t seconds = strcspn(text + 1, " \n") + 1;
    const char *at = text + (*text == ' ' ? seconds : 0);
    const long left = *at == ' ' ? strtol(at, NULL, 10) : 0;
    return left >= 0 && left < MOST ? (int32_t)left : MOST;
}

static tt_status parse(tt_dynamic *d, const char *text)
{
    int64_t room = 1;
    for (const char *p = text; *p != '\0'; p++)
        room += *p == '\n';
    d->list = tt_alloc(room * (int64_t)sizeof *d->list);
    d->list_left = tt_alloc(room * (int64_t)sizeof *d->list_left);
    if (d->list == NULL || d->list_left == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
    for (const char *p = text; *p != '\0';) {
        char *end = NULL;
        const long worker = strtol(p, &end, 10);
        if (end == p || (*end != ' ' && *end != '\n') || worker < 0 ||
            worker >= d->workers)
            return tt_fail(TT_ERR_ARG,
                           "exchange.schedule=%s: line %lld does not begin "
                           "with one of %d workers; give the schedule.txt of a "
                           "run with as many",
                           d->params->pace.schedule, (long long)d->n_list + 1,
                           d->workers);
        d->list_left[d->n_list] = parse_left(end);
        d->list[d->n_list++] = (int32_t)worker;
        while (*end != '\n' && *end != '\0')
            end++;
        p = *end == '\n' ? end + 1 : end;
    }
    return TT_OK;
}

tt_status tt__list_open(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    const char *path = d->params->pace.schedule;
    tt_str text = {0};
    tt_status status = TT_OK;
    if (tt_peers_is_first(peers))
        status = tt_file_read(path, MOST, &text);
    if (status != TT_OK)
        status = tt_fail_context(status, "exchange.schedule");
    status = tt_peers_follow(peers, "schedule", status);
    if (status == TT_OK)
        status = tt_peers_share_text(peers, "schedule", &text);
    if (status == TT_OK)
        status = parse(d, tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

static bool may_leave_out(const tt_dynamic *d, int32_t left)
{
    const tt_clock_def *clock = d->server.rules.clock; // NULL: there is none
    const bool takes_parts = clock != NULL && clock->takes_parts;
    return left <= (takes_parts ? d->job->options.accumulate : 0);
}

static tt_status refuse(const tt_dynamic *d, int64_t at, const char *why)
{
    return tt_fail(TT_ERR_ARG,
                   "exchange.schedule=%s: worker %d delivers in line %lld %s: "
                   "it was recorded under other settings",
                   d->params->pace.schedule, d->list[at], (long long)at + 1,
                   why);
}

tt_status tt__list_next(const tt_dynamic *d, int32_t *worker_out)
{
    const int64_t at = d->server.n_pushed;
    if (at >= d->n_list)
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=%s ends after %lld deliveries, in "
                       "step %lld; train.steps=%lld would do",
                       d->params->pace.schedule, (long long)d->n_list,
                       (long long)(at / d->workers + 1),
                       (long long)(d->n_list / d->workers));
    if (d->server.worker[d->list[at]].is_waiting)
        return refuse(d, at, "while it waits");
    if (!may_leave_out(d, d->list_left[at]))
        return refuse(d, at, "a part of a gradient");
    *worker_out = d->list[at];
    tt__dynamic_worker *own = tt__worker_own(d, *worker_out);
    if (own != NULL)
        own->left_out = d->list_left[at];
    return TT_OK;
}
