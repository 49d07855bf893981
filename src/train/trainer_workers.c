// trainer_workers - what workers at their own pace did: words about bad ones, a sentence at
// the end, and RUN/workers.json.

#include "train/trainer.h"

#include <stdio.h>

// The worker that was refused most.
static int32_t worst(const tt_workers *w)
{
    int32_t at = 0;
    for (int32_t i = 1; i < w->n; i++)
        if (w->worker[i].refused > w->worker[at].refused)
            at = i;
    return at;
}

static void say_refused(tt_trainer *t, const tt_workers *w)
{
    char text[256];
    const int32_t who = worst(w);
    snprintf(text, sizeof text,
             "the server has refused %lld gradient%s that were not finite, too "
             "long, or of a loss beyond train.spike: %lld of worker %d",
             (long long)w->refused, w->refused == 1 ? "" : "s",
             (long long)w->worker[who].refused, who);
    tt__trainer_say(t, TT_TEXT_WARNING, text);
}

tt_status tt__trainer_workers_hear(tt_trainer *t)
{
    tt_workers w = {0};
    if (t->job->workers == 0 || !tt__trainer_is_first(t))
        return TT_OK;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = tt_job_workers_did(t->job, arena, &w);
    if (status == TT_OK && w.refused > t->n_refused &&
        tt__trainer_is_worth_saying(&t->refusals))
        say_refused(t, &w);
    t->n_refused = w.refused;
    tt_arena_destroy(arena);
    return status;
}

static void print_worker(const tt_workers *w, int32_t i, tt_json *j)
{
    const tt_worker_row *row = &w->worker[i];
    tt_json_open(j, NULL, '{');
    tt_json_i64(j, "worker", i);
    tt_json_i64(j, "gradients", row->pushed);
    tt_json_i64(j, "dropped", row->dropped);
    tt_json_i64(j, "refused", row->refused);
    tt_json_f64(j, "staleness", row->staleness);
    if (w->is_drawn) {
        tt_json_f64(j, "computed", row->computed);
        tt_json_f64(j, "held", row->held);
        tt_json_f64(j, "moved", row->moved);
    }
    tt_json_close(j, '}');
}

static void print(const tt_workers *w, tt_json *j)
{
    tt_json_open(j, NULL, '{');
    tt_json_i64(j, "updates", w->updates);
    tt_json_i64(j, "gradients", w->pushed);
    tt_json_i64(j, "dropped", w->dropped);
    tt_json_i64(j, "refused", w->refused);
    tt_json_f64(j, "staleness", w->staleness);
    if (w->is_drawn)
        tt_json_f64(j, "time", w->now);
    tt_json_open(j, "histogram", '[');
    for (int32_t i = 0; i < w->n_bins; i++)
        tt_json_i64(j, NULL, w->histogram[i]);
    tt_json_close(j, ']');
    tt_json_open(j, "workers", '[');
    for (int32_t i = 0; i < w->n; i++)
        print_worker(w, i, j);
    tt_json_close(j, ']');
    tt_json_close(j, '}');
}

static void say(tt_trainer *t, const tt_workers *w)
{
    char text[320];
    double held = 0, all = 0;
    for (int32_t i = 0; i < w->n; i++) {
        held += w->worker[i].held;
        all += w->worker[i].held + w->worker[i].computed + w->worker[i].moved;
    }
    int n = snprintf(
        text, sizeof text,
        "%d workers: %lld gradients in %lld updates, staleness %.2f on average "
        "and %d at most, %lld dropped, %lld refused",
        w->n, (long long)w->pushed, (long long)w->updates, w->staleness,
        w->n_bins > 0 ? w->n_bins - 1 : 0, (long long)w->dropped,
        (long long)w->refused);
    if (w->is_drawn && all > 0)
        snprintf(text + n, sizeof text - (size_t)n,
                 "; held by the clock %.1f%% of their time", 100 * held / all);
    tt__trainer_say(t, TT_TEXT_NOTE, text);
}

tt_status tt__trainer_workers_end(tt_trainer *t)
{
    tt_workers w = {0};
    tt_str text = {0};
    tt_json json = {.out = &text};
    if (t->job->workers == 0 || t->run == NULL || t->n_steps == 0)
        return TT_OK;
    TT_TRY(tt_job_workers_did(t->job, t->arena, &w));
    print(&w, &json);
    tt_str_add(&text, "\n");
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status =
            tt_run_write(t->run, "workers.json", tt_str_text(&text), text.n);
    tt_str_fini(&text);
    say(t, &w);
    return status;
}
