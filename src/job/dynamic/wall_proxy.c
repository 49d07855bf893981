#include "job/dynamic/wall_proxy.h"

#include "base/alloc.h"

#include <string.h>

static int32_t rank_of(const tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    return tt__worker_rank(d, first);
}

static bool is_here(const tt_dynamic *d, int32_t proxy)
{
    return rank_of(d, proxy) == d->job->peers.rank;
}

// ---- who speaks with whom ------------------------------------------------

static bool is_in_group(const tt_dynamic *d, int32_t rank, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    for (int32_t i = first; i < first + n; i++)
        if (tt__worker_rank(d, i) == rank)
            return true;
    return false;
}

bool tt__wall_share_group(const tt_dynamic *d, int32_t a, int32_t b)
{
    for (int32_t p = 0; d->tree != NULL && p < d->tree->rules.proxies; p++)
        if ((rank_of(d, p) == a && is_in_group(d, b, p)) ||
            (rank_of(d, p) == b && is_in_group(d, a, p)))
            return true;
    return false;
}

// Of a group: how many gradients are here.
static int32_t count_here(const tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0, here = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    for (int32_t i = first; i < first + n; i++)
        here += d->wall->member[i].is_here;
    return here;
}

bool tt__wall_lacks(const tt_dynamic *d, int32_t rank)
{
    for (int32_t i = 0; d->tree != NULL && i < d->workers; i++)
        if (tt__worker_rank(d, i) == rank && !d->wall->member[i].is_here &&
            count_here(d, tt__pusher(d, i)) > 0)
            return true;
    return false;
}

// ---- up ------------------------------------------------------------------

double *tt__wall_head(const tt_dynamic *d, int32_t worker)
{
    return &d->wall->heads[(int64_t)worker * TT_WALL_N];
}

tt_status tt__wall_to_proxy(tt_dynamic *d, tt__wall_letter *head)
{
    const int32_t worker = (int32_t)head->worker;
    const int32_t to = rank_of(d, tt__pusher(d, worker));
    void *gradient = tt__member_pushes(d, worker, &head->bytes);
    head->kind = TT_WALL_MEMBER;
    if (to != d->job->peers.rank)
        return tt__wall_send(d, to, head, gradient, NULL);
    head->shown = gradient;
    tt__wall_joins(d, head);
    return tt__wall_push_sums(d);
}

void tt__wall_joins(tt_dynamic *d, const tt__wall_letter *head)
{
    tt__wall_inbox *member = &d->wall->member[head->worker];
    double *v = tt__wall_head(d, (int32_t)head->worker);
    memcpy(v, head->v, sizeof head->v);
    v[TT_WALL_HELD] = tt__wall_now(d); // since when
    member->bytes = head->bytes;
    member->shown = head->shown;
    member->is_here = true;
}

// In place of the first one's gradient; its head goes to `head`.
static tt_status add_up(tt_dynamic *d, int32_t first, int32_t n, double *head)
{
    tt__proxy_sum sum = {.first = tt__worker_own(d, first)};
    const double now = tt__wall_now(d);
    for (int32_t i = first; i < first + n; i++) {
        tt__wall_inbox *member = &d->wall->member[i];
        double *v = tt__wall_head(d, i);
        v[TT_WALL_HELD] = now - v[TT_WALL_HELD];
        tt__dynamic_judge(d, v);
        const void *at = member->shown != NULL ? member->shown : member->data;
        TT_TRY(tt__proxy_add(d, i, at, member->bytes, v, &sum));
        member->is_here = false;
    }
    tt__proxy_end(d, &sum);
    memcpy(head, sum.head.v, sizeof sum.head.v);
    return TT_OK;
}

static tt_status push_sum(tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    tt__wall_letter sum = {.worker = first};
    TT_TRY(add_up(d, first, n, sum.v));
    const tt__wall_letter heads = {.kind = TT_WALL_HEADS,
                                   .worker = first,
                                   .bytes = (int64_t)n * TT_WALL_N *
                                            (int64_t)sizeof(double)};
    if (!tt__wall_is_first(d))
        TT_TRY(tt__wall_send(d, 0, &heads, tt__wall_head(d, first), NULL));
    return tt__wall_push(d, &sum);
}

tt_status tt__wall_push_sums(tt_dynamic *d)
{
    for (int32_t p = 0; d->tree != NULL && p < d->tree->rules.proxies; p++)
        if (is_here(d, p) &&
            count_here(d, p) == d->workers / d->tree->rules.proxies)
            TT_TRY(push_sum(d, p));
    return TT_OK;
}

// ---- down ----------------------------------------------------------------

// Workers of this rank among [from, end) get weights that have come.
static void hand_out(tt_dynamic *d, int32_t from, int32_t end, double rate,
                     const void *weights)
{
    for (int32_t i = from; i < end; i++) {
        tt__dynamic_worker *w = tt__worker_own(d, i);
        if (w == NULL)
            continue;
        if (w->weights != weights)
            memcpy(w->weights, weights, (size_t)tt_vector_bytes(&d->all));
        d->rate[i] = rate;
        tt__wall_begin(d, i);
    }
}

tt_status tt__wall_give(tt_dynamic *d, int32_t proxy)
{
    int32_t first = 0, n = 0;
    tt_tree_group(d->tree, proxy, &first, &n);
    void *weights = tt__worker_own(d, first)->weights;
    const double rate = d->rate[first];
    tt__wall_letter head = {.kind = TT_WALL_GIVE,
                            .bytes = tt_vector_bytes(&d->all),
                            .v = {[TT_WALL_RATE] = rate}};
    for (int32_t i = first + 1; i < first + n; i++) {
        const int32_t to = tt__worker_rank(d, i);
        head.worker = i;
        if (to != tt__worker_rank(d, i - 1)) // once to a rank
            TT_TRY(tt__wall_send(d, to, &head, weights, NULL));
    }
    hand_out(d, first + 1, first + n, rate, weights);
    return TT_OK;
}

void tt__wall_given(tt_dynamic *d, const tt__wall_letter *head)
{
    int32_t first = 0, n = 0;
    const int32_t worker = (int32_t)head->worker;
    tt_tree_group(d->tree, tt__pusher(d, worker), &first, &n);
    hand_out(d, worker, first + n, head->v[TT_WALL_RATE],
             tt__worker_own(d, worker)->weights);
}

// ---- open and close --------------------------------------------------------

tt_status tt__wall_proxy_open(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    const int64_t n = d->workers;
    if (d->tree == NULL)
        return TT_OK;
    w->member = tt_arena_alloc(d->arena, n * (int64_t)sizeof *w->member);
    w->heads =
        tt_arena_alloc(d->arena, n * TT_WALL_N * (int64_t)sizeof *w->heads);
    return w->member != NULL && w->heads != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for proxies");
}

void tt__wall_proxy_close(tt_dynamic *d)
{
    for (int32_t i = 0; d->wall->member != NULL && i < d->workers; i++)
        tt_free(d->wall->member[i].data);
}
