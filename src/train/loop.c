// loop - the steps of a run, and what follows each of them.
//
//   start      resume, fork, or begin anew                    trainer_start.c
//   while steps are left
//     step       learning rate, limit of the loss, one update
//     judge      go on, skip, roll back or stop                judge.c
//     log        every log.every steps                         trainer_log.c
//     evaluate   every eval.every steps                        trainer_eval.c
//     sample     every sample.every steps                      trainer_sample.c
//     save       every checkpoint.every steps, or a new best   trainer_save.c
//   save the last step, write the report
//
// The order after a step is fixed, and the save comes last. So a checkpoint knows
// everything that its step has caused, and a resumed run repeats nothing and leaves
// nothing out.
//
// All ranks go through the same loop. Whatever decides its path (a signal, rank 0's
// clock, a verdict) must be the same on all ranks, or one of them would wait for
// the others for ever. Verdicts follow from losses, which all ranks have. Signals
// and the clock travel with the step's results (see job.c).
//
// A signal may come in the middle of an evaluation. Then it is broken off without a
// trace, the step is saved "in passing", and the next start does the evaluation
// before it makes a step.

#include "train/loop.h"

#include "base/clock.h"
#include "job/feed.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

static const double deadline = 600; // seconds without a sample
static const double slow = 30;      // seconds for one batch, worth a word

// Warns about a slow disk now and then.
static void note_slow(tt_trainer *t, double seconds)
{
    char text[160];
    if (seconds < slow || !tt__trainer_is_worth_saying(&t->slow_batches))
        return;
    snprintf(text, sizeof text,
             "a batch of data took %.0f seconds to read: the disk is slow, or "
             "more data.workers would help",
             seconds);
    tt__trainer_say(t, TT_TEXT_WARNING, text);
}

// A client's first micro-batch of a round: from here on come its own.
static tt_status find_client(const tt_trainer *t, const tt_job *job,
                             int64_t micro)
{
    const tt_shares *shares = t->session->shares;
    if (shares == NULL || micro > 0)
        return TT_OK;
    return tt_loader_seek_span(
        t->loader, tt_shares_position(shares, job->worker, job->number),
        job->local_steps * job->options.accumulate);
}

static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    tt_trainer *t = user;
    tt_batch batch;
    const double before = tt_clock_seconds();
    tt_loader *loader =
        t->lane != NULL ? t->lane[job->worker - t->first_lane] : t->loader;
    TT_TRY(find_client(t, job, micro));
    TT_TRY(tt_loader_next(loader, deadline, &batch));
    note_slow(t, tt_clock_seconds() - before);
    return tt_feed_batch(job->plan, job->classes, &batch, x, y);
}

// A signal has come to this rank. All ranks learn of it with the results of the
// next step.
static bool wants_stop(const tt_trainer *t)
{
    return t->request->stop != NULL && *t->request->stop != 0;
}

// Whether to leave the loop. True on all ranks or on none.
static bool is_stopped(const tt_trainer *t)
{
    return t->is_stopped || (t->job->peers.size == 1 && wants_stop(t));
}

static bool is_due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

// Whether replicas with weights of their own meet after step `step`: where somebody looks,
// or may want to stop; and the model is made where it is used.
static bool wants_meeting(const tt_trainer *t, int64_t step)
{
    const tt_train_options *o = &t->session->options;
    const int64_t bound = t->job->exchange.meet;
    return step == 1 || is_due(step, o->log_every) ||
           (bound > 0 && t->job->replicas.steps + 1 >= bound);
}

static bool wants_model(const tt_trainer *t, int64_t step)
{
    const tt_train_options *o = &t->session->options;
    return is_due(step, o->sample_every) || is_due(step, o->save_every) ||
           (t->evaluator != NULL && is_due(step, o->eval_every)) ||
           step == t->session->steps || step == o->stop;
}

static void add_result(tt_train_state *s, const tt_step_result *r)
{
    if (r->skipped)
        return;
    s->loss += r->loss * r->count;
    s->count += r->count;
    s->correct += r->correct;
}

// Seconds in which this rank could do nothing but wait for communication.
static double network_seconds(const tt_trainer *t)
{
    tt_wire_stats stats = {0};
    if (t->job->peers.size > 1)
        tt_comm_wire_stats(t->job->peers.wire, false, &stats);
    return stats.exposed_seconds;
}

static tt_status timed_step(tt_trainer *t, tt_step_result *result)
{
    const double before = network_seconds(t), started = tt_clock_seconds();
    const tt_status status = tt_job_step(t->job, feed, t, result);
    t->step_seconds += tt_clock_seconds() - started;
    t->network_seconds += network_seconds(t) - before;
    return status;
}

static tt_status fail_now(const tt_trainer *t)
{
    const bool may_skip = tt_job_endless_stages(t->job) == 0;
    return tt_fail(TT_ERR_STATE, "%s; lower optim.lr%s look at the data%s",
                   t->why, may_skip ? "," : " or",
                   may_skip ? ", or set train.nan=skip or rollback" : "");
}

// A rank that leaves while micro-batches are on their way would be missed by others before
// they know why. So the run ends when the pipe is empty.
static tt_status give_up(tt_trainer *t, const char *why)
{
    if (t->why[0] == '\0')
        snprintf(t->why, sizeof t->why, "%s", why);
    return tt_job_is_drained(t->job) ? fail_now(t) : TT_OK;
}

// Whether ranks talk to each other after a step, if nobody wishes for more.
static bool meets(const tt_trainer *t, int64_t step)
{
    const tt_train_options *o = &t->session->options;
    return is_due(step, o->log_every) || is_due(step, o->eval_every) ||
           is_due(step, o->sample_every) || is_due(step, o->save_every) ||
           step >= t->session->steps || step == o->stop || step == 1;
}

// Steps that guards of single replicas have left out.
static void note_skipped(tt_trainer *t, const tt_step_result *result)
{
    char text[160];
    if (result->n_skipped == 0)
        return;
    t->state.judge.skips += (int64_t)result->n_skipped;
    snprintf(text, sizeof text,
             "%.0f of %.0f steps of single replicas were skipped",
             result->n_skipped, result->n_single);
    tt__trainer_say(t, TT_TEXT_NOTE, text);
}

// One step, and what the judge makes of it.
static tt_status step(tt_trainer *t, tt_step_result *result,
                      tt_verdict *verdict)
{
    const tt_train_options *o = &t->session->options;
    tt_job *job = t->job;
    tt_train_state *s = &t->state;
    char why[256] = "";
    char text[320];
    job->lr = job->rate * tt_schedule_factor(&job->optim_params.schedule,
                                             s->step, t->session->steps);
    job->limit = tt_judge_limit(&s->judge, o);
    job->wants_stop = wants_stop(t);
    job->wants_save = tt__trainer_is_time(t);
    job->meets = meets(t, s->step + 1);
    job->wants_model = wants_model(t, s->step + 1);
    job->wants_meeting = job->wants_model || wants_meeting(t, s->step + 1);
    TT_TRY(timed_step(t, result));
    t->is_stopped = t->is_stopped || result->stop;
    t->n_steps++;
    s->step++;
    s->position += job->step_samples;
    *verdict = TT_VERDICT_GOOD;
    if (result->is_local) // nobody knows more than its own replicas
        return TT_OK;
    note_skipped(t, result);
    const tt_judge_step judged = {s->step,
                                  result->loss,
                                  result->norm,
                                  job->limit,
                                  result->loss_scale,
                                  result->n_single,
                                  result->n_bad,
                                  result->n_skipped - result->n_bad,
                                  result->single};
    *verdict = tt_judge_verdict(&s->judge, o, &judged, why);
    if (*verdict == TT_VERDICT_STOP)
        TT_TRY(give_up(t, why));
    if (t->why[0] != '\0' && tt_job_is_drained(job))
        return fail_now(t);
    if (*verdict == TT_VERDICT_ROLLBACK)
        return tt__trainer_roll_back(t, why);
    if (*verdict == TT_VERDICT_SKIP) {
        snprintf(text, sizeof text, "%s: skipped", why);
        tt__trainer_say(t, TT_TEXT_NOTE, text);
    }
    add_result(s, result);
    return TT_OK;
}

static bool wants_evaluation(const tt_trainer *t)
{
    const int64_t s = t->state.step;
    return t->evaluator != NULL && s > t->state.began &&
           t->state.evaluated != s &&
           (is_due(s, t->session->options.eval_every) ||
            s >= t->session->steps);
}

static bool wants_sample(const tt_trainer *t)
{
    const int64_t s = t->state.step;
    return s > t->state.began && t->state.sampled != s &&
           is_due(s, t->session->options.sample_every);
}

// A checkpoint saved in passing does not count as the one that is due: it may lack
// the evaluation of its step, and it is removed with the next save.
static bool wants_save(const tt_trainer *t)
{
    const tt_train_options *o = &t->session->options;
    const tt_train_state *s = &t->state;
    const bool is_saved = t->saved_step == s->step && !t->is_saved_in_passing;
    return !is_saved && s->step > s->began &&
           (is_due(s->step, o->save_every) ||
            (o->keep_best && s->best_step == s->step));
}

static tt_status save(tt_trainer *t, bool is_passing)
{
    const double started = tt_clock_seconds();
    TT_TRY(tt__trainer_save(t, is_passing));
    tt_ranks_report_mark(t->report, "save", t->state.step, started);
    return TT_OK;
}

// Evaluation, sample, report and save, if they are due. If a signal breaks off one
// of them, the rest is left to the next start, which finds all of it undone.
static tt_status follow_up(tt_trainer *t, bool is_time)
{
    const double before = tt_clock_seconds();
    const bool is_new = wants_evaluation(t) || wants_sample(t);
    if (is_new || wants_save(t) || is_time) {
        TT_TRY(tt_job_settle(t->job));
        TT_TRY(tt_job_model(t->job));
    }
    if (wants_evaluation(t)) {
        const double started = tt_clock_seconds();
        TT_TRY(tt__trainer_evaluate(t));
        tt_ranks_report_mark(t->report, "evaluate", t->state.step, started);
    }
    if (!t->is_broken_off && wants_sample(t))
        TT_TRY(tt__trainer_sample(t));
    t->aside_seconds += tt_clock_seconds() - before;
    if (t->is_broken_off)
        return TT_OK;
    if (is_new)
        tt__trainer_report(t);
    if (wants_save(t))
        return save(t, false);
    return is_time ? save(t, true) : TT_OK;
}

// Does what follows a step, and keeps its time and its bytes out of the numbers per
// step.
static tt_status pause_training(tt_trainer *t, bool is_time)
{
    const double before = tt_clock_seconds();
    tt_ranks_report_pause(t->report, false);
    TT_TRY(follow_up(t, is_time));
    tt_ranks_report_pause(t->report, true);
    t->point_aside += tt_clock_seconds() - before;
    return TT_OK;
}

// `is_passing_out`: the run will go on later, so the save at the end is in passing.
static tt_status train(tt_trainer *t, tt_run_reason *reason_out,
                       bool *is_passing_out)
{
    const tt_train_options *o = &t->session->options;
    const tt_watch *w = t->request->watch;
    tt_step_result result;
    tt_verdict verdict = TT_VERDICT_GOOD;
    *reason_out = TT_RUN_DONE;
    *is_passing_out = false;
    // An earlier start may have been interrupted before its evaluation or save.
    if (t->is_saved_in_passing || wants_evaluation(t))
        TT_TRY(pause_training(t, false));
    while (t->state.step < t->session->steps) {
        if (is_stopped(t)) {
            *reason_out = TT_RUN_SIGNAL;
            *is_passing_out = true;
            return TT_OK;
        }
        if (!tt__trainer_has_patience(t)) {
            *reason_out = TT_RUN_EARLY;
            return TT_OK;
        }
        if (o->stop > 0 && t->state.step >= o->stop) {
            *is_passing_out = true;
            return TT_OK;
        }
        const double started = tt_clock_seconds();
        TT_TRY(step(t, &result, &verdict));
        TT_TRY(tt__trainer_carry(t));
        TT_TRY(tt__trainer_workers_hear(t));
        TT_TRY(tt_ranks_report_step(t->report, t->state.step, started));
        if (verdict == TT_VERDICT_ROLLBACK)
            continue;
        if (t->state.step == 1 && !result.is_local)
            tt__trainer_log_first(t, &result);
        if (w != NULL && w->step != NULL)
            w->step(w->user, t->state.step, result.loss);
        if (is_due(t->state.step, o->log_every) ||
            t->state.step == t->session->steps) {
            TT_TRY(tt__trainer_ranks_point(t));
            tt__trainer_log(t, &result);
        }
        TT_TRY(pause_training(t, result.save));
    }
    *is_passing_out = t->is_broken_off;
    if (t->is_broken_off)
        *reason_out = TT_RUN_SIGNAL;
    return TT_OK;
}

// Nothing is left to do: that should not look like a run that trained.
static void say_if_over(tt_trainer *t)
{
    const long long made = t->state.step, wanted = t->session->steps;
    char text[160] = "all steps were made before";
    if (made < wanted || wants_evaluation(t) || t->is_saved_in_passing)
        return;
    if (made > wanted)
        snprintf(text, sizeof text,
                 "the run has made %lld steps already, more than "
                 "train.steps=%lld: it stays as it is",
                 made, wanted);
    tt__trainer_say(t, TT_TEXT_NOTE, text);
}

static tt_status run(tt_trainer *t, tt_run_end *end_out)
{
    tt_str notes = {0};
    tt_run_reason reason = TT_RUN_FAILED;
    bool is_passing = false;
    tt_status status = tt__trainer_start(t, &notes);
    if (status == TT_OK) {
        tt__trainer_tell_start(t);
        tt__trainer_say_lines(t, TT_TEXT_NOTE, &notes);
    }
    tt_str_fini(&notes);
    TT_TRY(status);
    say_if_over(t);
    t->job->until = t->session->steps;
    TT_TRY(tt__trainer_ranks_open(t));
    tt__trainer_workers_open(t);
    t->point_clock = tt_clock_seconds();
    t->point_step = t->state.step;
    TT_TRY(train(t, &reason, &is_passing));
    TT_TRY(tt_job_settle(t->job));
    TT_TRY(tt__trainer_save_last(t, is_passing));
    TT_TRY(tt__trainer_ranks_end(t));
    TT_TRY(
        tt_peers_follow(&t->job->peers, "workers", tt__trainer_workers_end(t)));
    tt__trainer_tell_end(t, reason, end_out);
    return TT_OK;
}

static void close_trainer(tt_trainer *t)
{
    tt_ranks_report_close(t->report);
    if (t->spread != NULL)
        tt_spread_give_up(t->spread);
    tt_checkpoints_close(t->store);
    tt_run_close(t->run);
    tt_loader_close(t->loader);
    for (int32_t i = 0; t->lane != NULL && i < t->n_lanes; i++)
        tt_loader_close(t->lane[i]);
    tt_generator_close(t->generator);
    tt_evaluator_close(t->evaluator);
    tt_snapshot_free(&t->snapshot);
    tt_spread_close(t->spread);
    tt_str_fini(&t->workers);
    tt_str_fini(&t->config);
    tt_str_fini(&t->tokenizer);
    tt_str_fini(&t->origin);
    tt_arena_destroy(t->arena);
}

tt_status tt_train(tt_session *session, const tt_train_request *request,
                   tt_run_end *end_out)
{
    tt_trainer t = {.arena = tt_arena_create(),
                    .session = session,
                    .job = session->job,
                    .request = request,
                    .saved_step = -1,
                    .failed_step = -1,
                    .started = tt_clock_seconds()};
    char message[2048];
    if (t.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to train");
    tt_status status = tt_session_need_length(session);
    if (status == TT_OK)
        status = run(&t, end_out);
    if (status != TT_OK) { // closing may fail too and overwrite the message
        snprintf(message, sizeof message, "%s", tt_error_message());
        if (t.loader != NULL || t.lane != NULL) {
            tt_run_end end;
            if (t.run != NULL)
                (void)tt_run_note(t.run, t.state.step, message);
            t.error = message;
            if (t.job->workers > 0 && t.run != NULL && t.n_steps > 0)
                (void)tt__trainer_workers_write(&t, session->arena, &t.did);
            tt__trainer_tell_end(&t, TT_RUN_FAILED, &end);
        }
        (void)tt_fail(status, "%s", message);
        snprintf(message, sizeof message, "%s", tt_error_message());
    }
    close_trainer(&t);
    return status == TT_OK ? status : tt_fail(status, "%s", message);
}
