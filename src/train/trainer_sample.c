// trainer_sample - a text from the model as it is, now and then.

#include "train/trainer.h"

#include <string.h>

static tt_status collect(void *user, const char *text, int64_t n)
{
    tt_str_add_bytes(user, text, n);
    return tt_str_status(user);
}

static tt_status generate(tt_trainer *t, tt_str *text)
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
    if (t->generator == NULL)
        TT_TRY(tt_generator_open(t->job, t->session->data->train->tokenizer,
                                 &t->generator));
    TT_TRY(tt_generator_sync(t->generator, t->job, o->ema > 0));
    tt_str_add(text, o->prompt);
    return tt_generate(t->generator, &request, NULL);
}

void tt__trainer_sample(tt_trainer *t)
{
    tt_str text = {0};
    if (t->sample_has_failed)
        return;
    if (generate(t, &text) == TT_OK) {
        tt__trainer_say(t, TT_TEXT_SAMPLE, tt_str_text(&text));
    } else {
        t->sample_has_failed = true; // no reason to stop training
        tt_str_clear(&text);
        tt_str_addf(&text, "no samples: %s", tt_error_message());
        tt__trainer_say(t, TT_TEXT_WARNING, tt_str_text(&text));
    }
    tt_str_fini(&text);
}
