// dynamic_list - a recorded order: the file that a run by the wall clock has left.
//
//   3 0.001204     worker, seconds; a line for each delivery from the first step on
//   0 0.001377
//
// With proxies a third number says whether the gradient was refused: its proxy judged that, and
// may have known of fewer steps than the server.

#include "base/alloc.h"
#include "base/file.h"
#include "job/dynamic/proxy.h"

#include <stdlib.h>

enum { MOST = 1 << 30 };

typedef struct tt__list_line {
    int32_t worker;
    char verdict; // '1': it was refused, '0': taken; else nobody says
} tt__list_line;

// A space and what follows it.
static char *skip_number(char *p)
{
    while (*p == ' ')
        p++;
    while (*p != ' ' && *p != '\n' && *p != '\0')
        p++;
    return p;
}

static tt_status parse(tt_dynamic *d, const char *text)
{
    int64_t room = 1;
    for (const char *p = text; *p != '\0'; p++)
        room += *p == '\n';
    d->list = tt_alloc(room * (int64_t)sizeof *d->list);
    if (d->list == NULL)
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
        end = skip_number(end);
        d->list[d->n_list++] = (tt__list_line){
            .worker = (int32_t)worker, .verdict = *end == ' ' ? end[1] : ' '};
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

static int64_t n_delivered(const tt_dynamic *d)
{
    int64_t n = 0;
    if (d->tree == NULL)
        return d->server.n_pushed;
    for (int32_t i = 0; i < d->workers; i++)
        n += tt__worker_pushed(d, i);
    return n;
}

void tt__list_judge(const tt_dynamic *d, double *head)
{
    const char verdict = d->list != NULL ? d->list[d->list_at].verdict : ' ';
    if (verdict == '1')
        head[TT_HEAD_REFUSED] = 1;
    else if (verdict != '0') // nobody has said
        tt__dynamic_judge(d, head);
}

// It has delivered and has no weights since.
static bool has_none(const tt_dynamic *d, int32_t worker)
{
    return tt__worker_waits(d, worker) ||
           (d->tree != NULL && d->tree->is_here[worker]);
}

tt_status tt__list_next(tt_dynamic *d, int32_t *worker_out)
{
    const int64_t at = n_delivered(d);
    if (at >= d->n_list)
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=%s ends after %lld deliveries, in "
                       "step %lld; train.steps=%lld would do",
                       d->params->pace.schedule, (long long)d->n_list,
                       (long long)(at / d->workers + 1),
                       (long long)(d->n_list / d->workers));
    if (has_none(d, d->list[at].worker))
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=%s: worker %d delivers in line %lld "
                       "while it waits: it was recorded under other settings",
                       d->params->pace.schedule, d->list[at].worker,
                       (long long)at + 1);
    d->list_at = at;
    *worker_out = d->list[at].worker;
    return TT_OK;
}
