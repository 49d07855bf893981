// dynamic_list - a recorded order: the file that a run by the wall clock has left.
//
//   3 0.001204     worker, seconds; a line for each delivery from the first step on
//   0 0.001377

#include "base/alloc.h"
#include "base/file.h"
#include "job/dynamic/dynamic.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

static const char *path_of(const tt_job *job)
{
    return tt__server_params(job)->pace.schedule;
}

// `list` has room for as many deliveries as there are lines.
static tt_status parse(const tt_job *job, const char *text, int32_t *list,
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
        list[(*n_out)++] = (int32_t)worker;
        while (*end != '\n' && *end != '\0')
            end++;
        p = *end == '\n' ? end + 1 : end;
    }
    return TT_OK;
}

static tt_status parse_all(const tt_job *job, const char *text,
                           int32_t **list_out, int64_t *n_out)
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
    int32_t *list = NULL;
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
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=%s: worker %d delivers in line %lld "
                       "while it waits: it was recorded under other settings",
                       d->params->pace.schedule, d->list[at],
                       (long long)at + 1);
    *worker_out = d->list[at];
    return TT_OK;
}
