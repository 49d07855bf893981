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
// gradients are dense there, are pushed as they are, and are added up. Otherwise it is shown as
// a vector. On other transports vectors are sent.
//
// The cost of a step of n ranks that are bare: 1 model of gradients read, 1 / n of one written;
// weights 1 / n of a model read from the executor, and 1 copied into the worker's.

#include "base/alloc.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/wall.h"

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

void *tt__worker_room(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    const int64_t bytes = line_up(d->job->plan->persistent_bytes);
    if (d->per_rank > 1 || peers->size == 1 || tt__crowd_is(d->job) ||
        tt__hog_is(d->job) || !tt_job_workers_are_live(d->job) ||
        !tt_comm_wire_can_lend(peers->wire) ||
        !tt_comm_wire_shows_memory(peers->wire))
        return NULL;
    d->room = tt_comm_wire_lend(peers->wire, TT_LEND_WORKER, bytes);
    if (d->room != NULL)
        memset(d->room, 0, (size_t)bytes);
    return d->room;
}

// Where each gradient lies in an executor's memory; false: some have no such place.
static bool find_gradients(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    const char *first = d->room;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const char *at =
            p->is_buffer ? NULL : tt_exec_dense(d->exec, p->grad.val);
        if (at == NULL || p->grad.dtype != (d->all.is_wide ? TT_F64 : TT_F32))
            return false;
        w->offset[i] = first != NULL ? at - first : 0;
    }
    return true;
}

bool tt__wall_is_bare(const tt_dynamic *d)
{
    return d->room != NULL && d->wall->sums_in_place && d->n_own == 1 &&
           d->coder == NULL && d->stepper == NULL && d->then == NULL &&
           d->job->local_steps <= 1;
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
        void *sum = tt_exec_dense(d->job->exec, p->grad.val);
        if (p->owner != d->job->peers.rank)
            continue;
        if (n == 1)
            memcpy(sum, part_at(d, slot[0], i), (size_t)tt_vector_bytes(&span));
        else
            tt_vector_sum(&span, part_at(d, slot[0], i), part_at(d, slot[1], i),
                          sum);
        for (int32_t k = 2; k < n; k++)
            tt_vector_add(&span, 1, part_at(d, slot[k], i), sum);
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
    if (peers->size == 1 || !tt_comm_wire_can_lend(peers->wire))
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
    w->is_bare = tt_arena_alloc(d->arena, 2 * (int64_t)d->workers);
    if (w->offset == NULL || w->is_bare == NULL)
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
