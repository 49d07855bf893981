// trainer_sample - generates a text with the current weights, now and then. Rank 0
// has the generator, with a copy of all weights; the other ranks only help to
// gather them.

#include "train/trainer.h"

#include <string.h>

static tt_status collect(void *user, const char *text, int64_t n)
{
    tt_str_add_bytes(user, text, n);
    return tt_str_status(user);
}

// What the other ranks do: they take part in gathering whole weights.
static tt_status help(tt_trainer *t)
{
    return tt_tensors_copy(t->job->exec, &t->job->tensors, NULL, NULL,
                           t->session->options.ema > 0);
}

static tt_status open(tt_trainer *t)
{
    if (t->generator != NULL)
        return TT_OK;
    return tt_generator_open(t->job, t->session->data->train->tokenizer,
                             &t->generator);
}

static tt_status generate(tt_trainer *t, tt_str *text, bool *is_whole_out)
{
    const tt_train_options *o = &t->session->options;
    const tt_generate_request request = {
        .prompt = o->prompt,
        .n_prompt = (int64_t)strlen(o->prompt),
        .tokens = o->sample_tokens,
        .sampler = {.temperature = o->temperature,
                    .top_k = o->top_k,
                    .top_p = o->top_p,
                    .seed = t->job->options.seed},
        .number = t->state.step,
        .write = collect,
        .user = text,
        .stop = t->request->stop,
    };
    tt_generate_result result = {0};
    tt_str_add(text, o->prompt);
    TT_TRY(tt_generate(t->generator, &request, &result));
    *is_whole_out = result.is_end || result.n_tokens >= o->sample_tokens;
    return TT_OK;
}

// `is_torn_out`: it failed half-way, so ranks are no longer in step.
static tt_status sample(tt_trainer *t, tt_str *text, bool *is_torn_out)
{
    const tt_peers *peers = &t->job->peers;
    const bool is_first = tt__trainer_is_first(t);
    TT_TRY(tt_peers_follow(peers, "sample", is_first ? open(t) : TT_OK));
    tt_status status = is_first ? tt_generator_sync(t->generator, t->job,
                                                    t->session->options.ema > 0)
                                : help(t);
    *is_torn_out = status != TT_OK && peers->size > 1;
    if (*is_torn_out)
        return status;
    bool is_whole = true;
    if (status == TT_OK && is_first)
        status = generate(t, text, &is_whole);
    TT_TRY(tt_peers_follow(peers, "sample", status));
    // A signal may have reached rank 0 only, and ended the text early. All ranks
    // must know.
    TT_TRY(tt_peers_broadcast(peers, "sample", &is_whole, sizeof is_whole));
    if (!is_whole)
        t->is_stopped = t->is_broken_off = true;
    return TT_OK;
}

// Writes the sample to the log, as a note with continued lines, and to TensorBoard.
static void keep(tt_trainer *t, const char *text)
{
    tt_str note = {0};
    if (t->run == NULL)
        return;
    tt__trainer_check_log(t, tt_run_log_text(t->run, t->state.step,
                                             &(tt_report_row){"sample", text}));
    tt_str_add(&note, "sample\n");
    tt_str_add(&note, text);
    const tt_status status = tt_str_status(&note);
    tt__trainer_check_log(
        t, status != TT_OK
               ? status
               : tt_run_note(t->run, t->state.step, tt_str_text(&note)));
    tt_str_fini(&note);
}

tt_status tt__trainer_sample(tt_trainer *t)
{
    tt_str text = {0};
    bool is_torn = false;
    if (t->sample_has_failed)
        return TT_OK;
    const tt_status status = sample(t, &text, &is_torn);
    if (status == TT_OK && t->is_broken_off) {
        tt_str_fini(&text);
        return TT_OK;
    }
    t->state.sampled = t->state.step;
    if (status == TT_OK) {
        tt__trainer_tell(t, TT_TEXT_SAMPLE, tt_str_text(&text));
        keep(t, tt_str_text(&text));
    } else if (!is_torn) {
        t->sample_has_failed = true; // no reason to stop training
        tt_str_clear(&text);
        tt_str_addf(&text, "no samples: %s", tt_error_message());
        tt__trainer_say(t, TT_TEXT_WARNING, tt_str_text(&text));
    }
    tt_str_fini(&text);
    return is_torn ? status : TT_OK;
}
