// federated_state - what a checkpoint of a federation needs besides the model, and what
// its clients did. Numbers are those of this machine's byte order, as tensors are.
//
//   head | a row for each client | diary | the server's control variate | what clients keep
//   that have been asked, in their order: control variate, residuals and states of codes

#include "base/alloc.h"
#include "exchange/privacy.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

static const double magic = 7461737933; // of this layout

enum { HEAD = 12, ROW = 8 };

static int64_t control_bytes(const tt__federated *f)
{
    return f->control != NULL ? tt_vector_bytes(&f->weights) : 0;
}

static int64_t numbers_of(const tt__federated *f)
{
    return (HEAD + (int64_t)f->d->workers * ROW +
            tt_diary_count(f->d->workers)) *
           (int64_t)sizeof(double);
}

static int64_t bytes_of(const tt__federated *f)
{
    int64_t n = numbers_of(f) + control_bytes(f);
    for (int32_t i = 0; i < f->d->workers; i++)
        n += f->client[i].has_kept ? f->kept_bytes : 0;
    return n;
}

// ---- saving --------------------------------------------------------------

static void save_numbers(const tt__federated *f, double *v)
{
    const tt_rounds *r = &f->did;
    const double head[HEAD] = {magic,
                               f->d->workers,
                               (double)f->d->all.n,
                               f->control != NULL,
                               (double)r->made,
                               (double)r->lost,
                               (double)r->asked,
                               (double)r->late,
                               (double)r->dropped,
                               f->now,
                               f->loss,
                               (double)f->kept_bytes};
    memcpy(v, head, sizeof head);
    v += HEAD;
    for (int32_t i = 0; i < f->d->workers; i++, v += ROW) {
        const tt__client *c = &f->client[i];
        const double row[ROW] = {(double)c->batches, (double)c->asked,
                                 (double)c->taken,   (double)c->late,
                                 (double)c->dropped, (double)c->refused,
                                 c->has_kept,        c->up};
        memcpy(v, row, sizeof row);
    }
    tt_diary_save(&f->diary, v);
}

static tt_status collect(tt__federated *f, char *to)
{
    const int64_t bytes = f->kept_bytes;
    const int32_t ranks = f->d->job->peers.size;
    if (to != NULL && f->control != NULL)
        memcpy(to, f->control, (size_t)control_bytes(f));
    to = to != NULL ? to + control_bytes(f) : NULL;
    for (int32_t i = 0; i < f->d->workers; i++) {
        const tt__client *c = &f->client[i];
        if (!c->has_kept)
            continue;
        if (to != NULL && i % ranks == 0)
            memcpy(to, c->kept, (size_t)bytes);
        const tt__post post = {i % ranks, 0, c->kept, to, bytes};
        TT_TRY(tt__post_all(f->d, &post, 1));
        to = to != NULL ? to + bytes : NULL;
    }
    return TT_OK;
}

tt_status tt__federated_save(tt_dynamic *d, tt_str *out)
{
    tt__federated *f = d->federated;
    const int64_t n = bytes_of(f);
    char *all = NULL;
    if (tt_peers_is_first(&d->job->peers)) {
        all = tt_alloc(n + 8);
        if (all == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to save %d clients",
                           d->workers);
        save_numbers(f, (double *)(void *)all);
    }
    const tt_status status =
        collect(f, all != NULL ? all + numbers_of(f) : NULL);
    if (status == TT_OK && all != NULL)
        tt_str_add_bytes(out, all, n);
    tt_free(all);
    TT_TRY(status);
    return tt_str_status(out);
}

// ---- loading -------------------------------------------------------------

static void load_numbers(tt__federated *f, const double *v)
{
    f->did = (tt_rounds){.made = (int64_t)v[4],
                         .lost = (int64_t)v[5],
                         .asked = (int64_t)v[6],
                         .late = (int64_t)v[7],
                         .dropped = (int64_t)v[8]};
    f->now = v[9];
    f->loss = v[10];
    v += HEAD;
    for (int32_t i = 0; i < f->d->workers; i++, v += ROW)
        f->client[i] = (tt__client){.batches = (int64_t)v[0],
                                    .asked = (int64_t)v[1],
                                    .taken = (int64_t)v[2],
                                    .late = (int64_t)v[3],
                                    .dropped = (int64_t)v[4],
                                    .refused = (int64_t)v[5],
                                    .has_kept = v[6] != 0,
                                    .up = v[7]};
    tt_diary_load(&f->diary, v);
}

static tt_status load_kept(tt__federated *f, const char *from)
{
    const int64_t bytes = f->kept_bytes;
    const tt_peers *peers = &f->d->job->peers;
    if (f->control != NULL)
        memcpy(f->control, from, (size_t)control_bytes(f));
    from += control_bytes(f);
    for (int32_t i = 0; i < f->d->workers; i++) {
        const tt__client *c = &f->client[i];
        if (!c->has_kept)
            continue;
        if (i % peers->size == peers->rank) {
            TT_TRY(tt__federated_keep(f, i));
            memcpy(c->kept, from, (size_t)bytes);
        }
        from += bytes;
    }
    return TT_OK;
}

tt_status tt__federated_load(tt_dynamic *d, char *bytes, int64_t n)
{
    tt__federated *f = d->federated;
    const double *v = (const double *)(const void *)bytes;
    const bool is_ours = n >= numbers_of(f) && v[0] == magic &&
                         v[1] == d->workers && v[2] == (double)d->all.n &&
                         (v[3] != 0) == (f->control != NULL) &&
                         v[11] == (double)f->kept_bytes;
    if (is_ours)
        load_numbers(f, v);
    if (!is_ours || n != bytes_of(f))
        return tt_fail(TT_ERR_ARG,
                       "the checkpoint's exchange.bin is not that of %d "
                       "clients with %lld numbers under these settings",
                       d->workers, (long long)d->all.n);
    return load_kept(f, bytes + numbers_of(f));
}

// ---- what they did -------------------------------------------------------

tt_workers_sums tt__federated_sums(const tt_dynamic *d)
{
    const tt__federated *f = d->federated;
    tt_workers_sums s = {.updates = f->did.made - f->did.lost,
                         .dropped = f->did.late + f->did.dropped};
    for (int32_t i = 0; i < d->workers; i++) {
        s.pushed += f->client[i].taken;
        s.refused += f->client[i].refused;
    }
    s.used = s.pushed - s.refused;
    return s;
}

double tt_job_epsilon(const tt_job *job)
{
    const tt__federated *f =
        job->dynamic != NULL ? job->dynamic->federated : NULL;
    return f != NULL && f->params->noise > 0
               ? tt_privacy_epsilon(f->params->fraction, f->params->noise,
                                    f->did.made, f->params->delta)
               : (double)NAN;
}

static void fill_row(const tt__federated *f, int32_t i, tt_worker_row *row)
{
    const tt__client *c = &f->client[i];
    *row = (tt_worker_row){.rank = f->kept_bytes > 0 ? i % f->d->job->peers.size
                                                     : -1,
                           .pushed = c->taken,
                           .dropped = c->late + c->dropped,
                           .refused = c->refused,
                           .up = (int64_t)c->up,
                           .down = c->asked * tt_vector_bytes(&f->update_span)};
    for (int k = 0; k < TT_N_CAUSES; k++)
        row->time[k] = tt_diary_sum(&f->diary, i, k);
}

tt_status tt__federated_did(const tt_dynamic *d, tt_arena *arena,
                            tt_workers *out)
{
    const tt__federated *f = d->federated;
    const tt_workers_sums sums = tt__federated_sums(d);
    const double epsilon = tt_job_epsilon(d->job);
    tt_rounds *rounds = tt_arena_alloc(arena, sizeof *rounds);
    tt_worker_row *row =
        tt_arena_alloc(arena, d->workers * (int64_t)sizeof *row);
    if (row == NULL || rounds == NULL)
        return TT_ERR_NOMEM;
    *rounds = f->did;
    rounds->epsilon = isnan(epsilon) ? -1 : epsilon;
    rounds->delta = f->params->delta;
    *out = (tt_workers){.n = d->workers,
                        .worker = row,
                        .updates = sums.updates,
                        .pushed = sums.pushed,
                        .dropped = sums.dropped,
                        .refused = sums.refused,
                        .unit = "local steps",
                        .now = f->now,
                        .diary = f->diary,
                        .rounds = rounds};
    for (int32_t i = 0; i < d->workers; i++)
        fill_row(f, i, &row[i]);
    return TT_OK;
}
