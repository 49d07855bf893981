// dynamic_server - what a shard does: keeps gradients until they become an update, runs the
// plan's update for its tensors, hands out weights.
//
//   pending gradients -> corrected -> gathered -> clipped -> the plan's update -> weights
//
// An update is the mean over the samples of all gradients in it: sums of gradients, divided
// by the sum of their counts, as everywhere else. The norm for clipping is that of the
// whole gradient: shards tell each other their parts' squares, tensor by tensor.

#include "base/alloc.h"
#include "job/dynamic/chain.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/wall.h"

#include <math.h>
#include <string.h>

// ---- which steps ---------------------------------------------------------

static bool is_mine(const tt_dynamic *d, const tt__dynamic_part *p)
{
    return p->owner == d->job->peers.rank;
}

static bool is_held(const tt_dynamic *d, const tt__dynamic_part *p)
{
    return is_mine(d, p) || tt__copies_of(d, p->owner) != NULL;
}

// Whether a state is a tensor that is held here, or belongs to one: "NAME.exp_avg".
static bool is_own_state(const tt_dynamic *d, const char *name)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const char *own = d->part[i].tensor.name;
        const size_t n = strlen(own);
        if (is_held(d, &d->part[i]) && !d->part[i].is_buffer &&
            strncmp(name, own, n) == 0 && (name[n] == '\0' || name[n] == '.'))
            return true;
    }
    return false;
}

static bool is_node_wanted(const tt_dynamic *d, const tt_node *node,
                           const bool *is_used)
{
    const tt_graph *g = d->job->graph;
    for (int i = 0; i < node->n_out; i++) {
        const tt_value *v = &g->value[node->out[i].id];
        const tt_val state = v->updates;
        if (is_used[node->out[i].id] ||
            (tt_is(state) && is_own_state(d, g->value[state.id].name)))
            return true;
    }
    return false;
}

// From the last node to the first: those that change a state that is held here, and what
// these read.
tt_status tt__dynamic_steps(tt_dynamic *d)
{
    const tt_plan *plan = d->job->plan;
    const tt_graph *g = plan->graph;
    bool *is_used = tt_alloc(g->n_values + 1);
    bool *is_wanted = tt_alloc(g->n_nodes + 1);
    d->wanted = tt_alloc(plan->n_steps + 1);
    const bool has_all =
        is_used != NULL && is_wanted != NULL && d->wanted != NULL;
    for (int32_t n = g->n_nodes - 1; has_all && n >= 0; n--) {
        const tt_node *node = &g->node[n];
        is_wanted[n] = is_node_wanted(d, node, is_used);
        for (int i = 0; is_wanted[n] && i < node->n_in; i++)
            if (tt_is(node->in[i]))
                is_used[node->in[i].id] = true;
    }
    for (int32_t s = 0; has_all && s < plan->n_steps; s++)
        d->wanted[s] = plan->step[s].node < 0 || is_wanted[plan->step[s].node];
    tt_free(is_used);
    tt_free(is_wanted);
    return has_all ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for the server");
}

// ---- weights -------------------------------------------------------------

// Where a part lies in vectors of its shard.
static char *in_shard(const tt_dynamic *d, void *vector,
                      const tt__dynamic_part *p)
{
    return tt__element_at(d, vector, p->at - d->bound[p->owner]);
}

// A part that is held here, in the weights and in the sum of an update.
static char *now_of(const tt_dynamic *d, const tt__dynamic_part *p)
{
    return in_shard(d, is_mine(d, p) ? d->now : tt__copies_of(d, p->owner)->now,
                    p);
}

// Of the sum of an update.
static char *sum_of(const tt_dynamic *d, const tt__dynamic_part *p)
{
    if (!is_mine(d, p))
        return in_shard(d, tt__copies_of(d, p->owner)->sum, p);
    return d->total != NULL ? in_shard(d, d->total, p)
                            : tt_exec_dense(d->job->exec, p->grad.val);
}

tt_status tt__dynamic_read(tt_dynamic *d)
{
    for (int32_t i = 0; i < d->n_parts; i++)
        if (is_held(d, &d->part[i]))
            TT_TRY(tt__dynamic_read_part(d, d->job->exec, &d->part[i].tensor,
                                         now_of(d, &d->part[i])));
    return TT_OK;
}

// ---- a gradient comes ----------------------------------------------------

tt_status tt__dynamic_room(tt_dynamic *d, int32_t slot)
{
    if (d->slot[slot] == NULL)
        d->slot[slot] = tt_alloc(tt_vector_bytes(&d->shard) + 8);
    return d->slot[slot] != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for a gradient");
}

// As codes, of which only the sender knows how many bytes they have.
static tt_status take_code(tt_dynamic *d, int32_t worker, int32_t slot)
{
    const int32_t from = tt__worker_rank(d, worker);
    const int32_t ranks = d->job->peers.size, me = d->job->peers.rank;
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    tt__post *post = tt_alloc(2 * (int64_t)ranks * (int64_t)sizeof *post);
    int64_t *bytes = tt_alloc(ranks * (int64_t)sizeof *bytes);
    char *room = tt_alloc(tt__coder_room(d) + 8);
    tt_status status = post != NULL && bytes != NULL && room != NULL
                           ? TT_OK
                           : tt_fail(TT_ERR_NOMEM, "no memory for a code");
    char *code = room;
    for (int pass = 0; pass < 2 && status == TT_OK; pass++) {
        int n = 0;
        for (int32_t r = 0; r < ranks; r++) {
            void *data =
                w != NULL ? tt__coder_code(d, worker, r, &bytes[r]) : NULL;
            if (w != NULL && r == me)
                code = data;
            if (!tt__keeps_weights(d, r))
                continue;
            if (pass == 1) {
                post[n++] = (tt__post){from, r, data, room, bytes[r]};
                continue;
            }
            post[n++] = (tt__post){from, r, &bytes[r], &bytes[r], 8};
            post[n++] = (tt__post){from, r, w != NULL ? &w->head : NULL,
                                   &d->slot_head[slot], sizeof(tt__push_head)};
        }
        status = tt__post_all(d, post, n);
        if (status == TT_OK && bytes[me] > tt__coder_room(d))
            status =
                tt_fail(TT_ERR_ARG,
                        "the code of worker %d's gradient is too long", worker);
    }
    if (status == TT_OK && tt__keeps_weights(d, me))
        status =
            tt__coder_decode(d, worker, d->server.worker[worker].pushed - 1,
                             code, bytes[me], d->slot[slot]);
    tt_free(post);
    tt_free(bytes);
    tt_free(room);
    return status;
}

// The owner sends each shard its part and what is known of the whole.
tt_status tt__dynamic_take(tt_dynamic *d, int32_t worker, int32_t slot)
{
    const int32_t from = tt__worker_rank(d, worker);
    const int32_t ranks = d->job->peers.size, me = d->job->peers.rank;
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    TT_TRY(tt__dynamic_room(d, slot));
    if (w != NULL) {
        memcpy(d->slot[slot], tt__element_at(d, w->gradient, d->bound[me]),
               (size_t)tt_vector_bytes(&d->shard));
        d->slot_head[slot] = w->head;
    }
    if (tt__shards_decode(d))
        return take_code(d, worker, slot);
    tt__post *post = tt_alloc(2 * (int64_t)ranks * (int64_t)sizeof *post);
    if (post == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    int n = 0;
    for (int32_t r = 0; r < ranks; r++) {
        const int64_t bytes = tt__shard_size(d, r) * tt__element(d);
        if (!tt__keeps_weights(d, r))
            continue;
        post[n++] = (tt__post){from, r, w != NULL ? &w->head : NULL,
                               &d->slot_head[slot], sizeof(tt__push_head)};
        post[n++] = (tt__post){
            from, r,
            w != NULL ? tt__element_at(d, w->gradient, d->bound[r]) : NULL,
            d->slot[slot], bytes};
    }
    const tt_status status = tt__post_all(d, post, n);
    tt_free(post);
    return status;
}

// ---- an update -----------------------------------------------------------

typedef struct update {
    int32_t n; // gradients that are good
    int32_t at[2 * TT_GATHER_MOST];
    double count; // that the sum is divided by
    double rate;  // factor on the learning rate
} update;

static double rate_of(const tt_dynamic *d, const tt_server_push *push)
{
    const int64_t old = tt_server_staleness(&d->server, push);
    return d->params->staleness == TT_STALE_LR ? tt_stale_rate(old) : 1;
}

static void correct(tt_dynamic *d, const tt_server_push *push)
{
    const double count = d->slot_head[push->slot].v[TT_HEAD_COUNT];
    if (d->then != NULL && tt_server_staleness(&d->server, push) > 0)
        tt_vector_compensate(&d->shard, d->params->lambda / count, d->now,
                             d->then[push->worker], tt__waiting(d, push->slot));
}

static tt_status nearest(const tt_dynamic *d, const update *u, int32_t *out)
{
    double *distance = tt_alloc((int64_t)u->n * u->n * 8);
    if (distance == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to compare gradients");
    for (int32_t i = 0; i < u->n; i++)
        for (int32_t k = 0; k < u->n; k++)
            distance[i * u->n + k] = tt_vector_distance(
                &d->shard, tt__waiting(d, u->at[i]), tt__waiting(d, u->at[k]));
    *out = tt_krum(u->n, (int32_t)d->params->bad, distance);
    tt_free(distance);
    return TT_OK;
}

static tt_status gather_middle(tt_dynamic *d, update *u)
{
    const void *x[TT_GATHER_MOST];
    double a[TT_GATHER_MOST];
    int32_t trim = d->params->gather == TT_GATHER_MEDIAN
                       ? (u->n - 1) / 2
                       : (int32_t)d->params->bad;
    if (2 * trim >= u->n)
        trim = (u->n - 1) / 2;
    for (int32_t i = 0; i < u->n; i++) {
        x[i] = tt__waiting(d, u->at[i]);
        a[i] = 1 / d->slot_head[u->at[i]].v[TT_HEAD_COUNT];
    }
    tt_vector_middle(&d->shard, u->n, x, a, trim, d->sum);
    u->count = u->n;
    return TT_OK;
}

// The gradients of an update are not used again: the first becomes the sum.
static tt_status gather(tt_dynamic *d, update *u)
{
    int32_t best = 0;
    d->total = d->sum;
    switch (d->params->gather) {
    case TT_GATHER_MEDIAN:
    case TT_GATHER_TRIMMED:
        return gather_middle(d, u);
    case TT_GATHER_KRUM:
        TT_TRY(nearest(d, u, &best));
        d->total = tt__waiting(d, u->at[best]);
        u->count = d->slot_head[u->at[best]].v[TT_HEAD_COUNT];
        return TT_OK;
    default:
        if (d->wall != NULL && d->wall->sums_in_place) {
            d->total = NULL;
            tt__wall_add_up(d, u->n, u->at);
            return TT_OK;
        }
        d->total = tt__waiting(d, u->at[0]);
        for (int32_t i = 1; i < u->n; i++)
            tt_vector_add(&d->shard, 1, tt__waiting(d, u->at[i]), d->total);
        return TT_OK;
    }
}

// Statistics move by the mean of what the workers' have moved.
static tt_status move_buffers(tt_dynamic *d, const update *u)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (!p->is_buffer || !is_mine(d, p))
            continue;
        for (int32_t k = 0; k < u->n; k++)
            tt_vector_add(&n, 1.0 / u->n,
                          in_shard(d, tt__waiting(d, u->at[k]), p),
                          in_shard(d, d->now, p));
        TT_TRY(tt__dynamic_write_part(d, d->job->exec, &p->tensor,
                                      in_shard(d, d->now, p)));
    }
    return TT_OK;
}

// The parts that a rank keeps: [first, last).
static void parts_of(const tt_dynamic *d, int32_t rank, int32_t *first,
                     int32_t *last)
{
    *first = 0;
    while (*first < d->n_parts && d->part[*first].owner < rank)
        (*first)++;
    *last = *first;
    while (*last < d->n_parts && d->part[*last].owner == rank)
        (*last)++;
}

// Each rank that keeps weights tells the others the numbers of its parts.
static tt_status share(tt_dynamic *d, double *of_part)
{
    const int32_t ranks = d->job->peers.size;
    tt__post *post =
        tt_alloc(((int64_t)ranks * ranks + 1) * (int64_t)sizeof *post);
    int n = 0;
    if (post == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    for (int32_t from = 0; from < ranks; from++)
        for (int32_t to = 0; to < ranks; to++) {
            int32_t first = 0, last = 0;
            parts_of(d, from, &first, &last);
            if (tt__keeps_weights(d, from) && tt__keeps_weights(d, to))
                post[n++] =
                    (tt__post){from, to, of_part + first, of_part + first,
                               (last - first) * (int64_t)sizeof(double)};
        }
    const tt_status status = tt__post_all(d, post, n);
    tt_free(post);
    return status;
}

// The norm of the whole mean gradient; all shards' parts in the order of tensors.
static tt_status measure(tt_dynamic *d, double count, double *norm_out)
{
    double *square = tt_alloc((d->n_parts + 1) * (int64_t)sizeof *square);
    double sum = 0;
    if (square == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a norm");
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (is_mine(d, p) && !p->is_buffer)
            square[i] = tt_vector_squares(&n, sum_of(d, p));
    }
    tt_status status = TT_OK;
    if (d->wall != NULL)
        status = tt__wall_sum(d, square, d->n_parts);
    else if (d->params->server == TT_SERVER_SHARDED)
        status = share(d, square);
    for (int32_t i = 0; i < d->n_parts; i++)
        sum += square[i];
    tt_free(square);
    *norm_out = sqrt(sum) / count;
    return status;
}

tt_status tt__dynamic_clip(tt_dynamic *d, double count)
{
    const double most = d->job->optim_params.clip;
    if (most <= 0)
        return TT_OK;
    TT_TRY(measure(d, count, &d->norm));
    const double factor = most / (d->norm + 1e-6); // as ops/optim/clip.c
    if (factor < 1 && d->total != NULL)
        tt_vector_scale(&d->shard, factor, d->total);
    for (int32_t i = 0; factor < 1 && d->total == NULL && i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (is_mine(d, p))
            tt_vector_scale(&n, factor, sum_of(d, p));
    }
    return TT_OK;
}

static tt_status set(const tt_job *job, const char *name, double value)
{
    return tt_is(tt_graph_find(job->graph, name))
               ? tt_exec_set_scalar(job->exec, name, value)
               : TT_OK;
}

static tt_status set_count(const tt_job *job, double count)
{
    const tt_val v = tt_graph_output_find(job->graph, "count");
    char number[8];
    tt_dtype_store(job->graph->value[v.id].type.dtype, number, 0, count);
    return tt_exec_write(job->exec, v, number);
}

tt_status tt__dynamic_update(tt_dynamic *d, double count, double rate)
{
    tt_job *job = d->job;
    bool holds_any = false;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (!is_held(d, p) || p->is_buffer)
            continue;
        holds_any = true;
        if (d->total != NULL) // else it is there
            TT_TRY(
                tt__dynamic_write_part(d, job->exec, &p->grad, sum_of(d, p)));
    }
    TT_TRY(set_count(job, count));
    TT_TRY(set(job, "lr", job->lr * rate));
    TT_TRY(set(job, "step", (double)(d->server.version + 1)));
    TT_TRY(set(job, "skip", 0));
    TT_TRY(set(job, "seed", (double)job->options.seed));
    TT_TRY(set(job, "samples", (double)job->options.batch));
    if (holds_any)
        TT_TRY(
            tt_exec_run_part(job->exec, TT_RUN_UPDATE, d->wanted, NULL, NULL));
    return d->is_one ? TT_OK : tt__dynamic_read(d); // workers read them there
}

// Workers have made their steps: weights move by the mean of their changes.
static tt_status add_change(tt_dynamic *d, double factor)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (!is_held(d, p) || p->is_buffer)
            continue;
        tt_vector_add(&n, factor, sum_of(d, p), now_of(d, p));
        TT_TRY(
            tt__dynamic_write_part(d, d->job->exec, &p->tensor, now_of(d, p)));
    }
    return TT_OK;
}

static update list_good(tt_dynamic *d)
{
    update u = {0};
    double rates = 0;
    for (int32_t i = 0; i < d->server.n_pending; i++) {
        const tt_server_push *push = &d->server.pending[i];
        const tt__push_head *head = &d->slot_head[push->slot];
        if (head->v[TT_HEAD_REFUSED] != 0)
            continue;
        correct(d, push);
        u.at[u.n++] = push->slot;
        u.count += head->v[TT_HEAD_COUNT];
        rates += rate_of(d, push);
    }
    u.rate = u.n > 0 ? rates / u.n : 1;
    return u;
}

// How far weights have moved, on whichever shard: for clocks that ask.
static tt_status measure_change(tt_dynamic *d, double own, double *change_out)
{
    const int32_t ranks = d->job->peers.size;
    double *all = tt_alloc(ranks * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for an update");
    all[d->job->peers.rank] = own;
    const tt_status status = d->wall != NULL ? tt__wall_sum(d, all, ranks)
                                             : tt__post_sum(d, all, ranks);
    for (int32_t r = 0; r < ranks; r++)
        *change_out = all[r] > *change_out ? all[r] : *change_out;
    tt_free(all);
    return status;
}

tt_status tt__dynamic_apply(tt_dynamic *d, double *change_out)
{
    const bool asks = d->server.rules.clock->asks_change;
    update u = {0};
    *change_out = 0;
    if (tt__keeps_weights(d, d->job->peers.rank))
        u = list_good(d);
    if (u.n > 0) {
        if (d->before != NULL)
            memcpy(d->before, d->now, (size_t)tt_vector_bytes(&d->shard));
        if (d->wall != NULL)
            TT_TRY(tt__wall_renew(d));
        tt__copies_remember(d);
        TT_TRY(move_buffers(d, &u)); // before gradients are added up in place
        TT_TRY(gather(d, &u));
        if (d->stepper == NULL)
            TT_TRY(tt__dynamic_clip(d, u.count));
        TT_TRY(tt__copies_pass(d));
        TT_TRY(d->stepper != NULL ? add_change(d, u.rate / u.count)
                                  : tt__dynamic_update(d, u.count, u.rate));
    }
    for (int32_t i = 0; i < d->server.n_pending; i++)
        d->lent[d->server.pending[i].slot] = NULL;
    const double own =
        asks && u.n > 0 ? tt_vector_farthest(&d->shard, d->now, d->before) : 0;
    *change_out = own;
    return asks ? measure_change(d, own, change_out) : TT_OK;
}

// ---- an answer -----------------------------------------------------------

// Where the weights will be when the gradient comes back, if they go on as in the last
// update: as many updates ahead as gradients are old on average.
static void *predicted(const tt_dynamic *d, const tt__shard_copy *c)
{
    const double steps = tt_server_mean_staleness(&d->server);
    if (c->ahead == NULL)
        return c->now;
    memcpy(c->ahead, c->now, (size_t)tt_vector_bytes(&c->span));
    tt_vector_scale(&c->span, 1 + steps, c->ahead);
    tt_vector_add(&c->span, -steps, c->before, c->ahead);
    return c->ahead;
}

void *tt__dynamic_weights(tt_dynamic *d, int32_t worker)
{
    const tt__shard_copy own = {.span = d->shard,
                                .now = d->now,
                                .before = d->before,
                                .ahead = d->ahead};
    void *mine = predicted(d, &own);
    if (d->then != NULL)
        memcpy(d->then[worker], mine, (size_t)tt_vector_bytes(&d->shard));
    return mine;
}

tt_status tt__dynamic_answer(tt_dynamic *d, int32_t worker)
{
    const int32_t to = tt__worker_rank(d, worker);
    const int32_t ranks = d->job->peers.size, me = d->job->peers.rank;
    void *mine = tt__dynamic_weights(d, tt__pusher(d, worker));
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    tt__post *post = tt_alloc(ranks * (int64_t)sizeof *post);
    if (post == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    for (int32_t r = 0; r < ranks; r++) {
        const int32_t from = tt__copies_tail(d, r);
        const int64_t bytes = tt__shard_size(d, r) * tt__element(d);
        const tt__shard_copy *c = from == me ? tt__copies_of(d, r) : NULL;
        void *data = c != NULL ? predicted(d, c) : mine;
        void *room =
            w != NULL ? tt__element_at(d, w->weights, d->bound[r]) : NULL;
        if (w != NULL && from == me)
            memcpy(room, data, (size_t)bytes);
        post[r] = (tt__post){from, to, data, room, bytes};
    }
    const tt_status status = tt__post_all(d, post, ranks);
    tt_free(post);
    if (w != NULL) { // not before all shards are here: waiting ranks compute
        w->is_computed = false;
        w->left_out = 0;
        w->number++;
    }
    return status;
}
