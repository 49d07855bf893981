// trainer_save - saving checkpoints, restoring them, and rolling back.
//
// There are three ways to save; which one is decided at the start, by all ranks.
//
//   snapshot  rank 0 holds all states whole. It copies them, and a thread writes the
//             copy while training goes on (state/snapshot.c)
//   spread    ranks hold parts. Each copies its own; rank 0's thread puts tensors
//             together and writes them while training goes on (state/spread.c)
//   stream    there is no memory for such copies. Tensors are gathered and written one
//             by one, and all ranks wait (state/checkpoint_stream.c)
//
// A failed save is a warning, not an error: the disk may have room again later, and
// hours of training are worth more than one checkpoint. Only the last save of a run
// must succeed.
//
// Rolling back restores an older checkpoint but keeps the position in the data:
// training goes on after the batch that was bad, so it does not meet it again.

#include "base/clock.h"
#include "state/checkpoint_stream.h"
#include "state/restore.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Says which checkpoint a run could be resumed from now.
static void add_newest(const tt_trainer *t, tt_str *out)
{
    int64_t step = -1;
    const tt_status status = tt_checkpoints_last(t->store, &step);
    if (status != TT_OK)
        tt_str_add(out, "which older ones there are cannot be seen");
    else if (step < 0)
        tt_str_add(out, "there is no older one, so nothing is saved yet");
    else
        tt_str_addf(out, "the newest that is good is that of step %lld",
                    (long long)step);
}

// Warns about a failed save, now and then; training goes on.
static void warn(tt_trainer *t, int64_t step)
{
    tt_str text = {0};
    char message[420];
    snprintf(message, sizeof message, "%.400s", tt_error_message());
    if (!tt__trainer_is_worth_saying(&t->save_failures))
        return;
    tt_str_addf(&text, "no checkpoint of step %lld, ", (long long)step);
    if (t->save_failures.n > 1)
        tt_str_addf(&text, "%lld failed in a row; ",
                    (long long)t->save_failures.n);
    add_newest(t, &text);
    tt_str_addf(&text, ": %s", message);
    if (tt_str_status(&text) == TT_OK)
        tt__trainer_say(t, TT_TEXT_WARNING, tt_str_text(&text));
    tt_str_fini(&text);
}

// Learns how the previous save ended. One that failed does not count as saved.
static void hear(tt_trainer *t)
{
    const int64_t step = t->saved_step;
    if (tt_checkpoints_wait(t->store) != TT_OK) {
        t->saved_step = -1;
        warn(t, step >= 0 ? step : t->state.step);
    } else if (step >= 0 && step > t->failed_step) {
        t->save_failures.n = 0;
    }
}

void tt__trainer_hear_save(tt_trainer *t)
{
    if (tt__trainer_is_first(t) && !tt_checkpoints_busy(t->store))
        hear(t);
}

tt_status tt__trainer_prepare_save(tt_trainer *t)
{
    const tt_tensors *all = &t->job->tensors;
    if (tt__trainer_is_first(t))
        TT_TRY(tt_snapshot_list(all, t->arena, &t->snapshot));
    if (tt_tensors_are_split(all))
        return tt_spread_open(t->job->exec, all, tt_train_save_most(t->session),
                              &t->spread);
    tt_snapshot_prepare(t->job->exec, all, &t->snapshot);
    return TT_OK;
}

tt_status tt__trainer_carry(tt_trainer *t)
{
    return t->spread != NULL ? tt_spread_carry(t->spread) : TT_OK;
}

// The writer needs nothing more from other ranks, so rank 0 may wait for it.
static tt_status finish_carrying(tt_trainer *t)
{
    return t->spread != NULL ? tt_spread_finish(t->spread) : TT_OK;
}

// A checkpoint's content without the tensors.
static tt_checkpoint_content
content_of(const tt_trainer *t, tt_checkpoint_text text[4], const char *state)
{
    int n = 1;
    text[0] = (tt_checkpoint_text){"config.yaml", tt_str_text(&t->config),
                                   t->config.n};
    if (t->tokenizer.n > 0)
        text[n++] = (tt_checkpoint_text){
            "tokenizer.json", tt_str_text(&t->tokenizer), t->tokenizer.n};
    if (t->origin.n > 0)
        text[n++] = (tt_checkpoint_text){"origin.json", tt_str_text(&t->origin),
                                         t->origin.n};
    if (t->workers.n > 0)
        text[n++] = (tt_checkpoint_text){
            "exchange.bin", tt_str_text(&t->workers), t->workers.n};
    return (tt_checkpoint_content){.step = t->state.step,
                                   .text = text,
                                   .is_passing = t->state.is_passing,
                                   .n_text = n,
                                   .state = state};
}

// Called by the writer's thread before it writes. Metrics and log must be on the
// disk before a checkpoint that refers to their length.
static tt_status get_ready(void *user)
{
    tt_trainer *t = user;
    TT_TRY(t->spread != NULL ? tt_spread_wait(t->spread)
                             : tt_snapshot_wait(&t->snapshot));
    return tt_run_files_sync(&t->files);
}

static tt_status fetch(void *user, const tt_safetensor *tensor,
                       const void **data_out)
{
    const tt_trainer *t = user;
    return tt_spread_fetch(t->spread, tensor->name, data_out);
}

// Hands the snapshot to the writer. Nobody may change it until it is written.
static tt_status hand_over(tt_trainer *t, tt_checkpoint_content *content)
{
    content->fetch = t->spread != NULL ? fetch : NULL;
    content->model = t->snapshot.model;
    content->optim = t->snapshot.optim;
    content->n_model = t->snapshot.n_model;
    content->n_optim = t->snapshot.n_optim;
    content->ready = get_ready;
    content->user = t;
    return tt_checkpoints_save(t->store, content);
}

// How many bytes travel during one step: as many as take a twentieth of it, but enough
// for all to be there in half the steps until the next checkpoint.
static int64_t piece_bytes(const tt_trainer *t)
{
    enum { USUAL = 16, SHARE = 20, LEAST = 4096 };
    const int64_t bytes = tt_spread_to_carry(t->spread);
    const int64_t every = t->session->options.save_every;
    const double per_byte = tt_spread_per_byte(t->spread);
    const double seconds =
        t->n_steps > 0 ? t->step_seconds / (double)t->n_steps : 0;
    int64_t piece = bytes / USUAL;
    if (per_byte > 0 && seconds > 0)
        piece = (int64_t)fmin((double)bytes, seconds / SHARE / per_byte);
    if (every > 1 && piece < 2 * bytes / every)
        piece = 2 * bytes / every;
    return piece > LEAST ? piece : LEAST;
}

// Rank 0 comes here when its writer is idle. The message is what tells the others, so
// that they may overwrite their copies.
static tt_status copy_parts(tt_trainer *t)
{
    int64_t piece = 0;
    if (tt__trainer_is_first(t))
        piece = piece_bytes(t);
    TT_TRY(
        tt_peers_broadcast(&t->job->peers, "checkpoint", &piece, sizeof piece));
    return tt_spread_begin(t->spread, piece);
}

static tt_status save_tensors(tt_trainer *t, tt_checkpoint_content *content)
{
    const tt_tensors *all = &t->job->tensors;
    const bool is_first = tt__trainer_is_first(t);
    if (t->spread != NULL) {
        const tt_status status = copy_parts(t);
        t->is_torn = status != TT_OK;
        TT_TRY(status);
    } else if (tt_tensors_are_split(all)) {
        if (is_first)
            TT_TRY(tt_run_files_sync(&t->files));
        return tt_stream_save(t->job->exec, all, t->store, content,
                              &t->is_torn);
    } else {
        TT_TRY(tt_snapshot_begin(t->job->exec, all, t->arena, &t->snapshot));
    }
    return is_first ? hand_over(t, content) : TT_OK;
}

static void note_saved(tt_trainer *t, bool is_passing)
{
    t->saved_step = t->state.step;
    t->is_saved_in_passing = is_passing;
}

// Every rank takes part. A failure of rank 0's own (its disk, its memory) does not
// become one of the others.
static tt_status save(tt_trainer *t, bool is_passing)
{
    tt_str state = {0};
    tt_checkpoint_text text[4];
    tt_str_clear(&t->workers);
    const tt_status gathered = tt_job_workers_save(t->job, &t->workers);
    if (gathered != TT_OK) { // ranks have sent what nobody takes now
        t->is_torn = true;
        return gathered;
    }
    t->state.seconds = tt__trainer_seconds(t);
    t->state.is_passing = is_passing;
    if (t->run != NULL && tt_job_record(t->job) != NULL)
        TT_TRY(tt_run_write(t->run, "schedule.txt",
                            tt_str_text(tt_job_record(t->job)),
                            tt_job_record(t->job)->n));
    if (t->run != NULL) {
        tt_run_marks_get(t->run, &t->state.marks);
        tt_run_files_get(t->run, &t->files);
    }
    tt_train_state_print(&t->state, t->session, &state);
    tt_checkpoint_content content = content_of(t, text, tt_str_text(&state));
    tt_status status = save_tensors(t, &content);
    if (status == TT_OK && tt__trainer_is_first(t))
        note_saved(t, is_passing);
    tt_str_fini(&state);
    return status;
}

static bool is_best(const tt_trainer *t)
{
    return t->session->options.keep_best && t->state.best_step == t->state.step;
}

bool tt__trainer_is_time(const tt_trainer *t)
{
    const double minutes = t->session->options.save_minutes;
    const double since = tt_clock_seconds() - t->saved_clock;
    return tt__trainer_is_first(t) && minutes > 0 && since > 60 * minutes &&
           !tt_checkpoints_busy(t->store);
}

tt_status tt__trainer_save(tt_trainer *t, bool is_passing)
{
    const double before = tt_clock_seconds();
    const bool is_first = tt__trainer_is_first(t);
    TT_TRY(finish_carrying(t));
    if (is_first)
        hear(t);
    const tt_status status = save(t, is_passing);
    t->saved_clock = tt_clock_seconds();
    if (t->is_torn)
        return status;
    if (is_first && status != TT_OK) {
        t->failed_step = t->state.step;
        warn(t, t->state.step);
    }
    if (is_first && !is_passing && is_best(t) &&
        t->saved_step == t->state.step &&
        tt_checkpoints_mark_best(t->store, t->state.step) != TT_OK)
        warn(t, t->state.step);
    if (!is_first)
        note_saved(t, is_passing);
    // Rank 0 may have waited for its disk longer than the deadline of a message, so
    // the others wait for it here, without a deadline. With parts they have heard of
    // it before they copied them.
    if (t->spread == NULL)
        TT_TRY(tt_peers_follow(&t->job->peers, "checkpoint", TT_OK));
    t->save_stall += tt_clock_seconds() - before;
    return TT_OK;
}

// Whether the last step still has to be saved. Rank 0 knows and tells the others.
static tt_status needs_saving(tt_trainer *t, bool is_passing,
                              int32_t *needs_out)
{
    *needs_out = 0;
    if (tt__trainer_is_first(t)) {
        const tt_status status = tt_checkpoints_wait(t->store);
        if (status != TT_OK && t->saved_step != t->state.step)
            warn(t, t->saved_step); // an older one failed; this one may succeed
        *needs_out = status != TT_OK || t->saved_step != t->state.step ||
                     (t->is_saved_in_passing && !is_passing);
    }
    TT_TRY(tt_peers_follow(&t->job->peers, "checkpoint", TT_OK));
    return tt_peers_broadcast(&t->job->peers, "checkpoint", needs_out,
                              sizeof *needs_out);
}

// The others do not know that rank 0 could not save: its part goes on.
static tt_status finish_despite(tt_trainer *t, tt_status status)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", tt_error_message());
    TT_TRY(finish_carrying(t));
    return tt_fail(status, "%s", message);
}

static tt_status save_last(tt_trainer *t, bool is_passing)
{
    int32_t needs = 0;
    TT_TRY(finish_carrying(t));
    TT_TRY(needs_saving(t, is_passing, &needs));
    if (!needs)
        return TT_OK;
    TT_TRY(tt_job_model(t->job));
    const tt_status status = save(t, is_passing);
    if (t->is_torn)
        return status;
    TT_TRY(status == TT_OK ? finish_carrying(t) : finish_despite(t, status));
    if (!tt__trainer_is_first(t))
        return TT_OK;
    if (!is_passing && is_best(t))
        TT_TRY(tt_checkpoints_mark_best(t->store, t->state.step));
    return tt_checkpoints_wait(t->store);
}

tt_status tt__trainer_save_last(tt_trainer *t, bool is_passing)
{
    const double before = tt_clock_seconds();
    const tt_status status =
        tt_peers_follow(&t->job->peers, "checkpoint", save_last(t, is_passing));
    t->last_save = tt_clock_seconds() - before;
    if (status == TT_OK)
        return status;
    tt_str newest = {0};
    char message[1024];
    snprintf(message, sizeof message, "%s", tt_error_message());
    if (tt__trainer_is_first(t))
        add_newest(t, &newest);
    const tt_status failed = tt_fail(
        status, "the checkpoint of step %lld could not be saved%s%s: %s",
        (long long)t->state.step, newest.n > 0 ? "; " : "",
        tt_str_text(&newest), message);
    tt_str_fini(&newest);
    return failed;
}

static tt_status restore_tensors(tt_trainer *t, const tt_checkpoint *from,
                                 bool is_fork, tt_str *notes)
{
    const tt_restore restore = {.model = from != NULL ? from->model : NULL,
                                .optim = from != NULL ? from->optim : NULL,
                                .name = from != NULL ? from->folder
                                                     : "the checkpoint",
                                .notes = is_fork ? notes : NULL};
    const tt_status status =
        tt_tensors_restore(t->job->exec, &t->job->tensors, &restore, &t->read);
    if (!t->read.is_damaged)
        return status;
    if (from != NULL)
        tt_str_addf(notes, "%s is not used: %s\n", from->folder,
                    tt_error_message());
    return TT_OK;
}

// What workers go on with; a fork's begin anew.
static tt_status restore_workers(tt_trainer *t, const tt_checkpoint *from,
                                 bool is_fork)
{
    const char *bytes = NULL;
    int64_t n = 0;
    tt_status status = TT_OK;
    if (t->job->workers == 0)
        return TT_OK;
    if (from != NULL && !is_fork)
        status = tt_checkpoint_text_read(from, "exchange.bin", &bytes, &n);
    TT_TRY(tt_peers_follow(&t->job->peers, "checkpoint", status));
    return tt_job_workers_load(t->job, bytes, n);
}

tt_status tt__trainer_restore(tt_trainer *t, const tt_checkpoint *from,
                              bool is_fork, tt_str *notes)
{
    tt_settings settings = {0};
    tt_train_state state;
    tt_str text = {0};
    if (from != NULL)
        tt_str_add(&text, from->state);
    tt_status status = tt_peers_share_text(&t->job->peers, "checkpoint", &text);
    if (status == TT_OK)
        status = tt_train_state_read(
            tt_str_text(&text), from != NULL ? from->folder : "the checkpoint",
            t->arena, &state, &settings);
    tt_str_fini(&text);
    TT_TRY(status);
    TT_TRY(restore_tensors(t, from, is_fork, notes));
    if (t->read.is_damaged)
        return TT_OK;
    TT_TRY(restore_workers(t, from, is_fork));
    if (t->job->workers_are_new)
        tt_str_add(notes, "the workers start from the model\n");
    t->state = state;
    t->job->step = state.step;
    t->job->replicas.model_step = state.step;
    if (!t->read.lacks_replicas)
        return TT_OK;
    tt_str_add(notes, "the replicas start from the model\n");
    return tt_job_spread(t->job);
}

// The step to roll back to. Only steps at which every run with these settings saves
// are considered: a checkpoint saved because of a signal must not influence what is
// computed.
static int64_t rollback_target(const tt_trainer *t)
{
    const tt_train_options *o = &t->session->options;
    int64_t target = t->state.step - o->back;
    target = o->save_every > 0 ? target / o->save_every * o->save_every : 0;
    const int64_t least = t->state.judge.anchor > t->state.began
                              ? t->state.judge.anchor
                              : t->state.began;
    return target > least ? target : least;
}

// Continues after the bad batch. Later checkpoints and lines of the log are
// removed, as they belong to a history that did not happen.
static tt_status go_on_after(tt_trainer *t, int64_t position, tt_str *notes)
{
    t->state.position = position;
    tt_job_forget_ahead(t->job);
    TT_TRY(tt_loader_seek(t->loader, position));
    if (!tt__trainer_is_first(t))
        return TT_OK;
    TT_TRY(tt_checkpoints_cut(t->store, t->state.step));
    return tt_run_cut(t->run, t->state.step, &t->state.marks, notes);
}

// The newest checkpoint up to a step: rank 0 opens it.
static tt_status find_target(tt_trainer *t, const char *why, int64_t limit,
                             tt_str *notes, tt_checkpoint **from_out)
{
    tt_status status = TT_OK;
    if (tt__trainer_is_first(t)) {
        // A save that failed is no checkpoint, and that is all there is to know.
        (void)tt_checkpoints_wait(t->store);
        status = tt_checkpoints_upto(t->store, limit, notes, from_out);
        if (status == TT_OK && *from_out == NULL)
            status =
                tt_fail(TT_ERR_IO,
                        "%s, and there is no checkpoint to roll back to", why);
    }
    return tt_peers_follow(&t->job->peers, "rollback", status);
}

// Restores the newest checkpoint up to the target that is not damaged.
static tt_status go_back(tt_trainer *t, const char *why, tt_str *notes)
{
    int64_t limit = rollback_target(t);
    TT_TRY(finish_carrying(t));
    do {
        tt_checkpoint *from = NULL;
        tt_status status = find_target(t, why, limit, notes, &from);
        if (status == TT_OK)
            status = tt__trainer_restore(t, from, false, notes);
        if (status == TT_OK && t->read.is_damaged && from != NULL) {
            limit = from->step - 1;
            status = tt_checkpoints_reject(t->store, from->step);
        }
        tt_checkpoint_close(from);
        TT_TRY(status);
    } while (t->read.is_damaged);
    return TT_OK;
}

tt_status tt__trainer_roll_back(tt_trainer *t, const char *why)
{
    const tt_train_state bad = t->state;
    tt_str notes = {0};
    char text[512];
    tt_status status = go_back(t, why, &notes);
    if (status == TT_OK)
        status = go_on_after(t, bad.position, &notes);
    tt__trainer_say_lines(t, TT_TEXT_WARNING, &notes);
    tt_str_fini(&notes);
    TT_TRY(status);
    tt_judge_rolled_back(&t->state.judge, &bad.judge, bad.step, t->state.step);
    t->state.threads = bad.threads;
    t->state.ranks = bad.ranks;
    memcpy(t->state.isa, bad.isa, sizeof bad.isa);
    note_saved(t, t->state.is_passing);
    t->point_step = t->state.step;
    t->first_step =
        t->first_step < t->state.step ? t->first_step : t->state.step;
    snprintf(text, sizeof text, "%s: rolled back to step %lld, after the batch",
             why, (long long)t->state.step);
    tt__trainer_say(t, TT_TEXT_NOTE, text);
    return TT_OK;
}
