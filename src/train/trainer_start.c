// trainer_start - where a run begins: anew, from other weights, from its own
// newest checkpoint, or from that of the run it was forked from.

#include "train/trainer.h"

#include <string.h>

static bool can_roll_back(const tt_train_options *o)
{
    return o->nan == TT_NAN_ROLLBACK || o->spike == TT_SPIKE_ROLLBACK;
}

// A rollback wants checkpoints that are older than train.back, and none of those
// that are saved in between may push them out.
static tt_checkpoint_rules rules_of(const tt_train_options *o)
{
    tt_checkpoint_rules rules = {.keep = o->keep, .keep_every = o->keep_every};
    if (!can_roll_back(o))
        return rules;
    int64_t need = 3;
    if (o->save_every > 0)
        need += o->back / o->save_every + 1;
    if (o->keep_best && o->eval_every > 0)
        need += o->back / o->eval_every + 1;
    if (rules.keep < need)
        rules.keep = need;
    return rules;
}

static tt_status start_anew(tt_trainer *t, tt_str *notes)
{
    tt_train_state_init(&t->state);
    return tt_job_init_from(t->job, notes);
}

static tt_status resume(tt_trainer *t, const tt_checkpoint *from, tt_str *notes)
{
    tt_settings then = {0};
    tt_train_state state;
    TT_TRY(tt_train_state_read(from->state, from->folder, t->arena, &state,
                               &then));
    TT_TRY(tt_train_state_compare(t->session, &then, t->request->folder));
    TT_TRY(tt__trainer_restore(t, from, NULL));
    t->saved_step = from->step;
    const int64_t threads = t->job->backend->options.n_threads;
    if (state.threads != threads && !t->job->options.exact)
        tt_str_addf(notes,
                    "it was computed with %lld threads and goes on with %lld, "
                    "so the last bits may differ\n",
                    (long long)state.threads, (long long)threads);
    return TT_OK;
}

static tt_status start_fork(tt_trainer *t, tt_str *notes)
{
    tt_checkpoint *from = NULL;
    TT_TRY(tt_checkpoint_read(t->request->fork, false, notes, &from));
    tt_status status = tt__trainer_restore(t, from, notes);
    if (status == TT_OK) {
        tt_train_state fresh;
        tt_train_state_init(&fresh);
        fresh.began = fresh.step = t->state.step;
        fresh.position = t->state.position;
        t->state = fresh;
        tt_str_addf(notes, "forked from %s\n", from->folder);
    }
    tt_checkpoint_close(from);
    return status;
}

static tt_status choose_start(tt_trainer *t, tt_str *notes)
{
    tt_checkpoint *newest = NULL;
    TT_TRY(tt_checkpoints_newest(t->store, notes, &newest));
    tt_status status = newest != NULL             ? resume(t, newest, notes)
                       : t->request->fork != NULL ? start_fork(t, notes)
                                                  : start_anew(t, notes);
    tt_checkpoint_close(newest);
    return status;
}

static void print_texts(tt_trainer *t)
{
    const tt_data *data = t->session->data;
    tt_settings_print(&t->session->resolved, &t->config);
    if (data->train->tokenizer != NULL)
        tt_tokenizer_print(data->train->tokenizer, &t->tokenizer);
}

static tt_status open_folder(tt_trainer *t)
{
    const tt_train_options *o = &t->session->options;
    TT_TRY(tt_run_open(t->request->folder, o->tensorboard, &t->run));
    TT_TRY(tt_run_cut(t->run, t->saved_step < 0 ? -1 : t->saved_step));
    print_texts(t);
    TT_TRY(tt_str_status(&t->config));
    TT_TRY(tt_str_status(&t->tokenizer));
    return tt_run_write(t->run, "config.yaml", tt_str_text(&t->config),
                        t->config.n);
}

static tt_status open_loader(tt_trainer *t)
{
    tt_loader_options options = t->session->loader;
    options.position = t->state.position;
    return tt_loader_open(t->session->data->train, &options, &t->loader);
}

// A crash may have come between a checkpoint and its mark.
static void mark_again(tt_trainer *t)
{
    const int64_t best = t->state.best_step;
    if (t->session->options.keep_best && best >= 0 &&
        tt_checkpoints_best(t->store) != best)
        (void)tt_checkpoints_mark_best(t->store, best); // may be gone: fine
}

tt_status tt__trainer_start(tt_trainer *t, tt_str *notes)
{
    const tt_train_options *o = &t->session->options;
    const tt_checkpoint_rules rules = rules_of(o);
    const char *folder =
        tt_arena_printf(t->arena, "%s/checkpoints", t->request->folder);
    if (folder == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_job_start(t->job, &(tt_exec_options){0}));
    if (t->session->data->val != NULL)
        TT_TRY(tt_evaluator_open(t->session, &t->evaluator));
    TT_TRY(tt_checkpoints_open(folder, &rules, &t->store));
    TT_TRY(choose_start(t, notes));
    TT_TRY(open_folder(t));
    TT_TRY(open_loader(t));
    mark_again(t);
    t->first_step = t->state.step;
    t->seconds_before = t->state.seconds;
    t->state.threads = t->job->backend->options.n_threads;
    if (t->evaluator == NULL && (o->eval_every > 0 || o->patience > 0))
        tt_str_add(notes, "there is no validation data, so nothing is "
                          "evaluated\n");
    if (can_roll_back(o) && t->saved_step < 0)
        tt__trainer_save(t);
    return TT_OK;
}
