// checkpoint - the folder of checkpoints and the thread that writes into it.
//
// Training must not wait for the disk, and a crash at any moment must leave a whole
// checkpoint. So one thread writes, and nothing is changed in place:
//
//   trainer                          writer (one thread, low priority)
//   save: copies names and shapes -> .tmp-step-...   all files, each flushed
//         hands over the data        rename          to step-00000200
//                                    flush           the folder
//                                    latest          names the new one
//                                    keep            removes what no rule keeps
//   mark_best: leaves the step    -> best
//   wait: sleeps until all is done, and gets the first failure
//
// The order matters. Until the rename has reached the disk, the older checkpoints
// are all there is, so nothing is removed before. `latest` is for people; a start
// looks at the folders themselves.
//
// There is one slot for a save and one for a best step. A second save waits for the
// first: the memory of the snapshot is in use until it is written. The mutex is
// held for a few assignments only, never while writing. Failures are kept until the
// trainer asks, since the thread has nobody to tell.

#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"
#include "store/checkpoint_folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MESSAGE_BYTES = 2048 };

typedef struct save {
    tt_arena *arena; // owns all but the tensors' data
    tt_checkpoint_content content;
} save;

struct tt_checkpoints {
    char *folder;
    tt_checkpoint_rules rules;
    tt_lock lock;
    tt__steps bad; // found to be damaged; no rule keeps them

    pthread_t thread;
    pthread_mutex_t mutex; // of everything below
    pthread_cond_t changed;
    bool has_thread, is_stopping, is_working;
    save next;             // arena NULL: none
    atomic_bool is_saving; // from the call of save until it is written
    int64_t best_wanted;   // -1: none
    bool is_best_first;    // mark_best was called before the save in `next`
    tt_status status;      // the first failure that was not reported yet
    char message[MESSAGE_BYTES];
};

static void free_save(save *s)
{
    tt_free_aligned(s->content.memory);
    tt_arena_destroy(s->arena);
    *s = (save){0};
}

// ---- the writer ----------------------------------------------------------

static void note_failure(tt_checkpoints *store, tt_status status)
{
    pthread_mutex_lock(&store->mutex);
    if (status != TT_OK && store->status == TT_OK) {
        store->status = status;
        snprintf(store->message, sizeof(store->message), "%s",
                 tt_error_message());
    }
    pthread_mutex_unlock(&store->mutex);
}

// Gives the finished folder its name. If a checkpoint of this step is there
// already, the two are exchanged in one call, and the old one is then `temporary`.
// Where the file system cannot exchange, the old one is renamed first; after a
// crash in between, tt__checkpoint_mend puts it back.
static tt_status put_in_place(const char *temporary, const char *path)
{
    if (!tt_file_exists(path))
        return tt_file_rename(temporary, path);
    const tt_status status = tt_file_exchange(temporary, path);
    if (status != TT_ERR_UNSUPPORTED)
        return status;
    char away[PATH_MAX];
    const int n = snprintf(away, sizeof(away), "%s" TT__REPLACED, path);
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", path);
    TT_TRY(tt_file_rename(path,
                          away)); // undone by tt__checkpoint_mend after a crash
    TT_TRY(tt_file_rename(temporary, path));
    return tt_file_remove(away);
}

static tt_status write_checkpoint(const tt_checkpoints *store, save *s)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    TT_TRY(tt__checkpoint_step_path(store->folder, s->content.step, path));
    TT_TRY(tt_file_temporary(path, temporary));
    tt_status status = tt_file_make_folder(temporary);
    if (status == TT_OK && s->content.ready != NULL)
        status = s->content.ready(s->content.user);
    if (status == TT_OK)
        status = tt__checkpoint_write(temporary, &s->content);
    if (status == TT_OK && tt__saved_steps_has(&store->bad, s->content.step) &&
        tt_file_exists(path))
        status = tt__checkpoint_set_aside(store->folder, s->content.step);
    if (status == TT_OK)
        status = put_in_place(temporary, path);
    if (status == TT_OK)
        status = tt_file_sync_folder(store->folder);
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof(message), "%s", tt_error_message());
    const tt_status removed = tt_file_remove(temporary);
    if (status == TT_OK)
        return removed;
    return tt_fail(status, "checkpoint of step %lld: %s",
                   (long long)s->content.step, message);
}

static void forget_bad(tt_checkpoints *store, int64_t step)
{
    int64_t n = 0;
    for (int64_t i = 0; i < store->bad.n; i++)
        if (store->bad.v[i] != step)
            store->bad.v[n++] = store->bad.v[i];
    store->bad.n = n;
}

// Writes .saved, so that a later start knows that checkpoints were here even if all
// have been removed. It then refuses to begin at step 0.
static tt_status leave_trace(const tt_checkpoints *store)
{
    static const char text[] =
        "Checkpoints were saved here. Without this file and without them, "
        "training begins again at step 0.\n";
    char path[PATH_MAX];
    TT_TRY(tt__checkpoint_path(store->folder, TT__SAVED, path));
    return tt_file_exists(path) ? TT_OK
                                : tt_file_replace(path, text, sizeof(text) - 1);
}

static tt_status run_save(tt_checkpoints *store, save *s)
{
    const int64_t step = s->content.step;
    const tt_status status = write_checkpoint(store, s);
    free_save(s);
    TT_TRY(status);
    forget_bad(store, step);
    TT_TRY(tt__checkpoint_name(store->folder, "latest", step));
    TT_TRY(leave_trace(store));
    return tt__checkpoint_keep(store->folder, &store->rules, &store->bad, step);
}

static tt_status run_best(const tt_checkpoints *store, int64_t step)
{
    char path[PATH_MAX];
    TT_TRY(tt__checkpoint_step_path(store->folder, step, path));
    if (!tt_file_is_folder(path))
        return tt_fail(TT_ERR_ARG, "%s: is not there to be marked as the best",
                       path);
    int64_t marked = -1;
    TT_TRY(tt__checkpoint_named(store->folder, "best", &marked));
    if (marked == step)
        return TT_OK;
    TT_TRY(tt__checkpoint_name(store->folder, "best", step));
    return tt__checkpoint_keep(store->folder, &store->rules, &store->bad,
                               INT64_MAX);
}

// Takes the next piece of work, in the order of the calls; false: there is none.
// The mutex is held.
static bool take_work(tt_checkpoints *store, save *s, int64_t *best)
{
    const bool has_save = store->next.arena != NULL;
    const bool has_best = store->best_wanted >= 0;
    *s = (save){0};
    *best = -1;
    if (has_best && (store->is_best_first || !has_save)) {
        *best = store->best_wanted;
        store->best_wanted = -1;
    } else if (has_save) {
        *s = store->next;
        store->next = (save){0};
        store->is_best_first = true;
    }
    return has_save || has_best;
}

static void *work(void *user)
{
    tt_checkpoints *store = user;
    save s = {0};
    int64_t best = -1;
    // Training has priority. On Linux this concerns the calling thread only.
    (void)setpriority(PRIO_PROCESS, 0, 5);
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        if (!take_work(store, &s, &best)) {
            if (store->is_stopping)
                break;
            pthread_cond_wait(&store->changed, &store->mutex);
            continue;
        }
        store->is_working = true;
        pthread_mutex_unlock(&store->mutex);
        const bool is_save = s.arena != NULL;
        note_failure(store,
                     is_save ? run_save(store, &s) : run_best(store, best));
        pthread_mutex_lock(&store->mutex);
        store->is_working = false;
        if (is_save)
            store->is_saving = false;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

// ---- the trainer's side --------------------------------------------------

static tt_status start_thread(tt_checkpoints *store)
{
    TT_TRY(tt_thread_start(&store->thread, work, store, "checkpoints"));
    store->has_thread = true;
    return TT_OK;
}

static tt_status prepare(tt_checkpoints *store, const char *folder)
{
    const int64_t n = (int64_t)strlen(folder) + 1;
    store->folder = tt_alloc(n);
    if (store->folder == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    memcpy(store->folder, folder, (size_t)n);
    TT_TRY(tt_file_make_folder(folder));
    TT_TRY(tt_file_lock(folder, &store->lock));
    TT_TRY(tt_file_sweep(folder));
    TT_TRY(tt__checkpoint_mend(folder));
    return start_thread(store);
}

tt_status tt_checkpoints_open(const char *folder,
                              const tt_checkpoint_rules *rules,
                              tt_checkpoints **store_out)
{
    if (rules->keep < 1 || rules->keep_every < 0)
        return tt_fail(TT_ERR_ARG, "%s: at least one checkpoint must be kept",
                       folder);
    tt_checkpoints *store = tt_alloc(sizeof(*store));
    if (store == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    store->rules = *rules;
    store->lock = TT_LOCK_FREE;
    store->best_wanted = -1;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->changed, NULL);
    const tt_status status = prepare(store, folder);
    if (status == TT_OK)
        *store_out = store;
    else
        tt_checkpoints_close(store);
    return status;
}

void tt_checkpoints_close(tt_checkpoints *store)
{
    if (store == NULL)
        return;
    if (store->has_thread) {
        pthread_mutex_lock(&store->mutex);
        store->is_stopping = true;
        pthread_cond_broadcast(&store->changed);
        pthread_mutex_unlock(&store->mutex);
        pthread_join(store->thread, NULL);
    }
    tt_file_unlock(&store->lock);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    tt_free(store->bad.v);
    tt_free(store->folder);
    tt_free(store);
}

// Waits until the writer has nothing to do and returns with the lock held.
static void lock_idle(tt_checkpoints *store)
{
    pthread_mutex_lock(&store->mutex);
    while (store->is_saving || store->is_working || store->best_wanted >= 0)
        pthread_cond_wait(&store->changed, &store->mutex);
}

// The failure that was not reported yet. The mutex is held.
static tt_status take_failure(tt_checkpoints *store)
{
    const tt_status status = store->status;
    store->status = TT_OK;
    return status == TT_OK ? TT_OK : tt_fail(status, "%s", store->message);
}

tt_status tt_checkpoints_wait(tt_checkpoints *store)
{
    lock_idle(store);
    const tt_status status = take_failure(store);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

bool tt_checkpoints_busy(const tt_checkpoints *store)
{
    return atomic_load(&store->is_saving);
}

tt_status tt_checkpoints_save(tt_checkpoints *store,
                              const tt_checkpoint_content *content)
{
    tt_arena *arena = tt_arena_create();
    save s = {.arena = arena};
    tt_status status = TT_ERR_NOMEM;
    if (arena != NULL)
        status = tt__checkpoint_copy(content, arena, &s.content);
    else
        (void)tt_fail(status, "%s: out of memory", store->folder);
    if (status == TT_OK) {
        pthread_mutex_lock(&store->mutex);
        while (store->is_saving)
            pthread_cond_wait(&store->changed, &store->mutex);
        status = take_failure(store);
        if (status == TT_OK) {
            store->next = s;
            store->is_saving = true;
            pthread_cond_broadcast(&store->changed);
        }
        pthread_mutex_unlock(&store->mutex);
    }
    if (status != TT_OK)
        tt_arena_destroy(arena);
    return status;
}

tt_status tt_checkpoints_save_now(tt_checkpoints *store,
                                  const tt_checkpoint_content *content)
{
    save s = {.arena = tt_arena_create()};
    if (s.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", store->folder);
    tt_status status = tt__checkpoint_copy(content, s.arena, &s.content);
    s.content.memory = NULL; // stays the caller's
    lock_idle(store);
    if (status == TT_OK)
        status = take_failure(store);
    store->is_working = status == TT_OK;
    pthread_mutex_unlock(&store->mutex);
    if (status != TT_OK) {
        free_save(&s);
        return status;
    }
    status = run_save(store, &s);
    pthread_mutex_lock(&store->mutex);
    store->is_working = false;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

tt_status tt_checkpoints_mark_best(tt_checkpoints *store, int64_t step)
{
    if (step < 0)
        return tt_fail(TT_ERR_ARG, "there is no step %lld", (long long)step);
    pthread_mutex_lock(&store->mutex);
    store->best_wanted = step;
    store->is_best_first = store->next.arena == NULL;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    return TT_OK;
}

int64_t tt_checkpoints_best(tt_checkpoints *store)
{
    lock_idle(store);
    pthread_mutex_unlock(&store->mutex);
    int64_t step = -1;
    return tt__checkpoint_named(store->folder, "best", &step) == TT_OK ? step
                                                                       : -1;
}

tt_status tt_checkpoints_cut(tt_checkpoints *store, int64_t step)
{
    lock_idle(store);
    pthread_mutex_unlock(&store->mutex);
    TT_TRY(tt__checkpoint_cut(store->folder, &store->bad, step));
    store->bad.n = 0;
    return TT_OK;
}

static tt_status mark_again(const tt_checkpoints *store, int64_t best)
{
    char path[PATH_MAX];
    int64_t marked = -1;
    TT_TRY(tt__checkpoint_step_path(store->folder, best, path));
    TT_TRY(tt__checkpoint_named(store->folder, "best", &marked));
    if (marked == best || !tt_file_is_folder(path)) // gone by a rule of before
        return TT_OK;
    return tt__checkpoint_name(store->folder, "best", best);
}

tt_status tt_checkpoints_settle(tt_checkpoints *store, int64_t step,
                                int64_t best)
{
    TT_TRY(tt_checkpoints_cut(store, step));
    TT_TRY(leave_trace(store));
    if (best >= 0)
        TT_TRY(mark_again(store, best));
    return tt__checkpoint_keep(store->folder, &store->rules, &store->bad, step);
}

tt_status tt_checkpoints_upto(tt_checkpoints *store, int64_t step,
                              tt_str *notes, tt_checkpoint **out)
{
    lock_idle(store);
    pthread_mutex_unlock(&store->mutex);
    const tt_checkpoint_search search = {.leaves_data = true, .limit = step};
    return tt__checkpoint_newest(store->folder, &search, notes, &store->bad,
                                 out);
}

tt_status tt_checkpoints_reject(tt_checkpoints *store, int64_t step)
{
    lock_idle(store);
    pthread_mutex_unlock(&store->mutex);
    return tt__saved_steps_add(&store->bad, step);
}

tt_status tt_checkpoints_last(const tt_checkpoints *store, int64_t *step_out)
{
    tt__steps steps = {0};
    const tt_status status = tt__checkpoint_steps(store->folder, &steps);
    *step_out = -1;
    for (int64_t i = 0; i < steps.n && status == TT_OK; i++)
        if (!tt__saved_steps_has(&store->bad, steps.v[i]))
            *step_out = steps.v[i];
    tt_free(steps.v);
    return status;
}

tt_status tt_checkpoints_missing(const tt_checkpoints *store, int64_t *step_out)
{
    tt__steps steps = {0};
    int64_t latest = -1;
    *step_out = -1;
    TT_TRY(tt__checkpoint_named(store->folder, "latest", &latest));
    const tt_status status = tt__checkpoint_steps(store->folder, &steps);
    if (status == TT_OK && latest >= 0 && !tt__saved_steps_has(&steps, latest))
        *step_out = latest;
    tt_free(steps.v);
    return status;
}

tt_status tt_checkpoints_newest(tt_checkpoints *store, tt_str *notes,
                                tt_checkpoint **out)
{
    return tt_checkpoints_upto(store, INT64_MAX, notes, out);
}
