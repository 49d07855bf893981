// trainer_eval - evaluation during training: the best score so far, and patience
// (early stopping). With EMA the averaged weights are evaluated.

#include "train/trainer.h"

#include <math.h>

bool tt__trainer_has_patience(const tt_trainer *t)
{
    const int64_t patience = t->session->options.patience;
    return patience == 0 || t->state.since_best < patience;
}

// A loss that is not finite is never the best.
static bool keep_score(tt_train_state *s, const tt_score *score)
{
    const bool is_best = isfinite(score->loss) && (!isfinite(s->best_loss) ||
                                                   score->loss < s->best_loss);
    s->evaluated = s->step;
    s->val_loss = score->loss;
    s->val_accuracy = score->accuracy;
    s->since_best = is_best ? 0 : s->since_best + 1;
    if (is_best) {
        s->best_loss = score->loss;
        s->best_step = s->step;
    }
    return is_best;
}

static void tell(tt_trainer *t, const tt_score *score, bool is_best)
{
    const bool is_tokens = t->job->model->task == TT_TASK_TOKENS;
    const tt_watch *w = t->request->watch;
    const tt_run_eval eval = {
        .step = t->state.step,
        .loss = score->loss,
        .accuracy = is_tokens ? (double)NAN : score->accuracy,
        .perplexity = score->perplexity,
        .is_best = is_best,
        .seconds = score->seconds,
    };
    if (w != NULL && w->eval != NULL)
        w->eval(w->user, &eval);
}

static void on_way(void *user, const char *text)
{
    tt__trainer_tell(user, TT_TEXT_NOTE, text);
}

static const double often = 10; // seconds between words about an evaluation

tt_status tt__trainer_evaluate(tt_trainer *t)
{
    const bool use_ema = t->session->options.ema > 0;
    // Ranks that evaluate by themselves would not stop after the same batch.
    const bool is_own = t->job->workers > 0 && t->job->peers.size > 1;
    const volatile sig_atomic_t *stop = is_own ? NULL : t->request->stop;
    tt_score score;
    bool is_stopped = false;
    TT_TRY(
        tt_inference_sync(tt_evaluator_infer(t->evaluator), t->job, use_ema));
    if (tt__trainer_is_first(t))
        tt_evaluator_tell(t->evaluator, often, on_way, t);
    TT_TRY(tt_evaluator_run(t->evaluator, stop, &score, &is_stopped));
    if (is_stopped) {
        t->is_stopped = t->is_broken_off = true;
        return TT_OK;
    }
    if (is_own) // nor may they decide by bits of their own
        TT_TRY(
            tt_peers_broadcast(&t->job->peers, "score", &score, sizeof score));
    const bool is_best = keep_score(&t->state, &score);
    tt__trainer_log_score(t, &score);
    tell(t, &score, is_best);
    return TT_OK;
}
