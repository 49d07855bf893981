// session_text - model and data in a line each, for people.

#include "session/session.h"

#include <stdio.h>
#include <string.h>

// What the user or the preset chose for the model, after its name.
const char *tt_session_model_text(tt_session *session)
{
    const tt_job *job = session->job;
    tt_str own = {0}, text = {0};
    tt_opt_print(job->model->options, job->model_params, false, &own);
    tt_str_add(&text, job->options.model);
    if (own.n > 0)
        tt_str_addf(&text, ": %s", tt_str_text(&own));
    const char *copy = tt_str_keep(&text, session->arena);
    tt_str_fini(&own);
    return copy != NULL ? copy : "";
}

static void add_count(tt_str *out, int64_t n)
{
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < length; i++)
        tt_str_addf(out, "%s%c", i > 0 && (length - i) % 3 == 0 ? "," : "",
                    digits[i]);
}

static void add_split(tt_str *out, const char *before, const tt_source *source,
                      const char *what)
{
    tt_str_add(out, before);
    add_count(out, source->n);
    tt_str_addf(out, " %s", what);
}

const char *tt_session_data_text(tt_session *session)
{
    const tt_data *data = session->data;
    const tt_source *any = data->train != NULL ? data->train : data->val;
    const bool is_tokens = any->kind == TT_DATA_TOKENS;
    tt_str text = {0};
    tt_str_add(&text, data->def->name);
    if (data->options.path[0] != '\0')
        tt_str_addf(&text, " %s", data->options.path);
    if (any->tokenizer != NULL)
        tt_str_addf(&text, ", %s", tt_tokenizer_kind(any->tokenizer));
    if (data->train != NULL)
        add_split(&text, ": ", data->train, is_tokens ? "tokens" : "images");
    if (data->val != NULL)
        add_split(&text, data->train != NULL ? ", " : ": ", data->val,
                  data->train != NULL ? "to validate"
                  : is_tokens         ? "tokens"
                                      : "images");
    const char *copy = tt_str_keep(&text, session->arena);
    return copy != NULL ? copy : "";
}

// "adamw, lr 0.001, cosine, warm-up over 100 steps"
const char *tt_session_optim_text(tt_session *session)
{
    const tt_job *job = session->job;
    const tt_schedule *schedule = &job->optim_params.schedule;
    tt_str text = {0};
    tt_str_addf(&text, "%s, lr %g", job->options.optim, job->rate);
    if (job->optim_params.lr_scale != TT_LR_SCALE_NONE)
        tt_str_addf(&text, " (%g for a batch of %g)", job->optim_params.lr,
                    job->optim_params.lr_batch);
    tt_str_add(&text, ", ");
    tt_opt_print_value(tt_opt_find(tt_schedule_options, "schedule"), schedule,
                       &text);
    if (schedule->warmup > 0)
        tt_str_addf(&text, ", warm-up over %lld steps",
                    (long long)schedule->warmup);
    const char *copy = tt_str_keep(&text, session->arena);
    return copy != NULL ? copy : "";
}
