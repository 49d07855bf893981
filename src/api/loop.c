// loop - tutti_train: the whole training loop, for programs that use the library.
//
// It is the loop of `tutti train`: data, schedule, evaluation, checkpoints, resuming.
// The program's watch is told what the command would print. When the loop ends the
// trained job moves into the session, which can then be read, saved or sampled from.

#include "train/loop.h"

#include "api/session.h"
#include "ranks/ranks.h"
#include "session/meet.h"
#include "train/folders.h"

// The caller's watch. The functions below translate for it.
typedef struct relay {
    const tutti_watch *to;
} relay;

static void on_point(void *user, const tt_run_point *p)
{
    const tutti_watch *to = ((const relay *)user)->to;
    const tutti_point point = {
        .step = p->step,
        .steps = p->steps,
        .epoch = p->epoch,
        .loss = p->loss,
        .accuracy = p->accuracy,
        .perplexity = p->perplexity,
        .rate = p->lr,
        .norm = p->norm,
        .step_seconds = p->step_seconds,
    };
    if (to->point != NULL)
        to->point(to->user, &point);
}

static void on_eval(void *user, const tt_run_eval *e)
{
    const tutti_watch *to = ((const relay *)user)->to;
    const tutti_evaluation evaluation = {
        .step = e->step,
        .loss = e->loss,
        .accuracy = e->accuracy,
        .perplexity = e->perplexity,
        .is_best = e->is_best,
    };
    if (to->evaluation != NULL)
        to->evaluation(to->user, &evaluation);
}

static void on_text(void *user, tt_run_text kind, int64_t step,
                    const char *text)
{
    const tutti_watch *to = ((const relay *)user)->to;
    (void)kind;
    if (to->note != NULL)
        to->note(to->user, step, text);
}

static tt_status find_folder(tutti_session *session, const char **folder_out)
{
    const tt_setting *run = tt_settings_find(&session->settings, "run");
    if (run != NULL)
        *folder_out = run->value;
    else
        TT_TRY(tt_run_default_folder(
            NULL, tt_config_text(&session->settings, "model"), session->arena,
            folder_out));
    return tt_settings_set(&session->settings, "run", *folder_out,
                           "tutti_train", session->arena);
}

// All ranks open the same run and check that they did. Only rank 0 moves folders.
static tt_status open_run(tutti_session *session, bool is_fresh,
                          const char **folder_out, tt_session **trained_out)
{
    static const tt_peers alone = {.size = 1};
    const tt_peers *peers = session->peers != NULL ? session->peers : &alone;
    const char *aside = NULL;
    tt_status status = find_folder(session, folder_out);
    if (status == TT_OK)
        status = tt__api_apply_system(session);
    if (status == TT_OK)
        status = tt_session_open_peers(&session->settings, NULL, true,
                                       session->peers, trained_out);
    TT_TRY(tt_peers_agree(peers, "opening", status));
    TT_TRY(
        tt_session_meet(*trained_out, tt_ranks_build(peers, session->arena)));
    if (is_fresh && tt_peers_is_first(peers))
        status = tt_run_set_aside(*folder_out, session->arena, &aside);
    return tt_peers_follow(peers, "moving the old run", status);
}

// The trained job becomes the session's, to be read, saved or trained further. So does
// the tokenizer, so that the session can generate text.
static tt_status take_job(tutti_session *session, tt_session *trained)
{
    tt_source *train = trained->data->train;
    session->job = trained->job;
    session->job_arena = trained->arena;
    trained->job = NULL;
    trained->arena = NULL;
    tt__api_touch(session);
    if (train->tokenizer != NULL) {
        tt_tokenizer_close(session->tokenizer);
        session->tokenizer = train->tokenizer;
        train->tokenizer = NULL;
    }
    return tt__api_describe(session);
}

static tt_status train(tutti_session *session,
                       const tutti_train_options *options,
                       tutti_train_result *result_out)
{
    static const tutti_train_options none = {0};
    const tutti_train_options *o = options != NULL ? options : &none;
    relay pass = {o->watch};
    const tt_watch watch = {
        .user = &pass, .point = on_point, .eval = on_eval, .text = on_text};
    tt_train_request request = {.watch = o->watch != NULL ? &watch : NULL,
                                .fork = o->fork,
                                .stop = o->stop};
    tt_session *trained = NULL;
    tt_run_end end = {0};
    TT_TRY(tt__api_need_unplanned(session));
    if (tutti_rank(session) > 0)
        request.watch = NULL; // rank 0 sees everything
    tt_status status =
        open_run(session, o->is_fresh, &request.folder, &trained);
    if (status == TT_OK && trained != NULL)
        status = tt_train(trained, &request, &end);
    if (status == TT_OK && trained != NULL)
        status = take_job(session, trained);
    tt_session_close(trained);
    TT_TRY(status);
    if (result_out != NULL)
        *result_out = (tutti_train_result){
            .reason = end.reason == TT_RUN_SIGNAL  ? TUTTI_RUN_STOPPED
                      : end.reason == TT_RUN_EARLY ? TUTTI_RUN_EARLY
                                                   : TUTTI_RUN_DONE,
            .step = end.step,
            .loss = end.loss,
            .val_loss = end.val_loss,
            .best_loss = end.best_loss,
            .val_accuracy = end.accuracy,
        };
    return TT_OK;
}

tutti_status tutti_train(tutti_session *session,
                         const tutti_train_options *options,
                         tutti_train_result *result_out)
{
    TT_API_NEED(session);
    return tt__api_result(train(session, options, result_out));
}
