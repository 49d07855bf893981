// evaluate - runs a split through the model for inference and adds up.
//
// Losses are sums over targets, with a count. The mean is taken once, at the end,
// so the result does not depend on how the split was cut into batches or over
// ranks.

#include "train/evaluate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/figures.h"
#include "job/feed.h"

#include <math.h>

static const double deadline = 600; // seconds for one batch

struct tt_evaluator {
    tt_session *session;
    tt_inference *infer;
    tt_loader *loader;
    int64_t n_batches;
    double every; // seconds
    tt_evaluator_tell_fn *tell;
    void *user;
};

void tt_evaluator_tell(tt_evaluator *evaluator, double every,
                       tt_evaluator_tell_fn *tell, void *user)
{
    evaluator->every = every;
    evaluator->tell = tell;
    evaluator->user = user;
}

tt_inference *tt_evaluator_infer(const tt_evaluator *evaluator)
{
    return evaluator->infer;
}

void tt_evaluator_close(tt_evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    tt_loader_close(evaluator->loader);
    tt_inference_close(evaluator->infer);
    tt_free(evaluator);
}

static tt_status open_parts(tt_evaluator *e)
{
    tt_session *s = e->session;
    const int64_t micro = s->job->io.batch;
    const int64_t n = tt_loader_epoch(s->data->val, s->job->io.seq);
    tt_loader_options options =
        s->loader; // as in training: this rank's samples
    e->n_batches = (n + micro - 1) / micro;
    if (s->options.eval_batches > 0 && s->options.eval_batches < e->n_batches)
        e->n_batches = s->options.eval_batches;
    // If only a part of the split is evaluated (eval.batches), it is spread over
    // all of it. The order is a function of the seed, so it is the same part every
    // time.
    options.shuffle = e->n_batches * micro < n;
    options.step_samples = micro;
    options.n_micro = 1;
    options.end = n;
    options.transform.is_train = false;
    const tt_inference_options on_ranks = {.on_ranks = true};
    TT_TRY(tt_inference_open(s->job, &on_ranks, &e->infer));
    return tt_loader_open(s->data->val, &options, &e->loader);
}

tt_status tt_evaluator_open(tt_session *session, tt_evaluator **evaluator_out)
{
    tt_evaluator *e = tt_alloc(sizeof *e);
    if (e == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to evaluate");
    e->session = session;
    const tt_status status = open_parts(e);
    if (status != TT_OK) {
        tt_evaluator_close(e);
        return status;
    }
    *evaluator_out = e;
    return TT_OK;
}

static tt_status add_batch(tt_evaluator *e, tt_inference_result *sum)
{
    tt_inference *infer = e->infer;
    tt_batch batch;
    tt_inference_result result;
    TT_TRY(tt_loader_next(e->loader, deadline, &batch));
    TT_TRY(
        tt_feed_batch(infer->plan, infer->classes, &batch, infer->x, infer->y));
    TT_TRY(tt_inference_batch(infer, infer->x, infer->y, &result));
    sum->loss += result.loss;
    sum->count += result.count;
    sum->correct += result.correct;
    sum->stop = result.stop;
    return TT_OK;
}

static int64_t samples_of(const tt_evaluator *e)
{
    const tt_session *s = e->session;
    const int64_t all = tt_loader_epoch(s->data->val, s->job->io.seq);
    const int64_t seen = e->n_batches * s->job->io.batch;
    return seen < all ? seen : all;
}

// Tells the progress now and then: a large split looks like a program that hangs.
static void tell(const tt_evaluator *e, int64_t done, double began,
                 double *told)
{
    const double now = tt_clock_seconds();
    tt_str text = {0};
    if (e->tell == NULL || done >= e->n_batches || now - *told < e->every)
        return;
    *told = now;
    tt_str_add(&text, "evaluating: ");
    tt_add_grouped(&text, done);
    tt_str_add(&text, " of ");
    tt_add_grouped(&text, e->n_batches);
    const double left =
        (now - began) / (double)done * (double)(e->n_batches - done);
    tt_str_addf(&text, " batches, about %.0f %s left",
                left < 120 ? left : left / 60,
                left < 120 ? "seconds" : "minutes");
    if (tt_str_status(&text) == TT_OK)
        e->tell(e->user, tt_str_text(&text));
    tt_str_fini(&text);
}

tt_status tt_evaluator_run(tt_evaluator *evaluator,
                           const volatile sig_atomic_t *stop,
                           tt_score *score_out, bool *is_stopped_out)
{
    const double before = tt_clock_seconds();
    double told = before;
    tt_inference_result sum = {0};
    tt_score score = {0};
    TT_TRY(tt_loader_seek(evaluator->loader, 0));
    // A wish to stop travels with each batch, so all ranks leave after the same
    // one.
    for (int64_t i = 0; i < evaluator->n_batches; i++) {
        evaluator->infer->wants_stop = stop != NULL && *stop != 0;
        TT_TRY(add_batch(evaluator, &sum));
        if (sum.stop && i + 1 < evaluator->n_batches) {
            *is_stopped_out = true;
            return TT_OK;
        }
        tell(evaluator, i + 1, before, &told);
    }
    *is_stopped_out = false;
    const bool is_tokens =
        evaluator->session->job->model->task == TT_TASK_TOKENS;
    score.samples = samples_of(evaluator);
    score.count = sum.count;
    score.loss = sum.count > 0 ? sum.loss / sum.count : (double)NAN;
    score.accuracy = sum.count > 0 ? sum.correct / sum.count : (double)NAN;
    score.perplexity = is_tokens ? exp(score.loss) : (double)NAN;
    score.seconds = tt_clock_seconds() - before;
    *score_out = score;
    return TT_OK;
}
