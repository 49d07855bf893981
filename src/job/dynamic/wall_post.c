// wall_post - letters by the wall clock: what is sent is never waited for, and what comes is
// put where it belongs.
//
//   letter: kind, worker, numbers | bytes: a part of a gradient, weights, numbers
//
// A gradient is sent from where it was computed: its worker computes no other one before all
// shards have answered. It is received where the server will read it. Weights change under
// the way of an answer; so a shard has several places for them, and an update goes to one
// that nobody reads.
//
// On shared memory a letter says where they lie, and nothing else is sent (`shown`). A gradient
// is added up at its worker; a worker takes weights from the shard's place and counts itself
// there as one who has read.
//
//   place of weights in memory that all see   | n_read | weights of this shard ... |

#include "base/alloc.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/wall.h"

#include <string.h>

enum { TAG = 0x7077 };

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
}

// ---- memory that peers see -----------------------------------------------

enum { LENT = 3, LINE = 64 }; // places of weights; bytes

static int64_t line_up(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

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

// ---- out -----------------------------------------------------------------

static tt__wall_parcel *new_parcel(struct tt__wall *w)
{
    tt__wall_parcel *p = w->spare;
    if (p == NULL)
        return tt_alloc(sizeof *p);
    w->spare = p->next;
    return p;
}

// Whether a letter need only say where it is.
static bool is_seen(const tt_dynamic *d, const void *data,
                    const tt__wall_copy *snapshot)
{
    const char *first = d->wall->lent, *at = data;
    const int64_t gradients = d->n_own * line_up(tt_vector_bytes(&d->all));
    if (!d->wall->shows || data == NULL)
        return false;
    return snapshot != NULL ? snapshot->n_read != NULL
                            : at >= first && at < first + gradients;
}

static void show(tt_dynamic *d, tt__wall_parcel *p, void *data,
                 tt__wall_copy *snapshot)
{
    p->head.shown = data;
    if (snapshot != NULL)
        snapshot->n_shown++;
    tt_comm_showed(d->comm, p->head.bytes);
}

tt_status tt__wall_send(tt_dynamic *d, int32_t to, const tt__wall_letter *head,
                        void *data, tt__wall_copy *snapshot)
{
    struct tt__wall *w = d->wall;
    const bool is_whole = head->bytes == 0 || is_seen(d, data, snapshot);
    tt__wall_parcel *p = new_parcel(w);
    if (p == NULL)
        return no_memory();
    *p = (tt__wall_parcel){.head = *head, .next = w->out};
    w->out = p;
    if (!is_whole && snapshot != NULL) {
        p->snapshot = snapshot;
        snapshot->readers++;
    }
    p->head.shown = NULL;
    if (is_whole && head->bytes > 0)
        show(d, p, data, snapshot);
    p->msg[0] = (tt_msg){
        .peer = to, .tag = TAG, .data = &p->head, .bytes = sizeof p->head};
    p->msg[1] =
        (tt_msg){.peer = to, .tag = TAG, .data = data, .bytes = head->bytes};
    p->msg[1].is_done = is_whole;
    TT_TRY(tt_comm_send(d->comm, &p->msg[0]));
    return is_whole ? TT_OK : tt_comm_send(d->comm, &p->msg[1]);
}

static void reap(struct tt__wall *w)
{
    for (tt__wall_parcel **p = &w->out; *p != NULL;) {
        tt__wall_parcel *gone = *p;
        if (!gone->msg[0].is_done || !gone->msg[1].is_done) {
            p = &gone->next;
            continue;
        }
        *p = gone->next;
        if (gone->snapshot != NULL)
            gone->snapshot->readers--;
        gone->next = w->spare;
        w->spare = gone;
    }
}

// ---- places of weights ----------------------------------------------------

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

// ---- in ------------------------------------------------------------------

static tt_status post(tt_dynamic *d, tt__wall_line *l, void *data,
                      int64_t bytes)
{
    l->msg =
        (tt_msg){.peer = l->peer, .tag = TAG, .data = data, .bytes = bytes};
    return tt_comm_receive(d->comm, &l->msg);
}

static int64_t inbox_bytes(const tt_dynamic *d)
{
    return d->coder != NULL ? tt__coder_room(d) : tt_vector_bytes(&d->shard);
}

static tt_status inbox_room(tt_dynamic *d, const tt__wall_letter *head,
                            void **out)
{
    tt__wall_inbox *inbox = &d->wall->inbox[head->worker];
    if (head->bytes > inbox_bytes(d))
        return tt_fail(TT_ERR_ARG,
                       "the gradient of worker %d has more bytes than there "
                       "is room for",
                       (int)head->worker);
    inbox->bytes = head->bytes;
    if (inbox->data == NULL)
        inbox->data = tt_alloc(inbox_bytes(d) + 8);
    *out = inbox->data;
    return *out != NULL ? TT_OK : no_memory();
}

tt_status tt__wall_room(tt_dynamic *d, const tt__wall_line *line, void **out)
{
    const tt__wall_letter *head = &line->head;
    const tt__dynamic_worker *own = NULL;
    switch (head->kind) {
    case TT_WALL_ANSWER:
        own = tt__worker_own(d, (int32_t)head->worker);
        *out = tt__element_at(d, own->weights, d->bound[line->peer]);
        return TT_OK;
    case TT_WALL_SUM:
        *out = line->sum[(int64_t)head->v[0] & 1];
        return TT_OK;
    default:
        return inbox_room(d, head, out);
    }
}

// Weights that lie at their shard, or have come.
static tt_status fetch(tt_dynamic *d, const tt__wall_line *line)
{
    const tt__wall_letter *head = &line->head;
    const int32_t worker = (int32_t)head->worker;
    void *here = tt__element_at(d, tt__worker_own(d, worker)->weights,
                                d->bound[line->peer]);
    TT_TRY(tt__worker_fetch(d, worker, line->peer,
                            head->shown != NULL ? head->shown : here));
    if (head->shown == NULL)
        return TT_OK;
    char *place = (char *)head->shown - LINE;
    (void)atomic_fetch_add((atomic_llong *)(void *)place, 1);
    return TT_OK;
}

tt_status tt__wall_take(tt_dynamic *d, tt__wall_line *line)
{
    const tt__wall_letter *head = &line->head;
    void *room = NULL;
    line->is_open = line->has_head = false;
    switch (head->kind) {
    case TT_WALL_PUSH:
    case TT_WALL_PART:
        if (head->shown == NULL)
            TT_TRY(inbox_room(d, head, &room)); // also of nothing
        d->wall->inbox[head->worker].shown = head->shown;
        d->wall->inbox[head->worker].is_here = true;
        return head->kind == TT_WALL_PUSH ? tt__wall_keep(d, head) : TT_OK;
    case TT_WALL_ORDER:
    case TT_WALL_STEP:
        return tt__wall_keep(d, head);
    case TT_WALL_ANSWER:
        TT_TRY(fetch(d, line));
        d->rate[head->worker] = head->v[TT_WALL_RATE];
        tt__wall_answered(d, (int32_t)head->worker);
        return TT_OK;
    case TT_WALL_SUM:
        line->has_sum[(int64_t)head->v[0] & 1] = true;
        return TT_OK;
    default: // a rank that has said its last word: the next message is the wire's
        line->is_fin = true;
        return TT_OK;
    }
}

static tt_status look_at(tt_dynamic *d, tt__wall_line *l, bool *took)
{
    void *room = NULL;
    if (!l->is_open && !l->is_fin) {
        l->is_open = true;
        TT_TRY(post(d, l, &l->head, sizeof l->head));
    }
    while (l->is_open && l->msg.is_done) {
        *took = true;
        if (l->head.shown != NULL) {
            tt_comm_looked(d->comm, l->head.bytes);
        } else if (!l->has_head && l->head.bytes > 0) {
            l->has_head = true;
            TT_TRY(tt__wall_room(d, l, &room));
            TT_TRY(post(d, l, room, l->head.bytes));
            continue;
        }
        TT_TRY(tt__wall_take(d, l));
    }
    return TT_OK;
}

tt_status tt__wall_receive(tt_dynamic *d, bool *did_out)
{
    bool moved = false;
    *did_out = false;
    if (d->comm == NULL)
        return TT_OK;
    TT_TRY(d->comm->def->progress(d->comm, &moved));
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        TT_TRY(look_at(d, &d->wall->line[i], did_out));
    *did_out = *did_out || moved;
    reap(d->wall);
    return TT_OK;
}

// ---- numbers of an update ------------------------------------------------

// One that has not told this shard its numbers, or NULL.
static tt__wall_line *silent(const tt_dynamic *d, int odd)
{
    for (int32_t i = 0; i < d->wall->n_lines; i++) {
        tt__wall_line *l = &d->wall->line[i];
        if (tt__keeps_weights(d, l->peer) && !l->has_sum[odd])
            return l;
    }
    return NULL;
}

static tt_status tell(tt_dynamic *d, const double *v, int64_t n, int odd)
{
    const tt__wall_letter head = {.kind = TT_WALL_SUM,
                                  .bytes = n * (int64_t)sizeof *v,
                                  .v = {(double)odd}};
    double *said = d->wall->sum[odd];
    memcpy(said, v, (size_t)head.bytes);
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        if (tt__keeps_weights(d, d->wall->line[i].peer))
            TT_TRY(tt__wall_send(d, d->wall->line[i].peer, &head, said, NULL));
    return TT_OK;
}

// A shard that has heard all numbers of one update may tell those of the next while another
// still waits; it cannot be further ahead. So two places for each are enough.
tt_status tt__wall_sum(tt_dynamic *d, double *v, int64_t n)
{
    struct tt__wall *w = d->wall;
    const int odd = (int)(w->n_sums++ & 1);
    tt_rest rest = {0};
    if (d->comm == NULL || w->n_shards == 1)
        return TT_OK;
    tt_status status = tell(d, v, n, odd);
    for (tt__wall_line *l; status == TT_OK && (l = silent(d, odd)) != NULL;) {
        bool did = false;
        status = tt__wall_receive(d, &did);
        if (did)
            tt_comm_rested(d->comm, &rest);
        else if (status == TT_OK)
            status = tt_comm_turn(d->comm, &l->msg, &rest);
    }
    tt_comm_rested(d->comm, &rest);
    for (int32_t i = 0; i < w->n_lines && status == TT_OK; i++) {
        tt__wall_line *l = &w->line[i];
        for (int64_t k = 0; l->has_sum[odd] && k < n; k++)
            v[k] += l->sum[odd][k];
        l->has_sum[odd] = false;
    }
    return status;
}

// ---- memory --------------------------------------------------------------

static bool speak(const tt_dynamic *d, int32_t peer)
{
    const int32_t me = d->job->peers.rank;
    return peer != me &&
           (tt__keeps_weights(d, me) || tt__keeps_weights(d, peer));
}

static double *new_sum(tt_dynamic *d)
{
    const int64_t n = d->n_parts + d->job->peers.size;
    return tt_arena_alloc(d->arena, n * (int64_t)sizeof(double));
}

tt_status tt__wall_post_open(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    const int32_t ranks = d->job->peers.size;
    bool has_all = true;
    w->line = tt_arena_alloc(d->arena, ranks * (int64_t)sizeof *w->line);
    w->inbox = tt_arena_alloc(d->arena, d->workers * (int64_t)sizeof *w->inbox);
    if (w->line == NULL || w->inbox == NULL)
        return TT_ERR_NOMEM;
    for (int odd = 0; odd < 2; odd++)
        has_all = has_all && (w->sum[odd] = new_sum(d)) != NULL;
    for (int32_t r = 0; r < ranks; r++) {
        w->n_shards += tt__keeps_weights(d, r);
        if (!speak(d, r))
            continue;
        tt__wall_line *l = &w->line[w->n_lines++];
        l->peer = r;
        for (int odd = 0; odd < 2; odd++)
            has_all = has_all && (l->sum[odd] = new_sum(d)) != NULL;
    }
    lend(d);
    return has_all ? place_now(d) : TT_ERR_NOMEM;
}

static void free_parcels(tt__wall_parcel *p)
{
    for (tt__wall_parcel *next; p != NULL; p = next) {
        next = p->next;
        tt_free(p);
    }
}

void tt__wall_post_close(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    take_back(d);
    if (w->snapshots != NULL)
        d->now = NULL; // one of them
    for (int32_t i = 0; w->inbox != NULL && i < d->workers; i++)
        tt_free(w->inbox[i].data);
    free_parcels(w->out);
    free_parcels(w->spare);
    for (tt__wall_copy *s = w->snapshots, *next; s != NULL; s = next) {
        next = s->next;
        if (s->n_read == NULL)
            tt_free(s->data);
        tt_free(s);
    }
    for (tt__wall_event *e = w->queue, *next; e != NULL; e = next) {
        next = e->next;
        tt_free(e);
    }
}
