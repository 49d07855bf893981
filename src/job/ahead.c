// ahead - feeding a device without letting it wait.
//
// A GPU works asynchronously: tt_exec_run returns while its kernels still run. If
// the host asked the loader for the next batch only after it has read this step's
// results, the device would be idle while that batch is read and copied. So the
// order within a step is:
//
//   run the step        the device is busy from here on
//   feed ahead          ask for micro-batch 0 of the next step, start its copy
//   read the results    waits for the device
//   next step           tt__feed_now finds the batch on the device already
//
// Only micro-batch 0 is fetched ahead. The others are fed from inside the step,
// while the device works on the one before.
//
// The price is that a batch is requested before the caller knows whether it will be
// used. A rollback or a new position in the data must call tt_job_forget_ahead;
// then the batch is fetched again. A failure of the early request is kept and
// reported by the step that needs the batch, so that errors come at the same step
// with and without a device.

#include "job/ahead.h"

#include "job/feed.h"
#include "job/kept.h"

#include <stdio.h>

static tt_val find(const tt_job *job, const char *name)
{
    return tt_graph_find(job->graph, name);
}

// Asks for one micro-batch. With a device the data go into its staging memory
// (tt_exec_room) and the copy starts at once. Without one, tt_exec_room gives NULL
// and the data go into the job's own x and y.
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

// Makes the batch of the last `fill` the input of the next segment.
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
    bool is_kept = false;
    TT_TRY(tt__kept_take(feeding, micro, &is_kept));
    if (is_kept)
        return TT_OK;
    // The step is compared too: after a restore or a rollback job->step is another
    // one, and a batch fetched before belongs to no step.
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
    if (!job->feeds_ahead || !a->is_sent || feeding->feed == NULL ||
        !tt_job_is_drained(job) || job->plan->order[0].micro != 0 ||
        job->plan->bound > 0) // who is first is not known
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
