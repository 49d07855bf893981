// run_state - the trainer's state as JSON, inside a checkpoint's state.json.
//
// The file is read with suspicion. Its hash says that it was not damaged, not that
// this program wrote it. Numbers must be in a range in which counting on cannot
// overflow.

#include "train/run_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tt_train_state_init(tt_train_state *state)
{
    *state = (tt_train_state){.best_loss = (double)NAN,
                              .val_loss = (double)NAN,
                              .val_accuracy = (double)NAN,
                              .train_loss = (double)NAN,
                              .evaluated = -1,
                              .sampled = -1,
                              .marks = TT_RUN_UNMARKED,
                              .best_step = -1};
}

static void print_source(tt_json *json, const char *key, const tt_source *s)
{
    char text[96];
    if (s == NULL)
        return;
    snprintf(text, sizeof text, "%lld %s, %lld %s", (long long)s->n,
             s->kind == TT_DATA_TOKENS ? "tokens" : "images",
             (long long)s->classes,
             s->kind == TT_DATA_TOKENS ? "in the vocabulary" : "classes");
    tt_json_str(json, key, text);
}

static void print_settings(tt_json *json, const tt_session *session)
{
    const tt_settings *s = &session->resolved;
    tt_json_open(json, "settings", '{');
    for (int64_t i = 0; i < s->n; i++)
        tt_json_str(json, s->v[i].key, s->v[i].value);
    print_source(json, "(training data)", session->data->train);
    print_source(json, "(validation data)", session->data->val);
    tt_json_close(json, '}');
}

static void print_mark(tt_json *json, const char *key, const tt_run_mark *mark)
{
    if (mark->bytes < 0)
        return;
    tt_json_open(json, key, '{');
    tt_json_i64(json, "bytes", mark->bytes);
    tt_json_str(json, "xxh3", mark->hash);
    tt_json_close(json, '}');
}

static void print_marks(tt_json *json, const tt_run_marks *marks)
{
    tt_json_open(json, "written", '{');
    print_mark(json, "metrics", &marks->metrics);
    print_mark(json, "log", &marks->log);
    print_mark(json, "events", &marks->events);
    tt_json_close(json, '}');
}

void tt_train_state_print(const tt_train_state *state,
                          const tt_session *session, tt_str *out)
{
    const int64_t seq = session->job->io.seq;
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "began", state->began);
    tt_json_i64(&json, "step", state->step);
    tt_json_i64(&json, "position", state->position);
    int64_t tokens = 0;
    if (session->job->model->task == TT_TASK_TOKENS &&
        !__builtin_mul_overflow(state->position, seq, &tokens))
        tt_json_i64(&json, "tokens", tokens);
    tt_json_f64(&json, "seconds", state->seconds);
    tt_json_f64(&json, "best_loss", state->best_loss);
    tt_json_i64(&json, "best_step", state->best_step);
    tt_json_i64(&json, "since_best", state->since_best);
    tt_json_i64(&json, "evaluated", state->evaluated);
    tt_json_i64(&json, "sampled", state->sampled);
    tt_json_f64(&json, "val_loss", state->val_loss);
    tt_json_f64(&json, "val_accuracy", state->val_accuracy);
    tt_json_f64(&json, "loss_sum", state->loss);
    tt_json_f64(&json, "loss_count", state->count);
    tt_json_f64(&json, "loss_correct", state->correct);
    tt_json_f64(&json, "train_loss", state->train_loss);
    tt_judge_print(&state->judge, &json, "policy");
    tt_json_bool(&json, "passing", state->is_passing);
    print_marks(&json, &state->marks);
    tt_json_i64(&json, "threads", state->threads);
    tt_json_i64(&json, "ranks", state->ranks);
    tt_json_str(&json, "isa", state->isa);
    print_settings(&json, session);
    tt_fingerprint_print(session->fingerprint, &json, "data");
    tt_json_close(&json, '}');
}

static int64_t whole(const tt_json_value *root, const char *key,
                     int64_t fallback)
{
    return tt_json_int(tt_json_get(root, key), fallback);
}

static double number(const tt_json_value *root, const char *key,
                     double fallback)
{
    return tt_json_number(tt_json_get(root, key), fallback);
}

static tt_run_mark mark_at(const tt_json_value *root, const char *key)
{
    const tt_json_value *value = tt_json_get(root, key);
    tt_run_mark mark = {.bytes = whole(value, "bytes", -1)};
    const char *hash = tt_json_text(tt_json_get(value, "xxh3"), "");
    snprintf(mark.hash, sizeof mark.hash, "%s", hash);
    return mark;
}

// Whether all numbers are in a sensible range. No run comes near the upper bound,
// so adding to them never overflows.
static bool makes_sense(const tt_train_state *s)
{
    const int64_t most = (int64_t)9e15; // as train.steps
    const tt_judge *p = &s->judge;
    const int64_t counts[] = {s->began,     s->step,
                              s->position,  s->since_best,
                              s->threads,   s->ranks,
                              p->skips,     p->skips_in_row,
                              p->rollbacks, p->rollbacks_in_row,
                              p->furthest,  p->anchor};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 0 || counts[i] > most)
            return false;
    return s->began <= s->step && s->best_step <= s->step &&
           s->evaluated <= s->step && s->sampled <= s->step &&
           s->best_step >= -1 && s->evaluated >= -1 && s->sampled >= -1;
}

tt_status tt_train_state_read(const char *json, const char *name,
                              tt_arena *arena, tt_train_state *state_out,
                              tt_settings *settings_out)
{
    const tt_json_value *root = NULL;
    TT_TRY(tt_json_read(json, (int64_t)strlen(json), name, arena, &root));
    const tt_json_value *settings = tt_json_get(root, "settings");
    const tt_json_value *written = tt_json_get(root, "written");
    tt_train_state s = {
        .began = whole(root, "began", 0),
        .step = whole(root, "step", -1),
        .position = whole(root, "position", -1),
        .seconds = number(root, "seconds", 0),
        .best_loss = number(root, "best_loss", (double)NAN),
        .best_step = whole(root, "best_step", -1),
        .since_best = whole(root, "since_best", 0),
        .evaluated = whole(root, "evaluated", -1),
        .sampled = whole(root, "sampled", -1),
        .val_loss = number(root, "val_loss", (double)NAN),
        .val_accuracy = number(root, "val_accuracy", (double)NAN),
        .loss = number(root, "loss_sum", 0),
        .count = number(root, "loss_count", 0),
        .correct = number(root, "loss_correct", 0),
        .train_loss = number(root, "train_loss", (double)NAN),
        .threads = whole(root, "threads", 0),
        .ranks = whole(root, "ranks", 1),
        .is_passing = tt_json_truth(tt_json_get(root, "passing"), false),
        .marks = {mark_at(written, "metrics"), mark_at(written, "log"),
                  mark_at(written, "events")},
    };
    tt_judge_read(tt_json_get(root, "policy"), &s.judge);
    if (settings == NULL || settings->type != TT_JSON_OBJECT ||
        !makes_sense(&s))
        return tt_fail(TT_ERR_IO, "%s is not the state of a training run",
                       name);
    snprintf(s.isa, sizeof s.isa, "%s",
             tt_json_text(tt_json_get(root, "isa"), ""));
    for (const tt_json_value *v = settings->first; v != NULL; v = v->next)
        TT_TRY(tt_settings_set(settings_out, v->key, tt_json_text(v, ""), name,
                               arena));
    *state_out = s;
    return TT_OK;
}
