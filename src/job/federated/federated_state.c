// federated_state - what a checkpoint of a federation needs besides the model, and what
// its clients did. Numbers are those of this machine's byte order, as tensors are.
//
//   head | a row for each client | diary | the server's control variate | those of
//   clients that have one, in their order

#include "base/alloc.h"
#include "exchange/privacy.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

static const double magic = 7461737932; // of this layout

enum { HEAD = 12, ROW = 7 };

static int64_t count_controls(const tt__federated *f)
{
    int64_t n = f->control != NULL ? 1 : 0;
    for (int32_t i = 0; i < f->d->workers; i++)
        n += f->client[i].has_control;
    return n;
}

static int64_t numbers_of(const tt__federated *f)
{
    return (HEAD + (int64_t)f->d->workers * ROW +
            tt_diary_count(f->d->workers)) *
           (int64_t)sizeof(double);
}

static int64_t bytes_of(const tt__federated *f)
{
    return numbers_of(f) + count_controls(f) * tt_vector_bytes(&f->weights);
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
                               f->loss};
    memcpy(v, head, sizeof head);
    v += HEAD;
    for (int32_t i = 0; i < f->d->workers; i++, v += ROW) {
        const tt__client *c = &f->client[i];
        const double row[ROW] = {(double)c->batches, (double)c->asked,
                                 (double)c->taken,   (double)c->late,
                                 (double)c->dropped, (double)c->refused,
                                 c->has_control};
        memcpy(v, row, sizeof row);
    }
    tt_diary_save(&f->diary, v);
}

static tt_status collect(tt__federated *f, char *to)
{
    const int64_t bytes = tt_vector_bytes(&f->weights);
    const int32_t ranks = f->d->job->peers.size;
    if (f->control == NULL)
        return TT_OK;
    if (to != NULL)
        memcpy(to, f->control, (size_t)bytes);
    for (int32_t i = 0; i < f->d->workers; i++) {
        const tt__client *c = &f->client[i];
        if (!c->has_control)
            continue;
        to = to != NULL ? to + bytes : NULL;
        if (to != NULL && i % ranks == 0)
            memcpy(to, c->control, (size_t)bytes);
        const tt__post post = {i % ranks, 0, c->control, to, bytes};
        TT_TRY(tt__post_all(f->d, &post, 1));
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
                                    .has_control = v[6] != 0};
    tt_diary_load(&f->diary, v);
}

static tt_status load_controls(tt__federated *f, const char *from)
{
    const int64_t bytes = tt_vector_bytes(&f->weights);
    const tt_peers *peers = &f->d->job->peers;
    if (f->control == NULL)
        return TT_OK;
    memcpy(f->control, from, (size_t)bytes);
    for (int32_t i = 0; i < f->d->workers; i++) {
        tt__client *c = &f->client[i];
        if (!c->has_control)
            continue;
        from += bytes;
        if (i % peers->size != peers->rank)
            continue;
        c->control = tt_alloc(bytes + 8);
        if (c->control == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a control variate");
        memcpy(c->control, from, (size_t)bytes);
    }
    return TT_OK;
}

tt_status tt__federated_load(tt_dynamic *d, char *bytes, int64_t n)
{
    tt__federated *f = d->federated;
    const double *v = (const double *)(const void *)bytes;
    const bool is_ours = n >= numbers_of(f) && v[0] == magic &&
                         v[1] == d->workers && v[2] == (double)d->all.n &&
                         (v[3] != 0) == (f->control != NULL);
    if (is_ours)
        load_numbers(f, v);
    if (!is_ours || n != bytes_of(f))
        return tt_fail(TT_ERR_ARG,
                       "the checkpoint's exchange.bin is not that of %d "
                       "clients with %lld numbers under these settings",
                       d->workers, (long long)d->all.n);
    return load_controls(f, bytes + numbers_of(f));
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
    *row = (tt_worker_row){
        .rank = f->control != NULL ? i % f->d->job->peers.size : -1,
        .pushed = c->taken,
        .dropped = c->late + c->dropped,
        .refused = c->refused,
        .up = c->taken * tt_vector_bytes(&f->update_span),
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
