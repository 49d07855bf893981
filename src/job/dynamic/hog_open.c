// hog_open - settings and memory of workers that share weights.

#include "base/alloc.h"
#include "job/dynamic/hog.h"

#include <string.h>

static const tt_peer_params *params_of(const tt_job *job)
{
    return (const tt_peer_params *)(const void *)job->exchange.policy_params;
}

bool tt__hog_is(const tt_job *job)
{
    return tt_exchange_policy(&job->exchange)->peer == TT_PEER_SHARED;
}

static tt_status check_copies(const tt_job *job)
{
    const tt_peer_params *p = params_of(job);
    int64_t near = p->copies < job->workers ? p->copies : job->workers;
    while (job->workers % near != 0)
        near--;
    if (near != p->copies)
        return tt_fail(TT_ERR_ARG,
                       "exchange.copies=%lld cannot be shared by %d workers "
                       "evenly; exchange.copies=%lld would do",
                       (long long)p->copies, job->workers, (long long)near);
    if (p->words == 1 && job->options.precision == TT_PRECISION_FP64)
        return tt_fail(TT_ERR_ARG,
                       "exchange.words=bf16 has 8 bits of what precision=fp64 "
                       "computes with 53; exchange.words=full would do");
    return TT_OK;
}

// Of a plan that is only looked at, ranks of one host are taken for such that share memory.
static bool can_share(const tt_peers *peers)
{
    if (peers->size == 1)
        return true;
    return peers->wire != NULL
               ? tt_comm_wire_can_lend(peers->wire)
               : peers->on_host <= 1 || peers->on_host == peers->size;
}

tt_status tt__hog_check(const tt_job *job)
{
    const char *schedule = params_of(job)->pace.schedule;
    if (strcmp(schedule, "wall") != 0)
        return tt_fail(
            TT_ERR_ARG,
            "exchange.policy=hogwild with exchange.schedule=%s: weights "
            "are changed without locks, so there is no order to draw or "
            "to repeat; exchange.policy=ps would do, whose "
            "exchange.clock=async has one",
            schedule);
    if (job->options.exact)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=hogwild cannot be exact: no two runs "
                       "have the same bits; exchange.policy=ps would do");
    if (!can_share(&job->peers))
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=hogwild needs memory that all %d ranks "
                       "see: ranks of one host with transport=shm; "
                       "exchange.policy=ps exchange.schedule=wall would do",
                       job->peers.size);
    return check_copies(job);
}

// ---- memory --------------------------------------------------------------

// The next `bytes` of a block that begins at a page; only their sum: NULL.
typedef struct room {
    char *block;
    int64_t used;
} room;

static void *take(room *r, int64_t bytes)
{
    void *p = r->block != NULL ? r->block + r->used : NULL;
    r->used += (bytes + 63) / 64 * 64;
    return p;
}

static tt__hog_count *counts(room *r, int64_t n)
{
    return take(r, n * (int64_t)sizeof(tt__hog_count));
}

static int64_t lay_out(const tt_dynamic *d, char *block)
{
    tt__hog *h = d->hog;
    room r = {.block = block};
    h->block = block;
    h->taken = counts(&r, 1);
    h->version = counts(&r, h->n_copies);
    h->seen = counts(&r, d->workers);
    h->steps = counts(&r, d->job->peers.size);
    h->is_there = counts(&r, d->job->peers.size);
    h->filled = counts(&r, TT_HOG_STEPS);
    h->row =
        take(&r, (int64_t)TT_HOG_STEPS * d->workers * (int64_t)sizeof *h->row);
    for (int32_t i = 0; i < h->n_copies; i++) {
        h->copy[i].span = d->all;
        h->copy[i].is_narrow = params_of(d->job)->words == 1;
        h->copy[i].words = take(&r, tt_shared_bytes(&h->copy[i]));
    }
    return r.used;
}

static char *get_block(const tt_dynamic *d, int64_t bytes)
{
    const tt_peers *peers = &d->job->peers;
    return peers->size == 1
               ? tt_alloc_aligned(bytes, 64)
               : tt_comm_wire_lend(peers->wire, TT_LEND_WEIGHTS, bytes);
}

// Rank 0's, whose address all learn when it is filled.
static tt_status share_block(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    const int64_t bytes = lay_out(d, NULL);
    char *block = NULL;
    tt_status status = TT_OK;
    if (tt_peers_is_first(peers)) {
        block = get_block(d, bytes);
        if (block == NULL)
            status = tt_fail(TT_ERR_NOMEM,
                             "no shared memory of %lld bytes for "
                             "exchange.policy=hogwild",
                             (long long)bytes);
    }
    if (block != NULL) {
        memset(block, 0, (size_t)bytes);
        lay_out(d, block);
        for (int32_t i = 0; i < d->hog->n_copies; i++)
            tt_shared_write(&d->hog->copy[i], d->own[0].weights);
    }
    TT_TRY(tt_peers_follow(peers, "hogwild", status));
    TT_TRY(tt_peers_broadcast(peers, "hogwild", &block, sizeof block));
    lay_out(d, block);
    return TT_OK;
}

static tt_status get_arrays(const tt_dynamic *d)
{
    tt__hog *h = d->hog;
    const int64_t n = d->n_own + 1;
    h->copy = tt_arena_alloc(d->arena, h->n_copies * (int64_t)sizeof *h->copy);
    h->is_stepped = tt_arena_alloc(d->arena, n * (int64_t)sizeof(bool));
    h->got = tt_arena_alloc(d->arena, n * (int64_t)sizeof(double));
    h->waited = tt_arena_alloc(d->arena, n * (int64_t)sizeof(double));
    h->computed = tt_arena_alloc(d->arena, n * (int64_t)sizeof(double));
    return h->copy != NULL && h->is_stepped != NULL && h->got != NULL &&
                   h->waited != NULL && h->computed != NULL
               ? TT_OK
               : TT_ERR_NOMEM;
}

// Of a job that is in the middle of its run, without a word about its workers: as if each
// had delivered in every step.
static void begin_late(tt_dynamic *d)
{
    const int64_t steps = d->job->step;
    d->server.n_pushed = d->server.version = steps * d->workers;
    d->crowd->rules.version = steps;
    for (int32_t i = 0; i < d->workers; i++) {
        d->server.worker[i].pushed = d->drawn.worker[i].number = steps;
        d->crowd->rules.worker[i].number = steps;
    }
    for (int32_t i = 0; i < d->n_own; i++)
        d->own[i].number = steps;
}

tt_status tt__hog_open(tt_dynamic *d)
{
    if (!tt__hog_is(d->job))
        return TT_OK;
    d->hog = tt_arena_alloc(d->arena, sizeof *d->hog);
    if (d->hog == NULL)
        return TT_ERR_NOMEM;
    d->hog->base = -1;
    d->hog->n_copies = (int32_t)params_of(d->job)->copies;
    TT_TRY(get_arrays(d));
    TT_TRY(share_block(d));
    begin_late(d);
    for (int32_t i = 0; i < d->n_own; i++) {
        void *x = d->crowd->v[TT_PEER_WEIGHTS][i];
        tt_shared_read(tt__hog_copy(d, d->first + i), x);
        memcpy(d->own[i].weights, x, (size_t)tt_vector_bytes(&d->all));
    }
    return TT_OK;
}

void tt__hog_close(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    if (d->hog == NULL || d->hog->block == NULL || !tt_peers_is_first(peers))
        return;
    if (peers->size == 1)
        tt_free_aligned(d->hog->block);
    else
        tt_comm_wire_take_back(peers->wire, TT_LEND_WEIGHTS);
}
