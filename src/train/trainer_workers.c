// trainer_workers - what workers at their own pace did: words about bad and slow ones, a
// sentence at the end, metrics, and RUN/workers.json.

#include "train/trainer.h"
#include "train/workers_text.h"

#include <math.h>

typedef void sentence_fn(const tt_workers *workers, tt_str *out);

static void say(tt_trainer *t, tt_run_text kind, sentence_fn *sentence,
                const tt_workers *w)
{
    tt_str text = {0};
    sentence(w, &text);
    if (text.n > 0)
        tt__trainer_say(t, kind, tt_str_text(&text));
    tt_str_fini(&text);
}

void tt__trainer_workers_open(tt_trainer *t)
{
    t->sums = tt_job_workers_sums(t->job);
    t->n_refused = t->sums.refused;
    const char *caveat = tt_job_workers_caveat(t->job);
    if (caveat != NULL && tt__trainer_is_first(t))
        tt__trainer_say(t, TT_TEXT_NOTE, caveat);
}

tt_status tt__trainer_workers_hear(tt_trainer *t)
{
    tt_workers w = {0};
    if (t->job->workers == 0 || !tt__trainer_is_first(t))
        return TT_OK;
    const int64_t n = tt_job_workers_sums(t->job).refused;
    const bool is_new = n > t->n_refused;
    t->n_refused = n;
    if (!is_new || !tt__trainer_is_worth_saying(&t->refusals))
        return TT_OK;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = tt_job_workers_did(t->job, arena, &w);
    if (status == TT_OK)
        say(t, TT_TEXT_WARNING, tt_workers_refused_sentence, &w);
    tt_arena_destroy(arena);
    return status;
}

double tt__trainer_workers_point(tt_trainer *t, tt_workers_sums *sums_out)
{
    const tt_workers_sums now = tt_job_workers_sums(t->job), was = t->sums;
    const int64_t used = now.used - was.used;
    t->sums = now;
    *sums_out = now;
    return used > 0 ? (double)(now.stale - was.stale) / (double)used
                    : (double)NAN;
}

static tt_status write_workers(const tt_trainer *t, const tt_workers *w)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_workers_print_json(w, true, &json);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status =
            tt_run_write(t->run, "workers.json", tt_str_text(&text), text.n);
    tt_str_fini(&text);
    return status;
}

tt_status tt__trainer_workers_write(tt_trainer *t, tt_arena *arena,
                                    const tt_workers **workers_out)
{
    tt_workers *w = tt_arena_alloc(arena, sizeof *w);
    if (w == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_job_workers_did(t->job, arena, w));
    *workers_out = w;
    return w->n > 0 ? write_workers(t, w) : TT_OK;
}

tt_status tt__trainer_workers_end(tt_trainer *t)
{
    const tt_workers *w = NULL;
    if (t->job->workers == 0 || t->run == NULL || t->n_steps == 0)
        return TT_OK;
    TT_TRY(tt__trainer_workers_write(t, t->session->arena, &w));
    if (w->n == 0)
        return TT_OK;
    t->did = w;
    say(t, TT_TEXT_NOTE, tt_workers_sentence, w);
    say(t, TT_TEXT_NOTE, tt_workers_load_sentence, w);
    say(t, TT_TEXT_WARNING, tt_workers_slow_sentence, w);
    say(t, TT_TEXT_WARNING, tt_workers_refused_sentence, w);
    return TT_OK;
}
