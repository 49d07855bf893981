// trainer_ranks - measures what the ranks do, and leaves it in the run's folder.

#include "base/clock.h"
#include "base/file.h"
#include "train/trainer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool tt__trainer_traces(const tt_trainer *t)
{
    const char *trace = t->session->options.trace;
    return trace[0] != '\0' && strcmp(trace, "false") != 0;
}

tt_status tt__trainer_ranks_open(tt_trainer *t)
{
    const tt_ranks_options options = {
        .wire = t->job->peers.wire,
        .exec = t->job->exec,
        .wants_trace = tt__trainer_traces(t),
        .pipe = tt_job_is_late(t->job) ? NULL : t->job->pipe,
        .is_paced = t->job->pace != NULL};
    return tt_ranks_report_open(&options, &t->report);
}

void tt__trainer_ranks_forget(tt_trainer *t)
{
    char path[PATH_MAX];
    const int n =
        snprintf(path, sizeof path, "%s/ranks.json", t->request->folder);
    if (t->n_steps == 0 || t->has_own_ranks || n >= (int)sizeof path)
        return;
    (void)tt_file_remove(path);
    t->has_own_ranks = true;
}

tt_status tt__trainer_ranks_point(tt_trainer *t)
{
    double squares = 0;
    TT_TRY(tt_job_residual(t->job, &squares));
    tt_ranks_report_residual(t->report, squares);
    return tt_ranks_report_point(t->report, t->state.step - t->point_step,
                                 &t->has_point, &t->point);
}

static tt_status write_ranks(const tt_trainer *t)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_ranks_report_print_json(t->ranks, &json);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_run_write(t->run, "ranks.json", tt_str_text(&text), text.n);
    tt_str_fini(&text);
    return status;
}

static tt_status write_trace(const tt_trainer *t)
{
    const char *file = t->session->options.trace;
    char path[PATH_MAX];
    const int n =
        strcmp(file, "true") == 0
            ? snprintf(path, sizeof path, "%s/trace.json", t->request->folder)
            : snprintf(path, sizeof path, "%s", file);
    tt_ranks_report_worker(t->report, tt_job_worker_exec(t->job));
    return tt_ranks_report_trace(t->report, n < (int)sizeof path ? path : "");
}

// At the end a full disk of rank 0 is a warning only; a lost peer is an error.
static tt_status settle(tt_trainer *t, tt_status status)
{
    if (status == TT_OK || status == TT_ERR_PEER || status == TT_ERR_TIMEOUT)
        return status;
    tt__trainer_say(t, TT_TEXT_WARNING, tt_error_message());
    return TT_OK;
}

tt_status tt__trainer_ranks_end(tt_trainer *t)
{
    const tt_report_time time = tt__trainer_time(t);
    tt_ranks_report_time(t->report, &time);
    TT_TRY(tt_ranks_report_end(t->report, t->session->arena, &t->ranks));
    if (t->ranks != NULL && t->run != NULL && t->n_steps > 0) {
        TT_TRY(settle(t, write_ranks(t)));
        t->has_own_ranks = true;
    }
    return tt__trainer_traces(t) ? settle(t, write_trace(t)) : TT_OK;
}
