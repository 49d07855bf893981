// dynamic_state - the model of a job with workers, and what a checkpoint needs besides it.
//
// The server's states are the model. Each shard's lie in its rank's executor; before
// somebody reads them (evaluation, samples, checkpoints) they are copied to all ranks, so
// that all that follows is as with one rank. Of a chain the tail gives them, once all holders
// of a shard have the same bits.
//
// Gradients that are being computed are not saved but the weights that they are computed
// at: a resumed run computes them again, to the same bits. Those that wait for an update
// are saved. Numbers are those of this machine's byte order, as tensors are.
//
//   magic, n doubles | server | proxies | drawn | refused | weights of each worker |
//   gradients and heads that wait | weights before the last update | record |
//   of each worker: states of its optimiser, residuals of its codes |
//   bytes that were passed on to copies of shards, if there were any

#include "base/alloc.h"
#include "job/dynamic/chain.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/stepper.h"
#include "job/dynamic/wall.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

// ---- the model -----------------------------------------------------------

static tt_status spread_one(tt_dynamic *d, const tt_tensor *t, void *data)
{
    const tt_peers *peers = &d->job->peers;
    const int32_t head = tt__copies_head(d, t);
    const int32_t from = head >= 0 ? tt__copies_tail(d, head) : 0;
    if (from == peers->rank)
        TT_TRY(tt_exec_read(d->job->exec, t->val, data));
    TT_TRY(tt_comm_wire_call(peers->wire, "model",
                             &(tt_coll_call){.kind = TT_BROADCAST,
                                             .root = from,
                                             .fold = {TT_FOLD_COPY, TT_NUM_U8},
                                             .count = t->bytes,
                                             .in = data,
                                             .out = data}));
    return from == peers->rank ? TT_OK : tt_tensor_write(d->job->exec, t, data);
}

tt_status tt_job_settle(tt_job *job)
{
    tt_dynamic *d = job->dynamic;
    int64_t most = 0;
    if (d != NULL && d->crowd != NULL)
        TT_TRY(tt__crowd_model(d));
    if (d == NULL || job->peers.size == 1)
        return TT_OK;
    TT_TRY(tt__copies_compare(d));
    for (int64_t i = 0; i < job->tensors.n; i++)
        if (job->tensors.v[i].bytes > most)
            most = job->tensors.v[i].bytes;
    void *data = tt_alloc(most + 8);
    tt_status status =
        data != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for a tensor");
    for (int64_t i = 0; i < job->tensors.n && status == TT_OK; i++)
        if (job->tensors.v[i].bytes > 0)
            status = spread_one(d, &job->tensors.v[i], data);
    tt_free(data);
    return status;
}

// ---- numbers -------------------------------------------------------------

static const double magic = 7461737932; // of this layout
static const double most_bytes = 1e18;  // that a count of them may be

enum { HEAD = 5 };

typedef struct layout {
    int64_t numbers, server, tree, drawn; // doubles: of all; where these begin
    int64_t refused, up, rate, heads;
    int64_t vectors;          // bytes: where these begin
    int64_t n_vectors, bytes; // of all
} layout;

static layout layout_of(const tt_dynamic *d, int64_t n_pending)
{
    layout l = {.server = HEAD};
    l.tree = l.server + tt_server_count(&d->server.rules);
    l.drawn = l.tree + (d->tree != NULL ? tt_tree_count(&d->tree->rules) : 0);
    l.refused = l.drawn + tt_drawn_count(&d->drawn.rules);
    l.up = l.refused + d->workers;
    l.rate = l.up + d->workers;
    l.heads = l.rate + d->workers;
    l.numbers = l.heads + n_pending * TT_HEAD_N;
    l.vectors = l.numbers * (int64_t)sizeof(double);
    l.n_vectors = d->workers + n_pending + (d->before != NULL);
    l.bytes = l.vectors + l.n_vectors * tt_vector_bytes(&d->all);
    return l;
}

static void save_numbers(const tt_dynamic *d, const layout *l, double *v)
{
    v[0] = magic;
    v[1] = d->workers;
    v[2] = (double)d->all.n;
    v[3] = d->server.n_pending;
    v[4] = (double)d->record.n;
    memcpy(v + l->up, d->up, (size_t)d->workers * sizeof *v);
    memcpy(v + l->rate, d->rate, (size_t)d->workers * sizeof *v);
    tt_server_save(&d->server, v + l->server);
    if (d->tree != NULL)
        tt_tree_save(d->tree, v + l->tree);
    tt_drawn_save(&d->drawn, v + l->drawn);
    for (int32_t i = 0; i < d->workers; i++)
        v[l->refused + i] = (double)d->n_refused[i];
    for (int32_t i = 0; i < d->server.n_pending; i++)
        memcpy(&v[l->heads + (int64_t)i * TT_HEAD_N],
               d->slot_head[d->server.pending[i].slot].v,
               sizeof(tt__push_head));
}

// ---- saving --------------------------------------------------------------

// A vector of which each rank has its shard, whole on rank 0.
static tt_status collect_shards(tt_dynamic *d, void *mine, char *to)
{
    const int32_t ranks = d->job->peers.size;
    tt__post *post = tt_alloc(ranks * (int64_t)sizeof *post);
    if (post == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    if (to != NULL)
        memcpy(to, mine, (size_t)tt_vector_bytes(&d->shard));
    for (int32_t r = 0; r < ranks; r++)
        post[r] = (tt__post){
            r, 0, mine, to != NULL ? tt__element_at(d, to, d->bound[r]) : NULL,
            tt__shard_size(d, r) * tt__element(d)};
    const tt_status status = tt__post_all(d, post, ranks);
    tt_free(post);
    return status;
}

static tt_status collect_worker(tt_dynamic *d, int32_t worker, char *to)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    const int64_t bytes = tt_vector_bytes(&d->all);
    if (w != NULL)
        TT_TRY(tt__worker_gather(d, w));
    const tt__post post = {tt__worker_rank(d, worker), 0,
                           w != NULL ? w->weights : NULL, to, bytes};
    if (w != NULL && to != NULL)
        memcpy(to, w->weights, (size_t)bytes);
    return tt__post_all(d, &post, 1);
}

static tt_status collect(tt_dynamic *d, char *to)
{
    const int64_t bytes = tt_vector_bytes(&d->all);
    int64_t k = 0;
    for (int32_t i = 0; i < d->workers; i++, k++)
        TT_TRY(collect_worker(d, i, to != NULL ? to + k * bytes : NULL));
    for (int32_t i = 0; d->wall != NULL && i < d->server.n_pending; i++)
        TT_TRY(tt__wall_settle(d, d->server.pending[i].slot));
    for (int32_t i = 0; i < d->server.n_pending; i++, k++)
        TT_TRY(collect_shards(d, tt__waiting(d, d->server.pending[i].slot),
                              to != NULL ? to + k * bytes : NULL));
    return d->before == NULL
               ? TT_OK
               : collect_shards(d, d->before,
                                to != NULL ? to + k * bytes : NULL);
}

// ---- what workers keep ---------------------------------------------------

// A gradient that was computed and not delivered will be computed again, so what its worker
// keeps is that before it. By the wall clock rank 0 knows which have been delivered.
static tt_status list_waiting(tt_dynamic *d, bool *is_waiting)
{
    for (int32_t i = 0; i < d->workers; i++)
        is_waiting[i] = tt__worker_waits(d, i);
    return d->wall == NULL ? TT_OK
                           : tt_peers_broadcast(&d->job->peers, "workers",
                                                is_waiting, d->workers);
}

static int64_t kept_bytes(const tt_dynamic *d)
{
    return tt__stepper_state_bytes(d) + tt__coder_state_bytes(d);
}

static tt_status collect_kept(tt_dynamic *d, int32_t worker, bool is_waiting,
                              char *to)
{
    const tt__dynamic_worker *w = tt__worker_own(d, worker);
    const int32_t from = tt__worker_rank(d, worker);
    const int64_t steps = tt__stepper_state_bytes(d);
    const int64_t codes = tt__coder_state_bytes(d);
    const bool is_before = w != NULL && w->is_computed && !is_waiting;
    char *of_steps =
        w != NULL && steps > 0 ? tt__stepper_state(d, worker, is_before) : NULL;
    char *of_codes =
        w != NULL && codes > 0 ? tt__coder_state(d, worker, is_before) : NULL;
    const tt__post post[] = {
        {from, 0, of_steps, to, steps},
        {from, 0, of_codes, to != NULL ? to + steps : NULL, codes}};
    if (of_steps != NULL && to != NULL)
        memcpy(to, of_steps, (size_t)steps);
    if (of_codes != NULL && to != NULL)
        memcpy(to + steps, of_codes, (size_t)codes);
    return tt__post_all(d, post, 2);
}

static tt_status save_kept(tt_dynamic *d, tt_str *out)
{
    const int64_t bytes = kept_bytes(d);
    const bool is_first = tt_peers_is_first(&d->job->peers);
    if (bytes == 0)
        return TT_OK;
    bool *is_waiting = tt_alloc(d->workers);
    char *room = is_first ? tt_alloc(bytes) : NULL;
    tt_status status = is_waiting == NULL || (is_first && room == NULL)
                           ? tt_fail(TT_ERR_NOMEM, "no memory to save workers")
                           : list_waiting(d, is_waiting);
    for (int32_t i = 0; i < d->workers && status == TT_OK; i++) {
        status = collect_kept(d, i, is_waiting[i], room);
        if (is_first && status == TT_OK)
            tt_str_add_bytes(out, room, bytes);
    }
    tt_free(is_waiting);
    tt_free(room);
    return status;
}

static void load_kept(tt_dynamic *d, const char *from)
{
    const int64_t steps = tt__stepper_state_bytes(d);
    const int64_t codes = tt__coder_state_bytes(d);
    from += d->first * kept_bytes(d);
    for (int32_t i = d->first; i < d->first + d->n_own; i++) {
        if (steps > 0)
            memcpy(tt__stepper_state(d, i, false), from, (size_t)steps);
        if (codes > 0)
            memcpy(tt__coder_state(d, i, false), from + steps, (size_t)codes);
        from += kept_bytes(d);
    }
}

tt_status tt_job_workers_save(tt_job *job, tt_str *out)
{
    if (job->workers == 0)
        return TT_OK;
    TT_TRY(tt__dynamic_open(job));
    tt_dynamic *d = job->dynamic;
    if (d->federated != NULL)
        return tt__federated_save(d, out);
    const layout l = layout_of(d, d->server.n_pending);
    char *all = NULL;
    if (tt_peers_is_first(&job->peers)) {
        all = tt_alloc(l.bytes + 8);
        if (all == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to save %d workers",
                           d->workers);
        save_numbers(d, &l, (double *)(void *)all);
    }
    const tt_status status = collect(d, all != NULL ? all + l.vectors : NULL);
    if (status == TT_OK && all != NULL) {
        tt_str_add_bytes(out, all, l.bytes);
        tt_str_add_bytes(out, tt_str_text(&d->record), d->record.n);
    }
    tt_free(all);
    TT_TRY(status);
    if (d->crowd != NULL)
        TT_TRY(tt__crowd_save(d, out));
    TT_TRY(save_kept(d, out));
    if (d->passed > 0 && tt_peers_is_first(&job->peers))
        tt_str_add_bytes(out, (const char *)&d->passed, sizeof d->passed);
    return tt_str_status(out);
}

// ---- loading -------------------------------------------------------------

static tt_status load_vectors(tt_dynamic *d, char *from)
{
    const int64_t bytes = tt_vector_bytes(&d->all);
    const int64_t at = d->bound[d->job->peers.rank] * tt__element(d);
    const size_t shard = (size_t)tt_vector_bytes(&d->shard);
    for (int32_t i = 0; i < d->workers; i++, from += bytes) {
        tt__dynamic_worker *w = tt__worker_own(d, i);
        if (w != NULL) {
            memcpy(w->weights, from, (size_t)bytes);
            w->is_placed = d->is_one; // they are the model's
            w->number = d->drawn.worker[i].number;
            // One that waits has delivered, and computes when it is answered.
            w->is_computed = tt__worker_waits(d, i);
        }
        if (d->then != NULL)
            memcpy(d->then[tt__pusher(d, i)], from + at, shard);
    }
    for (int32_t i = 0; i < d->server.n_pending; i++, from += bytes) {
        const int32_t slot = d->server.pending[i].slot;
        d->slot[slot] = tt_alloc((int64_t)shard + 8);
        if (d->slot[slot] == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a gradient");
        memcpy(d->slot[slot], from + at, shard);
    }
    if (d->before != NULL)
        memcpy(d->before, from + at, shard);
    tt__copies_load(d, from);
    return TT_OK;
}

static tt_status damaged(void)
{
    return tt_fail(TT_ERR_ARG, "the checkpoint's exchange.bin is damaged");
}

static bool is_count(double number, double most)
{
    return number >= 0 && number <= most && number == floor(number);
}

// Whether these bytes are of such workers; *layout_out is then theirs.
static bool fits(const tt_dynamic *d, const double *v, int64_t n,
                 layout *layout_out)
{
    if (n < HEAD * (int64_t)sizeof *v || v[0] != magic || v[1] != d->workers ||
        v[2] != (double)d->all.n || !is_count(v[3], 2 * (double)d->workers) ||
        !is_count(v[4], (double)n))
        return false;
    *layout_out = layout_of(d, (int64_t)v[3]);
    const int64_t all =
        layout_out->bytes + (int64_t)v[4] + d->workers * kept_bytes(d);
    return d->crowd != NULL ? n >= all
                            : n == all || n == all + (int64_t)sizeof d->passed;
}

// A gradient that was not refused has a loss and a count.
static bool is_head(const double *head)
{
    if (!is_count(head[TT_HEAD_REFUSED], 1))
        return false;
    return head[TT_HEAD_REFUSED] == 1 ||
           (isfinite(head[TT_HEAD_LOSS]) && isfinite(head[TT_HEAD_SQUARES]) &&
            isfinite(head[TT_HEAD_COUNT]) && head[TT_HEAD_COUNT] > 0);
}

static bool is_record(const char *text, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (strchr("0123456789. \n", text[i]) == NULL || text[i] == '\0')
            return false;
    return n == 0 || text[n - 1] == '\n';
}

// What the rules have loaded agrees with the times, and the rest is in its range.
static bool agrees(const tt_dynamic *d, const layout *l, const double *v)
{
    for (int32_t i = 0; i < d->workers; i++) {
        const tt_server_worker *w = &d->server.worker[tt__pusher(d, i)];
        if (d->drawn.worker[i].number != w->pushed - (w->is_waiting ? 1 : 0) ||
            !is_count(v[l->refused + i], (double)tt__worker_pushed(d, i)) ||
            !is_count(v[l->up + i], (double)INFINITY) ||
            !isfinite(v[l->rate + i]))
            return false;
    }
    for (int32_t i = 0; i < d->server.n_pending; i++)
        if (!is_head(&v[l->heads + (int64_t)i * TT_HEAD_N]))
            return false;
    return is_record((const char *)v + l->bytes, (int64_t)v[4]);
}

// Workers that share weights are not bound to their number: others begin with the model.
static bool is_of_others(const tt_dynamic *d, const double *v, int64_t n)
{
    return d->hog != NULL && n >= HEAD * (int64_t)sizeof *v && v[0] == magic &&
           v[1] != d->workers && v[2] == (double)d->all.n;
}

// Bytes that were passed on to copies of shards: none, or a number.
static bool load_passed(tt_dynamic *d, const char *from, int64_t n)
{
    d->passed = 0;
    memcpy(&d->passed, from, (size_t)n);
    return is_count(d->passed, most_bytes);
}

static tt_status load(tt_dynamic *d, char *bytes, int64_t n)
{
    double *v = (double *)(void *)bytes;
    layout l;
    if (!fits(d, v, n, &l))
        return tt_fail(TT_ERR_ARG,
                       "the checkpoint's exchange.bin is not that of %d "
                       "workers with %lld numbers under these settings",
                       d->workers, (long long)d->all.n);
    TT_TRY(tt_server_load(&d->server, v + l.server));
    if (d->tree != NULL)
        TT_TRY(tt_tree_load(d->tree, v + l.tree));
    TT_TRY(tt_drawn_load(&d->drawn, v + l.drawn));
    if (!agrees(d, &l, v))
        return damaged();
    tt__wall_resume(d);
    tt__crowd_wall_resume(d);
    for (int32_t i = 0; i < d->workers; i++)
        d->n_refused[i] = (int64_t)v[l.refused + i];
    memcpy(d->up, v + l.up, (size_t)d->workers * sizeof *v);
    memcpy(d->rate, v + l.rate, (size_t)d->workers * sizeof *v);
    tt_str_clear(&d->record);
    tt_str_add_bytes(&d->record, bytes + l.bytes, (int64_t)v[4]);
    for (int32_t i = 0; i < d->server.n_pending; i++)
        memcpy(d->slot_head[d->server.pending[i].slot].v,
               &v[l.heads + (int64_t)i * TT_HEAD_N], sizeof(tt__push_head));
    TT_TRY(load_vectors(d, bytes + l.vectors));
    const int64_t at = l.bytes + (int64_t)v[4];
    load_kept(d, bytes + at);
    if (d->crowd != NULL)
        return tt__crowd_load(d, bytes + at, n - at);
    const int64_t end = at + d->workers * kept_bytes(d);
    return load_passed(d, bytes + end, n - end) ? TT_OK : damaged();
}

const tt_str *tt_job_record(const tt_job *job)
{
    const tt_dynamic *d = job->dynamic;
    return d != NULL && d->is_live && d->hog == NULL ? &d->record : NULL;
}

tt_status tt_job_workers_load(tt_job *job, const char *bytes, int64_t n)
{
    if (job->workers == 0)
        return TT_OK;
    tt__dynamic_close(job->dynamic);
    job->dynamic = NULL;
    TT_TRY(tt__dynamic_open(job));
    TT_TRY(tt_peers_broadcast(&job->peers, "workers", &n, sizeof n));
    if (n == 0)
        return TT_OK;
    char *all = tt_alloc(n + 8);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the state of workers");
    if (tt_peers_is_first(&job->peers))
        memcpy(all, bytes, (size_t)n);
    tt_status status = tt_peers_broadcast(&job->peers, "workers", all, n);
    if (status == TT_OK &&
        is_of_others(job->dynamic, (double *)(void *)all, n)) {
        tt__dynamic_close(job->dynamic); // it is opened when the step is known
        job->dynamic = NULL;
        job->workers_are_new = true;
    } else if (status == TT_OK) {
        status = job->dynamic->federated != NULL
                     ? tt__federated_load(job->dynamic, all, n)
                     : load(job->dynamic, all, n);
    }
    tt_free(all);
    return status;
}
