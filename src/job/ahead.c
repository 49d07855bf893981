// ahead - inputs that are on their way before it is their turn.

#include "job/ahead.h"

#include "job/feed.h"

#include <stdio.h>

static tt_val find(const tt_job *job, const char *name)
{
    return tt_graph_find(job->graph, name);
}

// Into memory that a device reads by itself, and on their way; or into the job's own.
static tt_status fill(const tt__feeding *f, int32_t micro)
{
    tt_job *job = f->job;
    tt_ahead *a = &job->ahead;
    void *x = NULL, *y = NULL;
    TT_TRY(tt_exec_room(job->exec, find(job, "x"), &x));
    TT_TRY(tt_exec_room(job->exec, find(job, "y"), &y));
    a->is_sent = x != NULL && y != NULL;
    if (!a->is_sent) {
        x = job->x;
        y = job->y;
    }
    TT_TRY(f->feed(f->user, job, micro, x, y));
    tt_feed_leave_out(job->plan, y);
    if (!a->is_sent)
        return TT_OK;
    TT_TRY(tt_exec_send(job->exec, find(job, "x")));
    return tt_exec_send(job->exec, find(job, "y"));
}

static tt_status deliver(const tt_job *job)
{
    tt_exec *exec = job->exec;
    if (job->ahead.is_sent) {
        TT_TRY(tt_exec_take(exec, find(job, "x")));
        return tt_exec_take(exec, find(job, "y"));
    }
    TT_TRY(tt_exec_write(exec, find(job, "x"), job->x));
    return tt_exec_write(exec, find(job, "y"), job->y);
}

tt_status tt__feed_now(const tt__feeding *feeding, int32_t micro)
{
    tt_job *job = feeding->job;
    tt_ahead *a = &job->ahead;
    const bool is_here = a->is_asked && micro == 0 && a->step == job->step;
    a->is_asked = false;
    if (is_here && a->status != TT_OK)
        return tt_fail(a->status, "%s", a->message);
    if (!is_here)
        TT_TRY(fill(feeding, micro));
    return deliver(job);
}

void tt__feed_ahead(const tt__feeding *feeding)
{
    tt_job *job = feeding->job;
    tt_ahead *a = &job->ahead;
    if (!job->feeds_ahead || !a->is_sent || feeding->feed == NULL)
        return;
    a->is_asked = true;
    a->step = job->step;
    a->status = fill(feeding, 0);
    if (a->status != TT_OK)
        snprintf(a->message, sizeof a->message, "%s", tt_error_message());
}

void tt_job_forget_ahead(tt_job *job)
{
    job->ahead.is_asked = false;
}
