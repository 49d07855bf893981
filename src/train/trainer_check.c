// trainer_check - checks before a run begins. They change nothing: the folder, the
// checkpoint it would resume from, the data and the weights.
//
// The worst thing a start can do is to begin at step 0 in a folder whose
// checkpoints are gone or damaged, and to overwrite what is left. So a trace of
// earlier training without a usable checkpoint is an error, and only --fresh begins
// anew.

#include "base/file.h"
#include "state/restore.h"
#include "train/folders.h"
#include "train/trainer.h"
#include "weights/weights.h"

#include <string.h>

// Whether the run may go on from its checkpoint with today's settings and data.
tt_status tt__trainer_check_resume(tt_trainer *t, const tt_checkpoint *from,
                                   tt_str *notes)
{
    tt_settings then = {0};
    tt_train_state state;
    const tt_fingerprint *data = NULL;
    tt_str changed = {0};
    TT_TRY(tt_train_state_read(from->state, from->folder, t->arena, &state,
                               &then));
    TT_TRY(tt_fingerprint_of_state(from->state, from->folder, t->arena, &data));
    tt_fingerprint_describe(data, t->session->fingerprint, &changed);
    tt_status status = tt_str_status(&changed);
    if (status == TT_OK)
        status = tt_train_state_compare(
            t->session, &then, tt_str_text(&changed), t->request->folder);
    tt_str_fini(&changed);
    TT_TRY(status);
    return tt_fingerprint_compare(data, t->session->fingerprint,
                                  t->request->folder, notes);
}

// Refuses to begin, with the reason: the first note about a bad checkpoint.
static tt_status refuse(const tt_trainer *t, const tt_str *notes)
{
    const char *text = tt_str_text(notes);
    const char *first = strstr(text, "/checkpoints/step-");
    if (first == NULL)
        return tt_fail(TT_ERR_STATE,
                       "%s has trained before, and its checkpoints are gone: "
                       "put them back, or begin again at step 0 with --fresh",
                       t->request->folder);
    while (first > text && first[-1] != '\n')
        first--;
    return tt_fail(TT_ERR_STATE,
                   "%s has trained before, and none of its checkpoints can be "
                   "used: put a good one back, or begin again at step 0 with "
                   "--fresh (%.*s)",
                   t->request->folder, (int)strcspn(first, "\n"), first);
}

// Whether the folder is one in which nothing was saved yet, so that beginning at step 0
// loses nothing but what was computed.
tt_status tt__trainer_check_anew(const tt_trainer *t, const tt_str *notes)
{
    bool has_saved = false;
    const char *folder =
        tt_arena_printf(t->arena, "%s/checkpoints", t->request->folder);
    if (folder == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_checkpoints_trace(folder, &has_saved));
    return has_saved ? refuse(t, notes) : TT_OK;
}

// A run makes its checkpoints folder before it writes metrics. Metrics without that
// folder mean that somebody removed the checkpoints.
static tt_status check_metrics(const tt_trainer *t, const tt_str *notes)
{
    tt_str metrics = {0};
    const char *folder =
        tt_arena_printf(t->arena, "%s/checkpoints", t->request->folder);
    if (folder == NULL)
        return TT_ERR_NOMEM;
    if (tt_file_exists(folder))
        return TT_OK;
    const bool has_metrics =
        tt_run_read(t->request->folder, "metrics.jsonl", &metrics) == TT_OK &&
        metrics.n > 0;
    tt_str_fini(&metrics);
    return has_metrics ? refuse(t, notes) : TT_OK;
}

tt_status tt__trainer_check_folder(const tt_trainer *t, const tt_str *notes)
{
    TT_TRY(tt_run_check_folder(t->request->folder, t->arena));
    return check_metrics(t, notes);
}

// ---- without a start -----------------------------------------------------

// Whether training could use the folder: it exists or can be made, and no other
// process holds its lock.
static tt_status check_place(const tt_trainer *t, bool is_fresh)
{
    const char *folder = t->request->folder;
    const char *checkpoints =
        tt_arena_printf(t->arena, "%s/checkpoints", folder);
    tt_str none = {0};
    if (checkpoints == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(is_fresh ? tt_run_check_aside(folder, t->arena)
                    : tt_file_check_folder(checkpoints));
    TT_TRY(tt_file_lock_look(checkpoints));
    return is_fresh ? tt_file_check_folder(folder)
                    : tt__trainer_check_folder(t, &none);
}

// Whether a checkpoint has the tensors that the model needs.
static tt_status check_tensors(tt_trainer *t, const tt_checkpoint *from,
                               tt_str *notes)
{
    const tt_restore restore = {.model = from->model,
                                .optim = from->optim,
                                .name = from->folder,
                                .notes = notes};
    return tt_tensors_check(&t->job->tensors, &restore);
}

static tt_status check_own(tt_trainer *t, tt_str *notes, bool *found_out)
{
    const tt_checkpoint_search search = {
        .leaves_data = true, .is_optional = true, .limit = INT64_MAX};
    tt_checkpoint *from = NULL;
    *found_out = false;
    if (!tt_file_is_folder(t->request->folder))
        return TT_OK;
    TT_TRY(tt_checkpoint_read(t->request->folder, &search, notes, &from));
    *found_out = from != NULL;
    tt_status status = from != NULL ? tt__trainer_check_resume(t, from, notes)
                                    : tt__trainer_check_anew(t, notes);
    if (status == TT_OK && from != NULL)
        status = check_tensors(t, from, NULL);
    tt_checkpoint_close(from);
    return status;
}

static tt_status check_fork(tt_trainer *t, tt_str *notes)
{
    const tt_checkpoint_search search = {.leaves_data = true,
                                         .limit = INT64_MAX};
    tt_checkpoint *from = NULL;
    TT_TRY(tt_checkpoint_read(t->request->fork, &search, notes, &from));
    const tt_status status = check_tensors(t, from, notes);
    tt_checkpoint_close(from);
    return status;
}

static tt_status check_start(tt_trainer *t, bool is_fresh, tt_str *notes)
{
    bool is_found = false;
    TT_TRY(check_place(t, is_fresh));
    TT_TRY(tt_job_check_schedule(t->job));
    if (t->session->fingerprint == NULL)
        TT_TRY(tt_fingerprint_take(t->session->data, t->session->arena,
                                   &t->session->fingerprint));
    if (!is_fresh)
        TT_TRY(check_own(t, notes, &is_found));
    if (is_found)
        return TT_OK;
    return t->request->fork != NULL ? check_fork(t, notes)
                                    : tt_job_check_from(t->job, notes);
}

tt_status tt_train_check(tt_session *session, const tt_train_request *request,
                         bool is_fresh)
{
    tt_trainer t = {.arena = tt_arena_create(),
                    .session = session,
                    .job = session->job,
                    .request = request};
    tt_str notes = {0};
    if (t.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look at the run");
    const tt_status status = check_start(&t, is_fresh, &notes);
    tt_str_fini(&notes);
    tt_arena_destroy(t.arena);
    return status;
}
