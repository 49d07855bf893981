// dynamic_list - a recorded order: the file that a run by the wall clock has left.
//
//   3 0.001204     worker, seconds; a line for each delivery from the first step on
//   0 0.001377
//   2 0.001512 3   exchange.clock=absp: micro-batches that were left out
//
// With proxies a third number says whether the gradient was refused: its proxy judged that, and
// may have known of fewer steps than the server.

#include "base/alloc.h"
#include "base/file.h"
#include "job/dynamic/proxy.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

typedef struct tt__list_line {
    int32_t worker;
    int32_t more; // the third number; below 0: there is none
} tt__list_line;

static const char *path_of(const tt_job *job)
{
    return tt__server_params(job)->pace.schedule;
}

// What is behind the worker in a line: seconds, and a number, if there is one.
static int32_t parse_more(const char *text)
{
    text += strspn(text, " ");
    text += strcspn(text, " \n");
    const long more = *text == ' ' ? strtol(text, NULL, 10) : -1;
    return more < 0 ? -1 : more < MOST ? (int32_t)more : MOST;
}

// `list` has room for as many deliveries as there are lines.
static tt_status parse(const tt_job *job, const char *text, tt__list_line *list,
                       int64_t *n_out)
{
    for (const char *p = text; *p != '\0';) {
        char *end = NULL;
        const long worker = strtol(p, &end, 10);
        if (end == p || (*end != ' ' && *end != '\n') || worker < 0 ||
            worker >= job->workers)
            return tt_fail(TT_ERR_ARG,
                           "exchange.schedule=%s: line %lld does not begin "
                           "with one of %d workers; give the schedule.txt of a "
                           "run with as many",
                           path_of(job), (long long)*n_out + 1, job->workers);
        list[(*n_out)++] =
            (tt__list_line){.worker = (int32_t)worker, .more = parse_more(end)};
        end += strcspn(end, "\n");
        p = *end == '\n' ? end + 1 : end;
    }
    return TT_OK;
}

static tt_status parse_all(const tt_job *job, const char *text,
                           tt__list_line **list_out, int64_t *n_out)
{
    int64_t room = 1;
    for (const char *p = text; *p != '\0'; p++)
        room += *p == '\n';
    *list_out = tt_alloc(room * (int64_t)sizeof **list_out);
    return *list_out != NULL
               ? parse(job, text, *list_out, n_out)
               : tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
}

static tt_status read_file(const tt_job *job, tt_str *text)
{
    const tt_status status = tt_file_read(path_of(job), MOST, text);
    return status == TT_OK
               ? TT_OK
               : tt_fail_context(status,
                                 "exchange.schedule=%s is neither seeded nor "
                                 "wall, nor a file that can be read",
                                 path_of(job));
}

tt_status tt__list_open(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    tt_str text = {0};
    tt_status status =
        tt_peers_is_first(peers) ? read_file(d->job, &text) : TT_OK;
    status = tt_peers_follow(peers, "schedule", status);
    if (status == TT_OK)
        status = tt_peers_share_text(peers, "schedule", &text);
    if (status == TT_OK)
        status = parse_all(d->job, tt_str_text(&text), &d->list, &d->n_list);
    tt_str_fini(&text);
    return status;
}

tt_status tt_job_check_schedule(const tt_job *job)
{
    tt_str text = {0};
    tt__list_line *list = NULL;
    int64_t n = 0;
    if (job->workers == 0 || tt_job_is_federated(job) ||
        tt_job_workers_are_live(job) || strcmp(path_of(job), "seeded") == 0)
        return TT_OK;
    tt_status status = read_file(job, &text);
    if (status == TT_OK)
        status = parse_all(job, tt_str_text(&text), &list, &n);
    tt_free(list);
    tt_str_fini(&text);
    return status;
}

// ---- who is next -----------------------------------------------------------

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
    const int32_t verdict =
        d->list != NULL && d->tree != NULL ? d->list[d->list_at].more : -1;
    if (verdict < 0) // nobody has said
        tt__dynamic_judge(d, head);
    else if (verdict > 0)
        head[TT_HEAD_REFUSED] = 1;
}

// It has delivered and has no weights since.
static bool has_none(const tt_dynamic *d, int32_t worker)
{
    return tt__worker_waits(d, worker) ||
           (d->tree != NULL && d->tree->is_here[worker]);
}

static int32_t left_out(const tt_dynamic *d, int64_t at)
{
    return d->tree == NULL && d->list[at].more > 0 ? d->list[at].more : 0;
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
                   path_of(d->job), d->list[at].worker, (long long)at + 1, why);
}

tt_status tt__list_next(tt_dynamic *d, int32_t *worker_out)
{
    const int64_t at = n_delivered(d);
    if (at >= d->n_list)
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=%s ends after %lld deliveries, in "
                       "step %lld; train.steps=%lld would do",
                       path_of(d->job), (long long)d->n_list,
                       (long long)(at / d->workers + 1),
                       (long long)(d->n_list / d->workers));
    if (has_none(d, d->list[at].worker))
        return refuse(d, at, "while it waits");
    if (!may_leave_out(d, left_out(d, at)))
        return refuse(d, at, "a part of a gradient");
    d->list_at = at;
    *worker_out = d->list[at].worker;
    tt__dynamic_worker *own = tt__worker_own(d, *worker_out);
    if (own != NULL)
        own->left_out = left_out(d, at);
    return TT_OK;
}
