// trainer_start - where a run begins: anew, from other weights, from its own newest
// checkpoint, or from that of the run it was forked from.
//
// Rank 0 looks at the files and tells the others what to do. Whether the data of a
// checkpoint are intact is known only after all ranks have read their parts
// (state/slices.c). If they are damaged, the checkpoint is rejected, and the search
// begins again with the next older one, until one can be read or none is left:
//
//   rank 0   look      newest checkpoint up to the limit, settings, fingerprint
//   all      begin     resume, fork or anew
//   all      damaged?  limit = its step - 1, states from the seed, look again

#include "backend/cpu/isa.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/figures.h"
#include "base/file.h"
#include "job/cut.h"
#include "train/folders.h"
#include "train/trainer.h"
#include "weights/origin.h"

#include <stdio.h>
#include <string.h>

static bool can_roll_back(const tt_train_options *o)
{
    return o->nan == TT_NAN_ROLLBACK || o->spike == TT_SPIKE_ROLLBACK;
}

// Which checkpoints are kept. A rollback needs one that is older than train.back,
// so as many are kept as can be saved within that time.
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
    TT_TRY(tt_job_init_from(t->job, notes));
    return tt_job_spread(t->job);
}

static void note_reading(const tt_trainer *t, tt_str *notes)
{
    const tt_slices_result *r = &t->read;
    if (t->job->peers.size == 1)
        return;
    if (r->hidden[0] != '\0') {
        tt_str_addf(notes, "rank 0 reads the checkpoint for all: %s\n",
                    r->hidden);
        return;
    }
    tt_str_add(notes, "each rank read its own part of the checkpoint: ");
    tt_add_bytes(notes, r->least_read);
    if (r->most_read > r->least_read) {
        tt_str_add(notes, " to ");
        tt_add_bytes(notes, r->most_read);
    }
    tt_str_add(notes, " (it has ");
    tt_add_bytes(notes, r->bytes);
    tt_str_add(notes, ")\n");
}

// Notes where sums may now have another order. Exact mode has one order for any
// number of ranks and threads, but not for all instruction sets.
static void note_place(const tt_trainer *t, tt_str *notes)
{
    const tt_job *job = t->job;
    const int64_t threads = job->backend->options.n_threads;
    const int64_t ranks = job->peers.size;
    const bool is_exact = job->options.exact;
    if (t->state.ranks != ranks && job->workers == 0 &&
        !(is_exact && ranks == job->grid.size[TT_AXIS_DATA]))
        tt_str_addf(notes,
                    "it was computed on %lld rank%s and goes on with %lld, so "
                    "the last bits may differ\n",
                    (long long)t->state.ranks, t->state.ranks == 1 ? "" : "s",
                    (long long)ranks);
    else if (t->state.threads != threads && !is_exact)
        tt_str_addf(notes,
                    "it was computed with %lld threads and goes on with %lld, "
                    "so the last bits may differ\n",
                    (long long)t->state.threads, (long long)threads);
    if (job->backend->def->memory == NULL && t->state.isa[0] != '\0' &&
        strcmp(t->state.isa, tt_isa_word()) != 0)
        tt_str_addf(notes,
                    "it was computed with isa=%s and goes on with %s, whose "
                    "kernels add up in another order: the last bits may "
                    "differ\n",
                    t->state.isa, tt_isa_word());
}

static tt_status resume(tt_trainer *t, const tt_checkpoint *from, tt_str *notes)
{
    TT_TRY(tt__trainer_restore(t, from, false, notes));
    if (t->read.is_damaged)
        return TT_OK;
    note_reading(t, notes);
    t->saved_step = t->state.step;
    t->is_saved_in_passing = t->state.is_passing;
    note_place(t, notes);
    return TT_OK;
}

static tt_status start_fork(tt_trainer *t, const tt_checkpoint *from,
                            tt_str *notes)
{
    tt_train_state fresh;
    TT_TRY(tt__trainer_restore(t, from, true, notes));
    if (t->read.is_damaged)
        return TT_OK;
    note_reading(t, notes);
    tt_train_state_init(&fresh);
    fresh.began = fresh.step = t->state.step;
    fresh.position = t->state.position;
    t->state = fresh;
    if (from != NULL)
        tt_str_addf(notes, "forked from %s\n", from->folder);
    return TT_OK;
}

typedef enum beginning { ANEW, RESUMED, FORKED } beginning;

// Checkpoints after these steps are known to be damaged.
typedef struct limits {
    int64_t own, fork;
} limits;

static tt_status open_store(tt_trainer *t)
{
    const tt_checkpoint_rules rules = rules_of(&t->session->options);
    const char *folder =
        tt_arena_printf(t->arena, "%s/checkpoints", t->request->folder);
    return folder != NULL ? tt_checkpoints_open(folder, &rules, &t->store)
                          : TT_ERR_NOMEM;
}

// A newer checkpoint that was removed is mentioned, not silently replaced.
static tt_status note_missing(const tt_trainer *t, const tt_checkpoint *from,
                              tt_str *notes)
{
    int64_t step = -1;
    TT_TRY(tt_checkpoints_missing(t->store, &step));
    if (step > from->step)
        tt_str_addf(notes,
                    "the checkpoint of step %lld, the newest that was saved, "
                    "is missing: it goes on from step %lld, and the steps "
                    "after that are made again\n",
                    (long long)step, (long long)from->step);
    return TT_OK;
}

// On rank 0: finds what to begin from.
static tt_status look(tt_trainer *t, const limits *limit, tt_str *notes,
                      int32_t *kind_out, tt_checkpoint **from_out)
{
    if (t->store == NULL) {
        TT_TRY(tt__trainer_check_folder(t, notes));
        TT_TRY(open_store(t));
    }
    if (t->session->fingerprint == NULL)
        TT_TRY(tt_fingerprint_take(t->session->data, t->session->arena,
                                   &t->session->fingerprint));
    TT_TRY(tt_checkpoints_upto(t->store, limit->own, notes, from_out));
    *kind_out = *from_out != NULL ? RESUMED : ANEW;
    if (*from_out != NULL) {
        TT_TRY(note_missing(t, *from_out, notes));
        return tt__trainer_check_resume(t, *from_out, notes);
    }
    TT_TRY(tt__trainer_check_anew(t, notes));
    if (t->request->fork == NULL)
        return TT_OK;
    *kind_out = FORKED;
    const tt_checkpoint_search search = {.leaves_data = true,
                                         .limit = limit->fork};
    return tt_checkpoint_read(t->request->fork, &search, notes, from_out);
}

static tt_status begin(tt_trainer *t, tt_str *notes, beginning kind,
                       const tt_checkpoint *from)
{
    switch (kind) {
    case RESUMED:
        return resume(t, from, notes);
    case FORKED:
        return start_fork(t, from, notes);
    default:
        return start_anew(t, notes);
    }
}

// The checkpoint is damaged. Lowers the limit, and initialises the states again,
// which a partial read has overwritten.
static tt_status reject(tt_trainer *t, beginning kind,
                        const tt_checkpoint *from, limits *limit)
{
    tt_status status = TT_OK;
    if (from != NULL && kind == RESUMED) {
        limit->own = from->step - 1;
        status = tt_checkpoints_reject(t->store, from->step);
    } else if (from != NULL) {
        limit->fork = from->step - 1;
    }
    TT_TRY(tt_peers_follow(&t->job->peers, "start", status));
    return tt_exec_init_state(t->job->exec, (uint64_t)t->job->options.seed);
}

static tt_status try_start(tt_trainer *t, limits *limit, tt_str *notes)
{
    const tt_peers *peers = &t->job->peers;
    tt_checkpoint *from = NULL;
    int32_t kind = ANEW;
    tt_status status = TT_OK;
    t->read = (tt_slices_result){0};
    if (tt__trainer_is_first(t))
        status = look(t, limit, notes, &kind, &from);
    status = tt_peers_follow(peers, "start", status);
    if (status == TT_OK)
        status = tt_peers_broadcast(peers, "start", &kind, sizeof kind);
    if (status == TT_OK)
        status = begin(t, notes, (beginning)kind, from);
    if (status == TT_OK && t->read.is_damaged)
        status = reject(t, (beginning)kind, from, limit);
    tt_checkpoint_close(from);
    return status;
}

static tt_status choose_start(tt_trainer *t, tt_str *notes)
{
    limits limit = {INT64_MAX, INT64_MAX};
    do
        TT_TRY(try_start(t, &limit, notes));
    while (t->read.is_damaged);
    return TT_OK;
}

static void print_texts(tt_trainer *t)
{
    const tt_data *data = t->session->data;
    tt_settings_print(&t->session->resolved, &t->config);
    if (data->train->tokenizer != NULL)
        tt_tokenizer_print(data->train->tokenizer, &t->tokenizer);
}

// The files that came with a model of others: from the run's own folder, from
// init.from, or from the run that it was forked from.
static tt_status print_origin(tt_trainer *t)
{
    const char *const folders[] = {t->request->folder, t->session->options.from,
                                   t->request->fork};
    for (int i = 0; i < 3 && t->origin.n == 0; i++) {
        tt_origin origin = {0};
        if (folders[i] == NULL || !tt_file_is_folder(folders[i]))
            continue;
        TT_TRY(tt_origin_read(folders[i], t->arena, &origin));
        tt_origin_print(&origin, &t->origin);
        TT_TRY(tt_str_status(&t->origin));
    }
    return t->origin.n == 0
               ? TT_OK
               : tt_run_write(t->run, "origin.json", tt_str_text(&t->origin),
                              t->origin.n);
}

static tt_status open_folder(tt_trainer *t, tt_str *notes)
{
    const tt_train_options *o = &t->session->options;
    if (!tt__trainer_is_first(t))
        return TT_OK;
    TT_TRY(tt_run_open(t->request->folder, o->tensorboard, &t->run));
    TT_TRY(tt_run_cut(t->run, t->saved_step, &t->state.marks, notes));
    print_texts(t);
    TT_TRY(print_origin(t));
    TT_TRY(tt_str_status(&t->config));
    TT_TRY(tt_str_status(&t->tokenizer));
    return tt_run_write(t->run, "config.yaml", tt_str_text(&t->config),
                        t->config.n);
}

tt_status tt__trainer_open_lanes(tt_trainer *t)
{
    tt_job *job = t->job;
    tt_loader_options options = t->session->loader;
    int32_t n = 0;
    tt_job_workers(job, &t->first_lane, &n);
    options.n_micro = job->local_steps * job->options.accumulate;
    options.micro_samples = options.micro_stride = tt_job_worker_samples(job);
    t->lane = tt_arena_alloc(t->arena, (n + 1) * (int64_t)sizeof *t->lane);
    if (t->lane == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the data of workers");
    for (int32_t i = 0; i < n; i++) {
        const int64_t number = tt_job_worker_number(job, t->first_lane + i);
        options.first =
            (t->first_lane + i) * (job->options.batch / job->workers);
        options.position = number * job->options.batch;
        TT_TRY(tt_loader_open(t->session->data->train, &options, &t->lane[i]));
        t->n_lanes++;
    }
    return TT_OK;
}

static tt_status open_loader(tt_trainer *t)
{
    tt_loader_options options = t->session->loader;
    options.position = t->state.position;
    options.shares = t->session->shares;
    if (options.shares != NULL) {
        options.n_micro = 1;
        options.step_samples = options.micro_samples;
    } else if (t->job->workers > 0) {
        return tt__trainer_open_lanes(t);
    }
    return tt_loader_open(t->session->data->train, &options, &t->loader);
}

// Finishes what a crash may have left undone after a checkpoint: `best`, and the
// removal of old ones.
static tt_status settle(tt_trainer *t)
{
    const bool has_best = t->session->options.keep_best;
    if (!tt__trainer_is_first(t) || t->saved_step < 0)
        return TT_OK;
    return tt_checkpoints_settle(t->store, t->saved_step,
                                 has_best ? t->state.best_step : -1);
}

// What the data sources have left out, for the user.
static void note_data(const tt_data *data, tt_str *notes)
{
    const char *train = data->train != NULL ? data->train->note : NULL;
    const char *val = data->val != NULL ? data->val->note : NULL;
    if (train != NULL)
        tt_str_addf(notes, "%s\n", train);
    if (val != NULL && (train == NULL || strcmp(train, val) != 0))
        tt_str_addf(notes, "%s\n", val);
}

// Where the layers are cut, for rank 0 to say. Each rank knows the seconds of its chunks;
// ranks of one stage may differ, and the slowest counts.
static tt_status find_cut(tt_trainer *t, tt_str *notes)
{
    const tt_job *job = t->job;
    const int64_t n = job->pipe == NULL ? 0 : job->pipe->n_chunks;
    if (n == 0)
        return TT_OK;
    double *own = tt_arena_alloc(t->arena, n * (int64_t)sizeof *own);
    double *all = tt_alloc(n * job->peers.size * (int64_t)sizeof *all);
    tt_status status =
        own != NULL && all != NULL
            ? TT_OK
            : tt_fail(TT_ERR_NOMEM, "no memory to compare stages");
    if (status == TT_OK) {
        tt_cut_rank_seconds(job->plan, job->pipe, own);
        status = tt_peers_collect(&job->peers, "cut", own,
                                  n * (int64_t)sizeof *own, all);
    }
    for (int64_t i = 0; i < n * job->peers.size && status == TT_OK; i++)
        own[i % n] = all[i] > own[i % n] ? all[i] : own[i % n];
    tt_free(all);
    TT_TRY(status);
    tt_cut_shares cut;
    tt_str line = {0};
    tt_cut_make(job, own, &cut);
    tt_cut_line(&cut, &line);
    const int64_t before = notes->n;
    if (tt__trainer_is_first(t))
        tt_cut_note(&cut, notes);
    tt_str_add(notes, notes->n > before ? "\n" : "");
    t->cut = tt_str_keep(&line, t->arena);
    return t->cut != NULL ? TT_OK : TT_ERR_NOMEM;
}

// The peak of all ranks: those with larger parts need more.
static tt_status find_peak(tt_trainer *t)
{
    const tt_peers *peers = &t->job->peers;
    const int64_t own = t->job->plan->peak_bytes;
    int64_t *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to compare ranks");
    const tt_status status =
        tt_peers_collect(peers, "memory", &own, sizeof own, all);
    int32_t most = 0;
    bool differ = false;
    for (int32_t r = 0; r < peers->size && status == TT_OK; r++) {
        differ = differ || all[r] != all[0];
        most = all[r] > all[most] ? r : most;
    }
    t->peak_bytes = status == TT_OK ? all[most] : own;
    t->peak_rank = differ ? most : -1;
    tt_free(all);
    return status;
}

tt_status tt__trainer_start(tt_trainer *t, tt_str *notes)
{
    const tt_train_options *o = &t->session->options;
    TT_TRY(tt_job_start(t->job,
                        &(tt_exec_options){.trace = tt__trainer_traces(t)}));
    if (t->session->data->val != NULL)
        TT_TRY(tt_evaluator_open(t->session, &t->evaluator));
    note_data(t->session->data, notes);
    TT_TRY(find_peak(t));
    TT_TRY(find_cut(t, notes));
    TT_TRY(choose_start(t, notes));
    if (t->job->workers > 0 && t->session->shares == NULL)
        TT_TRY(tt_job_workers_open(t->job));
    TT_TRY(tt_peers_follow(&t->job->peers, "start", open_folder(t, notes)));
    TT_TRY(tt_peers_follow(&t->job->peers, "start", settle(t)));
    t->job->feeds_ahead = true;
    TT_TRY(open_loader(t));
    TT_TRY(tt__trainer_prepare_save(t));
    t->first_step = t->state.step;
    t->seconds_before = t->state.seconds;
    t->state.threads = t->job->backend->options.n_threads;
    t->state.ranks = t->job->peers.size;
    snprintf(t->state.isa, sizeof t->state.isa, "%s", tt_isa_word());
    if (t->evaluator == NULL && (o->eval_every > 0 || o->patience > 0))
        tt_str_add(notes, "there is no validation data, so nothing is "
                          "evaluated\n");
    t->saved_clock = tt_clock_seconds();
    // A rollback needs a checkpoint to go back to. And a fork that is killed before
    // its first save would begin at step 0 when it is started again.
    if (t->saved_step < 0 && (can_roll_back(o) || t->state.began > 0))
        TT_TRY(tt__trainer_save(t, false));
    return TT_OK;
}
