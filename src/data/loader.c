// loader - a ring of micro-batches that threads ("workers") fill in pieces.
//
// The problem. A step must not wait for data. Decoding images takes longer than one
// thread has time for, and the order of samples must not depend on which thread was
// faster.
//
// The idea. Batches are numbered. Batch b has its place in slot b % n_slots of a ring,
// and consists of a fixed number of pieces (a few samples each). Pieces are numbered
// through all batches; a free worker takes the next number. The number alone says
// which samples they are and where they go, so it does not matter who fills a piece,
// or when.
//
//   batch            4             5             6         (7 waits: no slot is free)
//   slot           [####]        [##..]        [#...]
//                    ^ held by     ^ pieces being filled by several workers
//                      the user
//
//   workers   take the next piece as long as its batch has a slot, and sleep otherwise
//   user      takes the batches in order; the one it holds keeps its slot
//
// Pieces of one batch are filled by several workers at once, so that the first batch
// after a start comes as early as possible.
//
// A sample that cannot be read makes its batch fail. Of several, the one with the
// smallest position is reported, so that the message does not depend on threads either.

#include "data/loader.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "data/loader_fill.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum {
    MESSAGE = 512,
    DEFAULT_AHEAD = 4,
    SEEK_SECONDS = 60,
    PIECE_TOKENS = 1 << 15,
    PIECE_IMAGES = 16,
};

// A place of the ring. It belongs to the workers until all pieces are done, then to the
// user until the next batch is asked for.
typedef struct slot {
    int64_t batch;   // number of what is in it; -1: nothing
    int64_t n_done;  // pieces
    int64_t samples; // real ones
    tt_fill_to to;
    tt_status status; // of the first sample that failed
    int64_t failed_at;
    char message[MESSAGE];
} slot;

typedef struct worker {
    tt_loader *loader;
    tt_filler filler;
    pthread_t thread;
} worker;

struct tt_loader {
    tt_fill_plan plan;
    tt_loader_options options;
    int64_t piece, n_pieces; // samples of a piece, pieces of a batch
    int n_slots, n_workers, n_started;
    slot *slot;
    worker *worker;
    double waited;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool has_lock;
    atomic_llong n_moved;     // samples that were read, of all workers
    atomic_bool is_cancelled; // what is being read is not wanted any more
    // Under the lock:
    int64_t start;      // position of the first batch
    int64_t next_piece; // counted from the first batch
    int64_t taken;      // batches given to the user
    int64_t freed;      // and given back
    int64_t most;       // batches that are wanted
    int n_busy;
    bool is_paused, is_stopping;
};

// Position of the first sample of a batch.
static int64_t batch_position(const tt_loader *l, int64_t batch)
{
    const tt_loader_options *o = &l->options;
    return l->start + batch / o->n_micro * o->step_samples + o->first +
           batch % o->n_micro * o->micro_stride;
}

static int64_t count_real(const tt_loader *l, int64_t batch)
{
    const int64_t n = l->options.micro_samples;
    if (l->options.end == 0)
        return n;
    const int64_t left = l->options.end - batch_position(l, batch);
    return left < 0 ? 0 : left < n ? left : n;
}

static void begin_batch(tt_loader *l, slot *s, int64_t batch)
{
    s->batch = batch;
    s->n_done = 0;
    s->samples = count_real(l, batch);
    s->status = TT_OK;
}

// Messages are kept per thread, so the worker's is copied for the user's thread.
static void keep_error(slot *s, tt_status status, int64_t at)
{
    if (s->status != TT_OK && s->failed_at <= at)
        return;
    s->status = status;
    s->failed_at = at;
    snprintf(s->message, sizeof s->message, "%s", tt_error_message());
}

// Fills one piece. Called and returns with the lock held, which is free while samples
// are read. The first piece of a batch prepares the slot; pieces are given out in
// order under the lock, so this comes before all others of the batch.
static void do_piece(worker *w, int64_t piece)
{
    tt_loader *l = w->loader;
    const int64_t batch = piece / l->n_pieces;
    slot *s = &l->slot[batch % l->n_slots];
    if (piece % l->n_pieces == 0)
        begin_batch(l, s, batch);
    const int64_t first = piece % l->n_pieces * l->piece;
    const int64_t room = l->options.micro_samples - first;
    const int64_t end = first + (room < l->piece ? room : l->piece);
    const int64_t position = batch_position(l, batch);
    const int64_t n_real = s->samples;
    tt_status status = TT_OK;
    int64_t i = first;
    pthread_mutex_unlock(&l->lock);
    for (; i < end && status == TT_OK && !atomic_load(&l->is_cancelled); i++)
        if (i < n_real) {
            status =
                tt_fill_sample(&l->plan, &w->filler, position + i, &s->to, i);
            atomic_fetch_add(&l->n_moved, 1);
        } else {
            tt_fill_nothing(&l->plan, &s->to, i);
        }
    pthread_mutex_lock(&l->lock);
    if (status != TT_OK)
        keep_error(s, status, i);
    if (++s->n_done == l->n_pieces)
        pthread_cond_broadcast(&l->ready);
}

// A batch may be begun when its slot was given back: `freed` batches are done with, and
// the ring holds n_slots more.
static bool has_work(const tt_loader *l)
{
    const int64_t batch = l->next_piece / l->n_pieces;
    return !l->is_paused && batch < l->freed + l->n_slots && batch < l->most;
}

static void *work(void *worker_)
{
    worker *w = worker_;
    tt_loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->is_stopping) {
        if (!has_work(l)) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        l->n_busy++;
        do_piece(w, l->next_piece++);
        if (--l->n_busy == 0 && l->is_paused)
            pthread_cond_broadcast(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

// ---- opening and closing ---------------------------------------------------

static void copy_options(tt_loader *l, const tt_loader_options *o)
{
    l->options = *o;
    if (o->micro_stride == 0)
        l->options.micro_stride = o->micro_samples;
    l->n_workers = o->n_workers > 0 ? o->n_workers : 1;
    const int ahead = o->n_ahead > 0 ? o->n_ahead : DEFAULT_AHEAD;
    l->n_slots = ahead + 1; // one more is with the user
    l->piece = l->plan.source->kind == TT_DATA_IMAGES
                   ? PIECE_IMAGES
                   : 1 + PIECE_TOKENS / o->seq;
    if (l->piece > o->micro_samples)
        l->piece = o->micro_samples;
    l->n_pieces = (o->micro_samples + l->piece - 1) / l->piece;
    l->start = o->position;
    // Of clients nothing is read before somebody says whose.
    l->most = o->shares == NULL ? INT64_MAX : 0;
}

static tt_status allocate(tt_loader *l)
{
    l->slot = tt_alloc(l->n_slots * (int64_t)sizeof *l->slot);
    l->worker = tt_alloc(l->n_workers * (int64_t)sizeof *l->worker);
    if (l->slot == NULL || l->worker == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d batches ahead",
                       l->n_slots);
    for (int i = 0; i < l->n_slots; i++) {
        l->slot[i].batch = -1;
        TT_TRY(tt_fill_to_init(&l->plan, l->options.micro_samples,
                               &l->slot[i].to));
    }
    for (int i = 0; i < l->n_workers; i++)
        TT_TRY(tt_filler_init(&l->plan, &l->worker[i].filler));
    return TT_OK;
}

// The deadline is by the monotonic clock: setting the time of day must not end a wait.
static tt_status init_lock(tt_loader *l)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0)
        return tt_fail(TT_ERR_NOMEM, "no memory for a lock");
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, &attr);
    pthread_condattr_destroy(&attr);
    l->has_lock = true;
    return TT_OK;
}

static tt_status start_workers(tt_loader *l)
{
    for (int i = 0; i < l->n_workers; i++) {
        worker *w = &l->worker[i];
        w->loader = l;
        TT_TRY(tt_thread_start(&w->thread, work, w, "a worker of the loader"));
        l->n_started++;
    }
    return TT_OK;
}

static tt_status check_options(const tt_loader_options *o)
{
    const int64_t stride =
        o->micro_stride > 0 ? o->micro_stride : o->micro_samples;
    if (o->n_micro < 1 || o->micro_samples < 1 || o->first < 0 ||
        o->position < 0 || o->end < 0 || o->micro_stride < 0 ||
        o->first + (o->n_micro - 1) * stride + o->micro_samples >
            o->step_samples)
        return tt_fail(
            TT_ERR_ARG,
            "a step of %lld samples does not hold %lld micro-batches "
            "of %lld from %lld on",
            (long long)o->step_samples, (long long)o->n_micro,
            (long long)o->micro_samples, (long long)o->first);
    return TT_OK;
}

tt_status tt_loader_open(const tt_source *source,
                         const tt_loader_options *options,
                         tt_loader **loader_out)
{
    TT_TRY(check_options(options));
    tt_loader *l = tt_alloc(sizeof *l);
    if (l == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a loader");
    tt_status status = tt_fill_plan_init(&l->plan, source, options);
    if (status == TT_OK) {
        copy_options(l, options);
        status = allocate(l);
    }
    if (status == TT_OK)
        status = init_lock(l);
    if (status == TT_OK)
        status = start_workers(l);
    if (status != TT_OK) {
        tt_loader_close(l);
        return status;
    }
    *loader_out = l;
    return TT_OK;
}

static void stop_workers(tt_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->is_stopping = true;
    atomic_store(&l->is_cancelled, true);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_started; i++)
        pthread_join(l->worker[i].thread, NULL);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
}

void tt_loader_close(tt_loader *loader)
{
    if (loader == NULL)
        return;
    if (loader->has_lock)
        stop_workers(loader);
    for (int i = 0; i < loader->n_workers && loader->worker != NULL; i++)
        tt_filler_fini(&loader->worker[i].filler);
    for (int i = 0; i < loader->n_slots && loader->slot != NULL; i++)
        tt_fill_to_fini(&loader->slot[i].to);
    tt_free(loader->worker);
    tt_free(loader->slot);
    tt_free(loader);
}

// ---- using -------------------------------------------------------------------

static struct timespec deadline_at(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double most = 1e9; // thirty years
    const double wait = seconds > most ? most : seconds > 0 ? seconds : 0;
    const double whole = floor(wait);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((wait - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static bool is_ready(const tt_loader *l)
{
    const slot *s = &l->slot[l->taken % l->n_slots];
    return s->batch == l->taken && s->n_done == l->n_pieces;
}

// With the lock held. The call gives the batch before it back. A slow disk is not an
// error: the deadline starts anew as long as any sample was read.
static tt_status take(tt_loader *l, double seconds, tt_batch *batch_out)
{
    struct timespec deadline = deadline_at(seconds);
    long long moved = atomic_load(&l->n_moved);
    if (l->is_paused)
        return tt_fail(TT_ERR_STATE, "the last seek of the data did not end");
    if (l->taken >= l->most)
        return tt_fail(TT_ERR_STATE, "more data were asked for than announced");
    if (l->freed < l->taken) {
        l->freed = l->taken;
        pthread_cond_broadcast(&l->work);
    }
    while (!is_ready(l)) {
        if (pthread_cond_timedwait(&l->ready, &l->lock, &deadline) !=
                ETIMEDOUT ||
            is_ready(l))
            continue;
        const long long now = atomic_load(&l->n_moved);
        if (now == moved)
            return tt_fail(TT_ERR_TIMEOUT,
                           "not one sample of data was read within %g "
                           "seconds: reading hangs; look at the disk or the "
                           "network that has the data",
                           seconds);
        moved = now; // slow is not dead
        deadline = deadline_at(seconds);
    }
    const slot *s = &l->slot[l->taken++ % l->n_slots];
    if (s->status != TT_OK)
        return tt_fail(s->status, "%s", s->message);
    *batch_out = (tt_batch){.x = s->to.x, .y = s->to.y, .samples = s->samples};
    return TT_OK;
}

tt_status tt_loader_next(tt_loader *loader, double deadline,
                         tt_batch *batch_out)
{
    const double begin = tt_clock_seconds();
    pthread_mutex_lock(&loader->lock);
    const tt_status status = take(loader, deadline, batch_out);
    pthread_mutex_unlock(&loader->lock);
    loader->waited += tt_clock_seconds() - begin;
    return status;
}

// With the lock held. Workers finish the sample that they are reading and stop; then
// all slots are empty and counting begins again at the new position.
static tt_status start_over(tt_loader *l, int64_t position, int64_t most)
{
    const struct timespec deadline = deadline_at(SEEK_SECONDS);
    l->is_paused = true;
    atomic_store(&l->is_cancelled, true);
    while (l->n_busy > 0)
        if (pthread_cond_timedwait(&l->ready, &l->lock, &deadline) ==
                ETIMEDOUT &&
            l->n_busy > 0)
            return tt_fail(TT_ERR_TIMEOUT,
                           "a sample of data takes longer than %d seconds",
                           SEEK_SECONDS);
    for (int i = 0; i < l->n_slots; i++)
        l->slot[i].batch = -1;
    l->start = position;
    l->most = most;
    l->next_piece = l->taken = l->freed = 0;
    atomic_store(&l->is_cancelled, false);
    l->is_paused = false;
    pthread_cond_broadcast(&l->work);
    return TT_OK;
}

tt_status tt_loader_seek(tt_loader *loader, int64_t position)
{
    return tt_loader_seek_span(loader, position, INT64_MAX);
}

tt_status tt_loader_seek_span(tt_loader *loader, int64_t position, int64_t n)
{
    if (position < 0)
        return tt_fail(TT_ERR_ARG, "there is no position %lld in the data",
                       (long long)position);
    pthread_mutex_lock(&loader->lock);
    const tt_status status = start_over(loader, position, n);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

double tt_loader_waited(const tt_loader *loader)
{
    return loader->waited;
}
