#include "job/dynamic/proxy.h"

#include "base/alloc.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"
#include "job/federated/federated.h"

#include <string.h>

// ---- settings ------------------------------------------------------------

static int64_t proxies_of(const tt_job *job)
{
    return tt__crowd_is(job) || tt_job_is_federated(job)
               ? 0
               : tt__server_params(job)->proxies;
}

int32_t tt__proxy_pushers(const tt_job *job)
{
    const int64_t proxies = proxies_of(job);
    return proxies > 0 ? (int32_t)proxies : job->workers;
}

static int64_t nearest_divisor(int64_t n, int64_t wanted)
{
    int64_t best = wanted < n ? wanted : n;
    while (n % best != 0)
        best--;
    return best;
}

tt_status tt__proxy_check(const tt_job *job, const tt_clock_def *clock)
{
    const int64_t n = proxies_of(job);
    if (n == 0)
        return TT_OK;
    if (job->workers % n != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.proxies=%lld cannot have groups of %d workers "
                       "of one size; exchange.proxies=%lld would do",
                       (long long)n, job->workers,
                       (long long)nearest_divisor(job->workers, n));
    if (clock->takes_parts)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s hurries single workers, and the "
                       "server knows of %lld proxies alone; "
                       "exchange.clock=quorum would do",
                       clock->name, (long long)n);
    return TT_OK;
}

// A recorded order has the moments in which sums were at the server.
static double hop_of(const tt_dynamic *d)
{
    return strcmp(d->params->pace.schedule, "seeded") == 0
               ? d->params->pace.delay
               : 0;
}

tt_status tt__proxy_open(tt_dynamic *d)
{
    const tt_tree_rules rules = {.workers = d->workers,
                                 .proxies = (int32_t)proxies_of(d->job),
                                 .delay = hop_of(d)};
    if (rules.proxies == 0)
        return TT_OK;
    d->tree = tt_arena_alloc(d->arena, sizeof *d->tree);
    d->from_member = tt_alloc(tt_vector_bytes(&d->all) + 8);
    if (d->tree == NULL || d->from_member == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d proxies", rules.proxies);
    return tt_tree_init(d->tree, &rules, d->arena);
}

void tt__proxy_close(tt_dynamic *d)
{
    tt_free(d->from_member);
}

// ---- up ------------------------------------------------------------------

void *tt__member_pushes(const tt_dynamic *d, int32_t member, int64_t *bytes_out)
{
    if (d->coder != NULL)
        return tt__coder_whole(d, member, bytes_out);
    *bytes_out = tt_vector_bytes(&d->all);
    return tt__worker_own(d, member)->gradient;
}

int64_t tt__member_bytes(const tt_dynamic *d)
{
    return d->coder != NULL ? tt__coder_most(d) : tt_vector_bytes(&d->all);
}

typedef struct arrival { // of a member's gradient, or its code, at its proxy
    tt__push_head head;
    int64_t bytes;
    void *data, *room;
} arrival;

// Only the sender knows how many bytes a code has.
static tt_status tell_bytes(tt_dynamic *d, int32_t member, int32_t to,
                            arrival *a)
{
    const int32_t from = tt__worker_rank(d, member);
    const tt__post post = {from, to, &a->bytes, &a->bytes, sizeof a->bytes};
    TT_TRY(tt__post_all(d, &post, 1));
    return a->bytes <= tt__member_bytes(d)
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "the code of worker %d's gradient is too long",
                         member);
}

// At the proxy's rank; elsewhere a->data is not for use.
static tt_status fetch(tt_dynamic *d, int32_t member, int32_t to, arrival *a)
{
    const int32_t from = tt__worker_rank(d, member);
    tt__dynamic_worker *w = tt__worker_own(d, member);
    a->data = a->room;
    a->bytes = tt__member_bytes(d);
    if (w != NULL) {
        TT_TRY(tt__worker_compute(d, member)); // again, in a resumed run
        if (d->tree->is_refused[member])
            w->head.v[TT_HEAD_REFUSED] = 1;
        a->head = w->head;
        a->data = tt__member_pushes(d, member, &a->bytes);
    }
    if (d->coder != NULL)
        TT_TRY(tell_bytes(d, member, to, a));
    const tt__post post[] = {{from, to, &a->head, &a->head, sizeof a->head},
                             {from, to, a->data, a->room, a->bytes}};
    return tt__post_all(d, post, 2);
}

tt_status tt__proxy_add(tt_dynamic *d, int32_t member, const void *pushed,
                        int64_t bytes, const double *head, tt__proxy_sum *sum)
{
    void *to = sum->first->gradient; // that of the first one is there
    const bool is_first = sum->n_seen++ == 0;
    const bool is_good = head[TT_HEAD_REFUSED] == 0;
    if (is_first && !is_good)
        memset(to, 0, (size_t)tt_vector_bytes(&d->all));
    if (!is_good)
        return TT_OK;
    if (d->coder != NULL) {
        void *gradient = is_first ? to : d->from_member;
        // All of a group are of the same number.
        TT_TRY(tt__coder_decode_whole(d, member, sum->first->number, pushed,
                                      bytes, gradient));
        pushed = gradient;
    }
    sum->n++;
    if (!is_first)
        tt_vector_add(&d->all, 1, pushed, to);
    for (int i = TT_HEAD_LOSS; i <= TT_HEAD_SQUARES; i++)
        sum->head.v[i] += head[i];
    return TT_OK;
}

// Statistics are a mean.
void tt__proxy_end(const tt_dynamic *d, tt__proxy_sum *sum)
{
    const tt_vector_span weights = tt__worker_weights(d);
    const tt_vector_span buffers = {d->all.is_wide, d->all.n - weights.n};
    void *to = tt__element_at(d, sum->first->gradient, weights.n);
    if (sum->n > 1 && buffers.n > 0)
        tt_vector_scale(&buffers, 1.0 / sum->n, to);
    sum->head.v[TT_HEAD_REFUSED] = sum->n > 0 ? 0 : 1;
    sum->head.v[TT_HEAD_BYTES] = (double)tt_vector_bytes(&d->all);
    sum->first->head = sum->head;
}

static tt_status add_all(tt_dynamic *d, int32_t first, int32_t n, void *room)
{
    const int32_t to = tt__worker_rank(d, first);
    tt__proxy_sum sum = {.first = tt__worker_own(d, first)};
    for (int32_t i = first; i < first + n; i++) {
        arrival a = {.room = room};
        TT_TRY(fetch(d, i, to, &a));
        if (sum.first != NULL)
            TT_TRY(tt__proxy_add(d, i, a.data, a.bytes, a.head.v, &sum));
    }
    if (sum.first != NULL)
        tt__proxy_end(d, &sum);
    return TT_OK;
}

tt_status tt__proxy_add_up(tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    if (d->coder == NULL)
        return add_all(d, first, n, d->from_member);
    void *code = tt_alloc(tt__member_bytes(d) + 8);
    const tt_status status =
        code != NULL ? add_all(d, first, n, code)
                     : tt_fail(TT_ERR_NOMEM, "no memory for a code");
    tt_free(code);
    return status;
}

void tt__proxy_waste(tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    for (int32_t i = first; i < first + n; i++) {
        tt_turn *turn = &d->drawn.worker[i].turn;
        for (int32_t k = 0; k < d->n_delivered; k++) // in this step
            if (d->delivered[k] == i)
                turn = &d->turn[k];
        if (!d->tree->is_refused[i]) // those are wasted already
            tt_diary_waste(&d->drawn.diary, turn);
    }
}

// ---- down ----------------------------------------------------------------

static void begin(tt_dynamic *d, int32_t worker, const void *weights)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    if (w->weights != weights)
        memcpy(w->weights, weights, (size_t)tt_vector_bytes(&d->all));
    w->is_computed = false;
    w->number++;
}

tt_status tt__proxy_hand_out(tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    const int32_t from = tt__worker_rank(d, first);
    tt__dynamic_worker *cached = tt__worker_own(d, first);
    void *weights = cached != NULL ? cached->weights : NULL;
    for (int32_t i = first + 1; i < first + n; i++) {
        const int32_t to = tt__worker_rank(d, i);
        tt__dynamic_worker *w = tt__worker_own(d, i);
        if (to != from && to != tt__worker_rank(d, i - 1)) { // once to a rank
            weights = w != NULL ? w->weights : weights;
            TT_TRY(tt__post_all(d,
                                &(tt__post){from, to, weights, weights,
                                            tt_vector_bytes(&d->all)},
                                1));
        }
        if (w != NULL && weights != NULL)
            begin(d, i, weights);
    }
    return TT_OK;
}
