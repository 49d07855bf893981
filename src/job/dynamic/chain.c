#include "job/dynamic/chain.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "job/dynamic/hog.h"
#include "job/federated/federated.h"

#include <string.h>

// ---- settings ------------------------------------------------------------

int64_t tt__copies_length(const tt_job *job)
{
    if (tt__crowd_is(job) || tt_job_is_federated(job))
        return 1;
    return tt__server_params(job)->chain;
}

// Ranks that keep weights where these are in shards.
static int64_t ring_of(int64_t servers, int64_t ranks)
{
    return servers > 0 ? servers : ranks;
}

tt_status tt__copies_check(const tt_job *job)
{
    const long long k = tt__copies_length(job);
    const tt_ps_params *p = tt__server_params(job);
    if (k <= 1)
        return TT_OK;
    const long long ring = ring_of(p->servers, job->grid.size[TT_AXIS_DATA]);
    if (p->server != TT_SERVER_SHARDED)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chain=%lld copies shards, and with "
                       "exchange.server=single there are none; "
                       "exchange.server=sharded would do",
                       k);
    if (k > ring)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chain=%lld ranks are to hold each shard, and "
                       "%lld %s weights; exchange.chain=%lld would do",
                       k, ring, ring == 1 ? "keeps" : "keep", ring);
    if (tt_job_workers_are_live(job))
        return tt_fail(TT_ERR_ARG,
                       "exchange.chain=%lld: by the wall clock updates are not "
                       "passed on; exchange.schedule=seeded, or the order that "
                       "a run by the wall clock has left, would do",
                       k);
    return TT_OK;
}

// ---- memory --------------------------------------------------------------

static tt_status make_copy(tt_dynamic *d, int32_t head, bool predicts,
                           tt__shard_copy *c)
{
    c->head = head;
    c->span = (tt_vector_span){d->all.is_wide, tt__shard_size(d, head)};
    const int64_t bytes = tt_vector_bytes(&c->span) + 8;
    c->now = tt_alloc(bytes);
    c->sum = tt_alloc(bytes);
    if (predicts) {
        c->before = tt_alloc(bytes);
        c->ahead = tt_alloc(bytes);
    }
    return c->now != NULL && c->sum != NULL &&
                   (!predicts || (c->before != NULL && c->ahead != NULL))
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for copies of shards");
}

tt_status tt__copies_open(tt_dynamic *d)
{
    const int32_t me = d->job->peers.rank;
    const int32_t n = (int32_t)tt__copies_length(d->job);
    if (n == 1)
        return TT_OK;
    tt__copies *c = tt_arena_alloc(d->arena, sizeof *c);
    if (c == NULL)
        return TT_ERR_NOMEM;
    c->ring = (int32_t)ring_of(d->servers, d->job->peers.size);
    c->copy = tt_arena_alloc(d->arena, n * (int64_t)sizeof *c->copy);
    if (c->copy == NULL)
        return TT_ERR_NOMEM;
    c->length = n;
    d->chain = c;
    for (int32_t i = 0; me < c->ring && i < n - 1; i++) {
        const bool answers = i == n - 2; // as the tail
        TT_TRY(make_copy(d, (me - 1 - i + c->ring) % c->ring,
                         answers && d->params->staleness == TT_STALE_PREDICT,
                         &c->copy[i]));
    }
    return TT_OK;
}

void tt__copies_close(tt_dynamic *d)
{
    for (int32_t i = 0; d->chain != NULL && i < d->chain->length - 1; i++) {
        tt_free(d->chain->copy[i].now);
        tt_free(d->chain->copy[i].sum);
        tt_free(d->chain->copy[i].before);
        tt_free(d->chain->copy[i].ahead);
    }
}

// ---- who holds what ------------------------------------------------------

int32_t tt__copies_head(const tt_dynamic *d, const tt_tensor *t)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const char *own = d->part[i].tensor.name;
        const size_t n = strlen(own);
        if (strncmp(t->name, own, n) == 0 &&
            (t->name[n] == '\0' || t->name[n] == '.'))
            return d->part[i].owner;
    }
    return -1;
}

tt__shard_copy *tt__copies_of(const tt_dynamic *d, int32_t rank)
{
    const tt__copies *c = d->chain;
    for (int32_t i = 0; c != NULL && i < c->length - 1; i++)
        if (c->copy[i].now != NULL && c->copy[i].head == rank)
            return &c->copy[i];
    return NULL;
}

int32_t tt__copies_tail(const tt_dynamic *d, int32_t rank)
{
    const tt__copies *c = d->chain;
    return c != NULL && rank < c->ring ? (rank + c->length - 1) % c->ring
                                       : rank;
}

void tt__copies_remember(tt_dynamic *d)
{
    for (int32_t i = 0; d->chain != NULL && i < d->chain->length - 1; i++) {
        const tt__shard_copy *c = &d->chain->copy[i];
        if (c->before != NULL)
            memcpy(c->before, c->now, (size_t)tt_vector_bytes(&c->span));
    }
}

void tt__copies_load(tt_dynamic *d, void *before)
{
    for (int32_t i = 0; d->chain != NULL && i < d->chain->length - 1; i++) {
        const tt__shard_copy *c = &d->chain->copy[i];
        if (c->before != NULL)
            memcpy(c->before, tt__element_at(d, before, d->bound[c->head]),
                   (size_t)tt_vector_bytes(&c->span));
    }
}

// ---- an update -----------------------------------------------------------

// Where a part lies in vectors of its shard.
static char *in_shard(const tt_dynamic *d, void *vector,
                      const tt__dynamic_part *p)
{
    return tt__element_at(d, vector, p->at - d->bound[p->owner]);
}

// Statistics have moved already: what is passed on is what they are now.
static void add_statistics(const tt_dynamic *d)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (p->is_buffer && p->owner == d->job->peers.rank)
            memcpy(in_shard(d, d->total, p), in_shard(d, d->now, p),
                   (size_t)tt_vector_bytes(&n));
    }
}

static tt_status take_statistics(const tt_dynamic *d)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        const tt__shard_copy *c = tt__copies_of(d, p->owner);
        if (!p->is_buffer || c == NULL)
            continue;
        memcpy(in_shard(d, c->now, p), in_shard(d, c->sum, p),
               (size_t)tt_vector_bytes(&n));
        TT_TRY(tt__dynamic_write_part(d, d->job->exec, &p->tensor,
                                      in_shard(d, c->sum, p)));
    }
    return TT_OK;
}

// Each rank sends the next one what it got a hop before; at first its own.
static tt_status pass_on(tt_dynamic *d, int32_t hop)
{
    const tt__copies *c = d->chain;
    void *data = hop == 0 ? d->total : c->copy[hop - 1].sum;
    tt__post *post = tt_alloc(c->ring * (int64_t)sizeof *post);
    if (post == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    for (int32_t r = 0; r < c->ring; r++) {
        const int32_t head = (r - hop + c->ring) % c->ring;
        post[r] = (tt__post){r, (r + 1) % c->ring, data, c->copy[hop].sum,
                             tt__shard_size(d, head) * tt__element(d)};
    }
    const tt_status status = tt__post_all(d, post, c->ring);
    tt_free(post);
    return status;
}

tt_status tt__copies_pass(tt_dynamic *d)
{
    if (d->chain == NULL)
        return TT_OK;
    const int32_t hops = d->chain->length - 1;
    add_statistics(d);
    for (int32_t hop = 0; hop < hops; hop++)
        TT_TRY(pass_on(d, hop));
    d->passed += (double)(hops * tt_vector_bytes(&d->all));
    return take_statistics(d);
}

// ---- whether copies are alike --------------------------------------------

// Of all states of a shard, as this rank has them.
static tt_status hash_shard(const tt_dynamic *d, int32_t head, void *room,
                            uint64_t *hash_out)
{
    const tt_tensors *all = &d->job->tensors;
    uint64_t pair[2] = {0, 0};
    for (int64_t i = 0; i < all->n; i++) {
        const tt_tensor *t = &all->v[i];
        if (t->bytes == 0 || tt__copies_head(d, t) != head)
            continue;
        TT_TRY(tt_exec_read(d->job->exec, t->val, room));
        pair[1] = tt_hash(room, t->bytes);
        pair[0] = tt_hash(pair, sizeof pair);
    }
    *hash_out = pair[0];
    return TT_OK;
}

// Hashes as numbers that a sum with zeros keeps: of each shard, of each of its holders, two.
static tt_status hash_all(const tt_dynamic *d, double *v)
{
    const tt__copies *c = d->chain;
    const int32_t me = d->job->peers.rank;
    int64_t most = 0;
    for (int64_t i = 0; i < d->job->tensors.n; i++)
        if (d->job->tensors.v[i].bytes > most)
            most = d->job->tensors.v[i].bytes;
    void *room = tt_alloc(most + 8);
    tt_status status =
        room != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for a tensor");
    for (int32_t i = 0; me < c->ring && i < c->length && status == TT_OK; i++) {
        const int32_t head = i == 0 ? me : c->copy[i - 1].head;
        double *at = &v[2 * ((int64_t)head * c->length + i)];
        uint64_t hash = 0;
        status = hash_shard(d, head, room, &hash);
        at[0] = (double)(hash >> 32);
        at[1] = (double)(hash & 0xffffffff);
    }
    tt_free(room);
    return status;
}

static tt_status differs(const tt_dynamic *d, int32_t head, int32_t place)
{
    const tt__copies *c = d->chain;
    return tt_fail(TT_ERR_STATE,
                   "step %lld: of rank %d's shard of the weights rank %d has a "
                   "copy with other bits than that of rank %d, from which it "
                   "gets its updates; going on from the last checkpoint would "
                   "do",
                   (long long)d->job->step, head, (head + place) % c->ring,
                   (head + place - 1) % c->ring);
}

tt_status tt__copies_compare(tt_dynamic *d)
{
    const tt__copies *c = d->chain;
    if (c == NULL)
        return TT_OK;
    const int64_t n = 2 * (int64_t)c->ring * c->length;
    double *v = tt_alloc(n * (int64_t)sizeof *v);
    if (v == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to compare copies of shards");
    tt_status status = hash_all(d, v);
    if (status == TT_OK)
        status = tt__post_sum(d, v, n);
    for (int32_t h = 0; h < c->ring; h++)
        for (int32_t i = 1; i < c->length && status == TT_OK; i++) {
            const double *at = &v[2 * ((int64_t)h * c->length + i)];
            if (at[0] != at[-2] || at[1] != at[-1])
                status = differs(d, h, i);
        }
    tt_free(v);
    return status;
}
