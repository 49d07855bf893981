// wall_post - letters by the wall clock: what is sent is never waited for, and what comes is
// put where it belongs.
//
//   letter: kind, worker, numbers | bytes: a part of a gradient, weights, numbers
//
// A gradient is sent from where it was computed: its worker computes no other one before all
// shards have answered. It is received where the server will read it. On shared memory a letter
// says where they lie, and nothing else is sent (wall_memory.c).

#include "base/alloc.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/wall_hurry.h"
#include "job/dynamic/wall_proxy.h"

#include <string.h>

enum { TAG = 0x7077 };

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
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

tt_status tt__wall_send(tt_dynamic *d, int32_t to, const tt__wall_letter *head,
                        void *data, tt__wall_copy *snapshot)
{
    struct tt__wall *w = d->wall;
    void *shown =
        head->bytes > 0 ? tt__wall_shown(d, head, data, snapshot) : NULL;
    const bool is_whole = head->bytes == 0 || shown != NULL;
    tt__wall_parcel *p = new_parcel(w);
    if (p == NULL)
        return no_memory();
    *p = (tt__wall_parcel){.head = *head, .next = w->out};
    w->out = p;
    p->head.shown = shown;
    if (shown != NULL)
        tt_comm_showed(d->comm, head->bytes);
    if (snapshot != NULL && shown != NULL)
        snapshot->n_shown++;
    if (snapshot != NULL && shown == NULL) {
        p->snapshot = snapshot;
        snapshot->readers++;
    }
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
    return tt__shards_decode(d) ? tt__coder_room(d)
                                : tt_vector_bytes(&d->shard);
}

static tt_status inbox_room(tt__wall_inbox *inbox, int64_t most,
                            const tt__wall_letter *head, void **out)
{
    if (head->bytes > most)
        return tt_fail(TT_ERR_ARG,
                       "the gradient of worker %d has more bytes than there "
                       "is room for",
                       (int)head->worker);
    inbox->bytes = head->bytes;
    if (inbox->data == NULL)
        inbox->data = tt_alloc(most + 8);
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
    case TT_WALL_HEADS:
        *out = tt__wall_head(d, (int32_t)head->worker);
        return TT_OK;
    case TT_WALL_GIVE:
        *out = tt__worker_own(d, (int32_t)head->worker)->weights;
        return TT_OK;
    case TT_WALL_MEMBER:
        return inbox_room(&d->wall->member[head->worker], tt__member_bytes(d),
                          head, out);
    default:
        return inbox_room(&d->wall->inbox[head->worker], inbox_bytes(d), head,
                          out);
    }
}

// Weights that lie at their shard, or have come.
static tt_status fetch(tt_dynamic *d, const tt__wall_line *line)
{
    const tt__wall_letter *head = &line->head;
    const int32_t worker = (int32_t)head->worker;
    if (head->is_bare)
        return tt__wall_read_bare(d, line->peer, head->shown);
    void *here = tt__element_at(d, tt__worker_own(d, worker)->weights,
                                d->bound[line->peer]);
    TT_TRY(tt__worker_fetch(d, worker, line->peer,
                            head->shown != NULL ? head->shown : here));
    if (head->shown != NULL)
        tt__wall_has_read(head->shown);
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
            TT_TRY(tt__wall_room(d, line, &room)); // also of nothing
        d->wall->inbox[head->worker].shown = head->shown;
        d->wall->inbox[head->worker].is_bare = head->is_bare != 0;
        d->wall->inbox[head->worker].is_here = true;
        return head->kind == TT_WALL_PUSH ? tt__wall_keep(d, head) : TT_OK;
    case TT_WALL_ORDER:
    case TT_WALL_STEP:
        return tt__wall_keep(d, head);
    case TT_WALL_ANSWER:
        TT_TRY(fetch(d, line));
        d->rate[head->worker] = head->v[TT_WALL_RATE];
        return tt__wall_answered(d, (int32_t)head->worker);
    case TT_WALL_HURRY:
        tt__hurry_heard(d, (int64_t)head->v[0]);
        return TT_OK;
    case TT_WALL_SUM:
        line->has_sum[(int64_t)head->v[0] & 1] = true;
        return TT_OK;
    case TT_WALL_MEMBER:
        tt__wall_joins(d, head);
        return TT_OK;
    case TT_WALL_GIVE:
        tt__wall_given(d, head);
        return TT_OK;
    case TT_WALL_HEADS: // the sum comes next
        return TT_OK;
    case TT_WALL_LULL:
        line->is_lull = true;
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
           (tt__keeps_weights(d, me) || tt__keeps_weights(d, peer) ||
            tt__wall_share_group(d, me, peer));
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
    TT_TRY(tt__wall_proxy_open(d));
    return has_all ? tt__wall_memory_open(d) : TT_ERR_NOMEM;
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
    tt__wall_memory_close(d);
    tt__wall_proxy_close(d);
    for (int32_t i = 0; w->inbox != NULL && i < d->workers; i++)
        tt_free(w->inbox[i].data);
    free_parcels(w->out);
    free_parcels(w->spare);
    for (tt__wall_event *e = w->queue, *next; e != NULL; e = next) {
        next = e->next;
        tt_free(e);
    }
}
