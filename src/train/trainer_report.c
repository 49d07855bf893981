// trainer_report - what the run is, where its time goes and how it ended: for the
// watch, and for the page in its folder. The page is rewritten during the run, but
// not more often than costs 2% of the time.

#include "base/clock.h"
#include "base/json_read.h"
#include "config/pace.h"
#include "job/exact.h"
#include "session/changed.h"
#include "train/facts.h"
#include "train/trainer.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

// ---- time ----------------------------------------------------------------

// Divides the time. What a step did not wait for, it computed. What is left over
// was no step, no evaluation and no checkpoint.
tt_report_time tt__trainer_time(const tt_trainer *t)
{
    tt_report_time time = {
        .total = tt_clock_seconds() - t->started,
        .network = t->network_seconds,
        .data = t->loader != NULL ? tt_loader_waited(t->loader) : 0,
        .evaluation = t->aside_seconds,
        .checkpoints = t->save_stall,
        .last = t->last_save,
    };
    time.data = fmin(time.data, fmax(0, t->step_seconds - time.network));
    time.computing = fmax(0, t->step_seconds - time.network - time.data);
    time.other = fmax(0, time.total - t->step_seconds - time.evaluation -
                             time.checkpoints - time.last);
    return time;
}

static tt_report_time mean_time(const tt_ranks *ranks)
{
    tt_report_time mean = {0};
    const double n = ranks->n;
    for (int32_t i = 0; i < ranks->n; i++) {
        const tt_report_time *time = &ranks->rank[i].time;
        mean.total += time->total / n;
        mean.computing += time->computing / n;
        mean.network += time->network / n;
        mean.data += time->data / n;
        mean.evaluation += time->evaluation / n;
        mean.checkpoints += time->checkpoints / n;
        mean.last += time->last / n;
        mean.other += time->other / n;
    }
    return mean;
}

// ---- files ---------------------------------------------------------------

// The account of all starts. A start that made no steps adds nothing to it.
static tt_report_time shown_time(const tt_trainer *t, const tt_run_end *end)
{
    tt_report_time sum = t->time_before;
    if (t->n_steps == 0)
        return sum;
    const tt_report_time now = end != NULL ? end->time : tt__trainer_time(t);
    sum.total += now.total;
    sum.computing += now.computing;
    sum.network += now.network;
    sum.data += now.data;
    sum.evaluation += now.evaluation;
    sum.checkpoints += now.checkpoints;
    sum.last += now.last;
    sum.other += now.other;
    return sum;
}

// RUN/facts.json: what the page is made from.
static void write_facts(tt_trainer *t, const tt_run_end *end)
{
    tt_str text = {0};
    const tt_report_time time = shown_time(t, end);
    if (t->run == NULL ||
        t->facts.folder == NULL) // it failed before it was described
        return;
    tt__trainer_ranks_forget(t);
    tt_status status = tt_facts_text(&t->facts, &time, end, &text);
    if (status == TT_OK)
        status = tt_run_write(t->run, "facts.json", tt_str_text(&text), text.n);
    tt__trainer_check_log(t, status);
    tt_str_fini(&text);
}

static void write_workers(tt_trainer *t)
{
    const tt_workers *w = NULL;
    tt_arena *arena = t->job->workers > 0 ? tt_arena_create() : NULL;
    if (arena != NULL)
        tt__trainer_check_log(t, tt__trainer_workers_write(t, arena, &w));
    tt_arena_destroy(arena);
}

static const double share = 0.02; // of the time that writing the page may take

void tt__trainer_report(tt_trainer *t)
{
    const double now = tt_clock_seconds();
    if (t->run == NULL || (t->report_clock > 0 &&
                           now - t->report_clock < t->report_seconds / share))
        return;
    write_facts(t, NULL);
    write_workers(t);
    tt__trainer_check_log(t, tt_report_write(t->request->folder));
    t->report_clock = tt_clock_seconds();
    t->report_seconds = t->report_clock - now;
}

// ---- the start -----------------------------------------------------------

// Takes over from an earlier start when the run began and what it was forked from.
static void take_up(tt_trainer *t)
{
    tt_str text = {0};
    const tt_json_value *old = NULL;
    if (tt_run_read(t->request->folder, "facts.json", &text) == TT_OK &&
        tt_json_read(tt_str_text(&text), text.n, "facts.json", t->arena,
                     &old) == TT_OK) {
        const char *started = tt_json_text(tt_json_get(old, "started"), NULL);
        const char *parent = tt_json_text(tt_json_get(old, "parent"), NULL);
        tt_report_time_read(tt_json_get(old, "time"), &t->time_before);
        if (started != NULL)
            t->facts.started = tt_arena_strdup(t->arena, started);
        if (parent != NULL)
            t->facts.parent = tt_arena_strdup(t->arena, parent);
    }
    tt_str_fini(&text);
}

static void set_origin(tt_trainer *t)
{
    char stamp[TT_STAMP_BYTES], path[PATH_MAX];
    tt_stamp_now(stamp);
    t->facts.started = tt_arena_strdup(t->arena, stamp);
    if (t->request->fork != NULL && realpath(t->request->fork, path) != NULL)
        t->facts.parent = tt_arena_strdup(t->arena, path);
    if (t->saved_step >= 0)
        take_up(t);
}

static bool is_tokens(const tt_trainer *t)
{
    return t->job->model->task == TT_TASK_TOKENS;
}

static tt_run_facts facts_of(const tt_trainer *t)
{
    const tt_job *job = t->job;
    const double samples = (double)job->step_samples;
    const bool is_alone = job->peers.size == 1;
    return (tt_run_facts){
        .model = tt_session_model_text(t->session),
        .data = tt_session_data_text(t->session),
        .precision = tt_precision_name[job->options.precision],
        .device = job->options.device,
        .optim = tt_session_optim_text(t->session),
        .folder = t->request->folder,
        .unit = is_tokens(t) ? "tokens" : "images",
        .units = is_tokens(t) ? samples * (double)job->io.seq : samples,
        .parameters = tt_job_parameters(job),
        .frozen = tt_job_frozen(job),
        .threads = job->backend->options.n_threads,
        .blocks =
            job->options.exact ? tt__exact_blocks(job, job->options.micro) : 0,
        .peak_bytes = t->peak_bytes,
        .peak_rank = t->peak_rank,
        .n_ranks = job->peers.size,
        .batch = job->options.batch,
        .micro = job->io.batch,
        .accumulate = job->options.accumulate,
        .seq = job->io.seq,
        .image = job->io.image,
        .steps = t->session->steps,
        .first_step = t->state.step,
        .flops_per_step = tt_job_flops(job),
        .mesh = is_alone ? "" : job->grid.mesh,
        .layout = is_alone ? "" : job->grid.layout_text,
        .cut = t->cut,
        .zero = job->distribution.zero,
        .seed = job->options.seed,
        .command = t->request->command,
        .changed = tt_session_changed(t->session, t->arena),
        .ranks = is_alone ? NULL : job->peers.text,
        .pace = job->pace == NULL
                    ? NULL
                    : tt_arena_printf(t->arena, "%s; %s",
                                      job->distribution.pace, tt_pace_note),
        .note = job->note,
    };
}

void tt__trainer_tell_start(tt_trainer *t)
{
    const tt_watch *w = t->request->watch;
    t->facts = facts_of(t);
    if (t->run != NULL)
        set_origin(t);
    if (t->run != NULL && t->saved_step < 0)
        tt__trainer_check_log(
            t, tt_run_log_settings(t->run,
                                   tt_session_hparams(t->session, t->arena)));
    tt__trainer_report(t);
    if (w != NULL && w->start != NULL)
        w->start(w->user, &t->facts);
}

// ---- the end -------------------------------------------------------------

void tt__trainer_tell_end(tt_trainer *t, tt_run_reason reason,
                          tt_run_end *end_out)
{
    const tt_watch *w = t->request->watch;
    const tt_train_state *s = &t->state;
    *end_out = (tt_run_end){
        .reason = reason,
        .step = s->step,
        .seconds = tt_clock_seconds() - t->started,
        .loss = s->train_loss,
        .val_loss = s->val_loss,
        .best_loss = s->best_loss,
        .accuracy = is_tokens(t) ? (double)NAN : s->val_accuracy,
        .time = t->ranks != NULL ? mean_time(t->ranks) : tt__trainer_time(t),
        .is_paced = t->job->pace != NULL,
        .error = t->error,
        .folder = t->request->folder,
        .ranks = t->ranks,
        .workers = t->did,
    };
    write_facts(t, end_out);
    if (t->run != NULL && reason != TT_RUN_SIGNAL)
        tt__trainer_check_log(
            t, tt_run_log_end(t->run, s->step, reason != TT_RUN_FAILED));
    if (t->run != NULL)
        tt__trainer_check_log(t, tt_report_write(t->request->folder));
    if (w != NULL && w->end != NULL)
        w->end(w->user, end_out);
}
