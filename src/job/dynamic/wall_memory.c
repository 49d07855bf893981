// wall_memory - memory that ranks of one host show each other, so that letters need no copies.
//
// The problem. A gradient that goes from its executor into a vector, into a message, into
// another vector, there into a sum and from that into the executor that makes the update is
// copied five times; weights on their way back as often. Where computing takes as long as
// copying, that is most of the time of a step.
//
// The idea. Memory of the transport has one address for all ranks, and a letter says where
// something lies (`shown`).
//
//   worker's rank   | what its executor keeps: weights, gradients |       TT_LEND_WORKER
//                                                  |  read by each shard, which adds up all
//                                                  v  gradients where its update reads them
//   shard's rank    | n_read | weights | n_read | weights | ...           TT_LEND_LETTERS
//                        ^          |  read by the worker into its executor
//                        +----------+  which then counts itself
//
// A gradient stays where it is until its worker is answered by all shards; one that is not
// yet used then moves (exchange.clock=quorum). Weights change under the way of an answer; so a
// shard has several places for them, and an update goes to one that nobody reads.
//
// A gradient is shown *bare*, in the executor's memory, if its rank has one worker, whose
// gradients are dense there, are pushed as they are (by no proxy), and are added up. Otherwise it is shown as
// a vector. On other transports vectors are sent.
//
// The cost of a step of n ranks that are bare: 1 model of gradients read, 1 / n of one written;
// weights 1 / n of a model read from the executor, and 1 copied into the worker's.
//
// *One executor* is enough under exchange.clock=bsp with a worker on each rank: no worker reads
// weights while they change. It then computes in the job's executor, whose memory is shown:
//
//   rank 0   | weights: shard 0 | shard 1 | gradients |     TT_LEND_JOB
//                 |                 ^
//                 v   copied        |  answered: bare
//   rank 1   | weights: shard 0 | shard 1 | gradients |
//
// The update changes the weights of its shard in place, the others read them from there once,
// and the gradients of other shards are nobody's until they have. The cost: 1 model of gradients
// read, 1 / n of one written, (n - 1) / n of a model of weights copied; and memory of one
// executor less.

#include "base/alloc.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/stepper.h"
#include "job/dynamic/wall.h"
#include "job/dynamic/wall_hurry.h"

#include <string.h>

enum { LENT = 3, LINE = 64 }; // places of weights; bytes

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
}

static int64_t line_up(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

// ---- gradients -----------------------------------------------------------

// Whether each worker of this job has a rank for itself, by the wall clock, where memory of
// executors can be shown.
static bool can_show(const tt_job *job)
{
    const tt_peers *peers = &job->peers;
    return peers->size > 1 && job->workers > 0 && !tt_job_is_federated(job) &&
           !tt__crowd_is(job) && !tt__hog_is(job) &&
           tt__server_params(job)->proxies == 0 &&
           job->workers == peers->size - tt__dynamic_servers(job) &&
           tt_job_workers_are_live(job) && job->backend->def->memory == NULL &&
           tt_comm_wire_can_lend(peers->wire) &&
           tt_comm_wire_shows_memory(peers->wire);
}

static void *lend_room(const tt_job *job, tt_wire_use use)
{
    const int64_t bytes = line_up(job->plan->persistent_bytes);
    void *room = tt_comm_wire_lend(job->peers.wire, use, bytes);
    if (room != NULL)
        memset(room, 0, (size_t)bytes);
    return room;
}

// Whether the rules let a worker compute where its shard is updated.
static bool may_be_one(const tt_job *job)
{
    int n = 0;
    if (!can_show(job))
        return false;
    const tt_ps_params *p = tt__server_params(job);
    return strcmp(tt_clock_all(&n)[p->clock]->name, "bsp") == 0 &&
           p->gather == TT_GATHER_MEAN && p->servers == 0 &&
           p->staleness != TT_STALE_COMPENSATE &&
           p->staleness != TT_STALE_PREDICT && job->local_steps <= 1 &&
           !tt__stepper_is(job) && !tt_exchange_is_coded(&job->exchange);
}

// All ranks have such memory, or none.
tt_status tt__wall_job_room(tt_job *job)
{
    if (!may_be_one(job))
        return TT_OK;
    const int32_t ranks = job->peers.size;
    bool *has = tt_alloc(ranks);
    if (has == NULL)
        return no_memory();
    job->room = lend_room(job, TT_LEND_JOB);
    bool has_all = job->room != NULL;
    const tt_status status =
        tt_peers_collect(&job->peers, "room", &has_all, sizeof has_all, has);
    for (int32_t r = 0; r < ranks && status == TT_OK; r++)
        has_all = has_all && has[r];
    tt_free(has);
    if (!has_all && job->room != NULL) {
        tt_comm_wire_take_back(job->peers.wire, TT_LEND_JOB);
        job->room = NULL;
    }
    return status;
}

// Where a tensor lies in the executor as elements of the flat vector; NULL: it does not.
static const char *place_of(const tt_dynamic *d, const tt_exec *exec,
                            const tt_tensor *t)
{
    return t->dtype == (d->all.is_wide ? TT_F64 : TT_F32)
               ? tt_exec_dense(exec, t->val)
               : NULL;
}

// Whether all weights and their gradients are in the memory of the job's executor as they
// would be in a vector.
static bool can_be_one(const tt_dynamic *d)
{
    const tt_exec *exec = d->job->exec;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (p->is_buffer || place_of(d, exec, &p->tensor) == NULL ||
            place_of(d, exec, &p->grad) == NULL)
            return false;
    }
    return d->job->room != NULL;
}

tt_status tt__worker_exec_open(tt_dynamic *d)
{
    const tt_job *job = d->job;
    tt_exec_options options = {.trace = tt_exec_is_traced(job->exec)};
    d->is_one = can_be_one(d);
    if (d->is_one) {
        d->exec = job->exec;
        d->room = job->room;
        return TT_OK;
    }
    if (can_show(job))
        options.room = d->room = lend_room(job, TT_LEND_WORKER);
    return tt_exec_create(job->plan, job->backend, &options, &d->exec);
}

const tt_exec *tt_job_worker_exec(const tt_job *job)
{
    const tt_dynamic *d = job->dynamic;
    return d != NULL && !d->is_one ? d->exec : NULL;
}

void tt__worker_exec_close(tt_dynamic *d)
{
    if (d->is_one) {
        tt_exec_between(d->exec, NULL, NULL);
        return;
    }
    tt_exec_destroy(d->exec);
    if (d->room != NULL)
        tt_comm_wire_take_back(d->job->peers.wire, TT_LEND_WORKER);
}

// Where each gradient lies in an executor's memory; false: some have no such place.
static bool find_gradients(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    const char *first = d->room;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const char *at = p->is_buffer ? NULL : place_of(d, d->exec, &p->grad);
        if (at == NULL)
            return false;
        w->offset[i] = first != NULL ? at - first : 0;
        if (d->is_one)
            w->weights[i] = place_of(d, d->exec, &p->tensor) - first;
    }
    return true;
}

// Not a plain copy: of a weight there may be one in the compute precision, too.
tt_status tt__wall_read_bare(const tt_dynamic *d, int32_t shard,
                             const char *room)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (p->owner == shard)
            TT_TRY(tt_tensor_write(d->exec, &p->tensor,
                                   room + d->wall->weights[i]));
    }
    return TT_OK;
}

bool tt__wall_is_bare(const tt_dynamic *d)
{
    return d->room != NULL && d->wall->sums_in_place && d->n_own == 1 &&
           !tt__hurry_is(d) && d->coder == NULL && d->stepper == NULL &&
           d->then == NULL && d->job->local_steps <= 1;
}

static char *part_at(const tt_dynamic *d, int32_t slot, int32_t part)
{
    const int64_t first = d->bound[d->job->peers.rank];
    if (d->lent[slot] != NULL && d->wall->is_bare[slot])
        return (char *)d->lent[slot] + d->wall->offset[part];
    return tt__element_at(d, tt__waiting(d, slot), d->part[part].at - first);
}

tt_status tt__wall_settle(tt_dynamic *d, int32_t slot)
{
    const int32_t me = d->job->peers.rank;
    if (d->lent[slot] == NULL)
        return TT_OK;
    TT_TRY(tt__dynamic_room(d, slot));
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (p->owner == me)
            memcpy(tt__element_at(d, d->slot[slot], p->at - d->bound[me]),
                   part_at(d, slot, i),
                   (size_t)(p->tensor.count * tt__element(d)));
    }
    d->lent[slot] = NULL;
    return TT_OK;
}

void tt__wall_add_up(tt_dynamic *d, int32_t n, const int32_t *slot)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span span = {d->all.is_wide, p->tensor.count};
        if (p->owner != d->job->peers.rank)
            continue;
        for (int32_t k = 0; k < n; k++)
            d->wall->term[k] = part_at(d, slot[k], i);
        tt_vector_sum(&span, n, d->wall->term,
                      tt_exec_dense(d->job->exec, p->grad.val));
    }
}

// ---- what is shown as vectors ----------------------------------------------

static int64_t place_bytes(const tt_dynamic *d)
{
    return LINE + line_up(tt_vector_bytes(&d->shard));
}

// Gradients are computed into memory that peers see, and weights of the shard lie there. Where
// that memory shows nothing without a message, a peer copies once, and nobody feeds a ring.
static void lend(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    const int64_t each = line_up(tt_vector_bytes(&d->all));
    const int64_t bytes = d->n_own * each + LENT * place_bytes(d);
    if (d->is_one || peers->size == 1 || !tt_comm_wire_can_lend(peers->wire))
        return;
    d->wall->lent = tt_comm_wire_lend(peers->wire, TT_LEND_LETTERS, bytes);
    d->wall->shows =
        d->wall->lent != NULL && tt_comm_wire_shows_memory(peers->wire);
    for (int32_t i = 0; d->wall->lent != NULL && i < d->n_own; i++) {
        tt_free(d->own[i].gradient);
        d->own[i].gradient = d->wall->lent + i * each;
        memset(d->own[i].gradient, 0, (size_t)each);
    }
}

static void take_back(tt_dynamic *d)
{
    if (d->wall->lent == NULL)
        return;
    for (int32_t i = 0; i < d->n_own; i++)
        d->own[i].gradient = NULL;
    tt_comm_wire_take_back(d->job->peers.wire, TT_LEND_LETTERS);
}

static char *lent_place(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    return w->lent != NULL && w->n_lent < LENT
               ? w->lent + d->n_own * line_up(tt_vector_bytes(&d->all)) +
                     w->n_lent++ * place_bytes(d)
               : NULL;
}

static tt_status new_copy(tt_dynamic *d, tt__wall_copy **out)
{
    tt__wall_copy *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return no_memory();
    s->next = d->wall->snapshots;
    d->wall->snapshots = *out = s;
    s->version = -1;
    char *place = lent_place(d);
    if (place != NULL) {
        s->n_read = (atomic_llong *)(void *)place;
        atomic_init(s->n_read, 0);
        s->data = place + LINE;
    } else {
        s->data = tt_alloc(tt_vector_bytes(&d->shard) + 8);
    }
    return s->data != NULL ? TT_OK : no_memory();
}

static bool is_read(const tt__wall_copy *s)
{
    return s->readers > 0 ||
           (s->n_read != NULL && atomic_load(s->n_read) < s->n_shown);
}

// One that nobody reads, and that is not the newest weights.
static tt_status unused_copy(tt_dynamic *d, tt__wall_copy **out)
{
    for (tt__wall_copy *s = d->wall->snapshots; s != NULL; s = s->next) {
        *out = s;
        if (s->data != d->now && !is_read(s))
            return TT_OK;
    }
    return new_copy(d, out);
}

static tt__wall_copy *newest(const tt_dynamic *d)
{
    tt__wall_copy *s = d->wall->snapshots;
    while (s->data != d->now)
        s = s->next;
    return s;
}

// The weights move into the first place, so that answers need no copy of them.
static tt_status place_now(tt_dynamic *d)
{
    tt__wall_copy *first = NULL;
    TT_TRY(new_copy(d, &first));
    memcpy(first->data, d->now, (size_t)tt_vector_bytes(&d->shard));
    tt_free(d->now);
    d->now = first->data;
    return TT_OK;
}

// An update reads all of the new weights from the executor, but for changes that are added to
// those before.
tt_status tt__wall_renew(tt_dynamic *d)
{
    tt__wall_copy *next = NULL;
    if (!is_read(newest(d)))
        return TT_OK;
    TT_TRY(unused_copy(d, &next));
    if (d->stepper != NULL || tt__worker_weights(d).n < d->all.n)
        memcpy(next->data, d->now, (size_t)tt_vector_bytes(&d->shard));
    d->now = next->data;
    return TT_OK;
}

tt_status tt__wall_snapshot(tt_dynamic *d, const void *weights,
                            tt__wall_copy **out)
{
    if (weights == d->now) {
        *out = newest(d);
        return TT_OK;
    }
    for (tt__wall_copy *s = d->wall->snapshots; s != NULL; s = s->next) {
        *out = s;
        if (s->data != d->now && s->version == d->server.version)
            return TT_OK;
    }
    TT_TRY(unused_copy(d, out));
    (*out)->version = d->server.version;
    memcpy((*out)->data, weights, (size_t)tt_vector_bytes(&d->shard));
    return TT_OK;
}

// ---- what letters say ------------------------------------------------------

void *tt__wall_shown(const tt_dynamic *d, const tt__wall_letter *head,
                     void *data, const tt__wall_copy *snapshot)
{
    const char *first = d->wall->lent, *at = data;
    const int64_t gradients = d->n_own * line_up(tt_vector_bytes(&d->all));
    if (head->is_bare)
        return d->room;
    if (!d->wall->shows || data == NULL)
        return NULL;
    if (snapshot != NULL)
        return snapshot->n_read != NULL ? data : NULL;
    return at >= first && at < first + gradients ? data : NULL;
}

void tt__wall_has_read(void *weights)
{
    char *place = (char *)weights - LINE;
    (void)atomic_fetch_add((atomic_llong *)(void *)place, 1);
}

// ---- open and close --------------------------------------------------------

tt_status tt__wall_memory_open(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    w->offset = tt_arena_alloc(d->arena, d->n_parts * (int64_t)sizeof(int64_t));
    w->weights =
        tt_arena_alloc(d->arena, d->n_parts * (int64_t)sizeof(int64_t));
    w->is_bare = tt_arena_alloc(d->arena, 2 * (int64_t)d->workers);
    w->term = tt_arena_alloc(d->arena, 2 * (int64_t)d->workers *
                                           (int64_t)sizeof *w->term);
    if (w->offset == NULL || w->weights == NULL || w->is_bare == NULL ||
        w->term == NULL)
        return TT_ERR_NOMEM;
    w->sums_in_place = d->params->gather == TT_GATHER_MEAN && find_gradients(d);
    lend(d);
    return place_now(d);
}

void tt__wall_memory_close(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    take_back(d);
    if (w->snapshots != NULL)
        d->now = NULL; // one of them
    for (tt__wall_copy *s = w->snapshots, *next; s != NULL; s = next) {
        next = s->next;
        if (s->n_read == NULL)
            tt_free(s->data);
        tt_free(s);
    }
}
