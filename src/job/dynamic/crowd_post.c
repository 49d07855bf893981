// crowd_post - letters and vectors between ranks whose workers have weights of their own, by
// the wall clock.
//
// Letters to and from rank 0 are never waited for. Vectors are: both ranks are in the same
// turn. Messages between two ranks come in the order in which they were sent; so a rank that is
// in a turn knows that rank 0's next message is its vector, while rank 0, to whom letters come
// at any time, is told so by a letter.

#include "base/alloc.h"
#include "job/dynamic/crowd_wall.h"

#include <string.h>

enum { TAG = 0x7078 };

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
}

static bool is_first(const tt_dynamic *d)
{
    return tt_peers_is_first(&d->job->peers);
}

// ---- letters -------------------------------------------------------------

static tt__crowd_parcel *new_parcel(tt__crowd_wall *w)
{
    tt__crowd_parcel *p = w->spare;
    if (p == NULL)
        return tt_alloc(sizeof *p);
    w->spare = p->next;
    return p;
}

void tt__crowd_spare(tt__crowd_wall *wall, tt__crowd_parcel *parcel)
{
    parcel->next = wall->spare;
    wall->spare = parcel;
}

tt_status tt__crowd_keep(tt_dynamic *d, const tt__crowd_letter *letter)
{
    tt__crowd_wall *w = d->crowd->wall;
    tt__crowd_parcel *p = new_parcel(w);
    if (p == NULL)
        return no_memory();
    *p = (tt__crowd_parcel){.letter = *letter};
    *w->last = p;
    w->last = &p->next;
    return TT_OK;
}

tt_status tt__crowd_send(tt_dynamic *d, int32_t to,
                         const tt__crowd_letter *letter)
{
    tt__crowd_wall *w = d->crowd->wall;
    tt__crowd_parcel *p = new_parcel(w);
    if (p == NULL)
        return no_memory();
    *p = (tt__crowd_parcel){.letter = *letter, .next = w->out};
    w->out = p;
    p->msg = (tt_msg){
        .peer = to, .tag = TAG, .data = &p->letter, .bytes = sizeof p->letter};
    return tt_comm_send(d->comm, &p->msg);
}

static void reap(tt__crowd_wall *w)
{
    for (tt__crowd_parcel **p = &w->out; *p != NULL;) {
        tt__crowd_parcel *gone = *p;
        if (!gone->msg.is_done) {
            p = &gone->next;
            continue;
        }
        *p = gone->next;
        tt__crowd_spare(w, gone);
    }
}

// A rank hears no letter in a turn or before a meeting; rank 0 always does.
static bool may_listen(const tt_dynamic *d, const tt__crowd_line *l)
{
    const tt__crowd_wall *w = d->crowd->wall;
    return is_first(d) ? !l->is_fin && !l->has_vector
                       : !w->is_following && !w->is_closed && w->queue == NULL;
}

static tt_status look_at(tt_dynamic *d, tt__crowd_line *l, bool *took)
{
    if (!l->is_open && may_listen(d, l)) {
        l->is_open = true;
        l->msg = (tt_msg){.peer = l->peer,
                          .tag = TAG,
                          .data = &l->letter,
                          .bytes = sizeof l->letter};
        TT_TRY(tt_comm_receive(d->comm, &l->msg));
    }
    if (!l->is_open || !l->msg.is_done)
        return TT_OK;
    *took = true;
    l->is_open = false;
    switch (l->letter.kind) {
    case TT_CROWD_VECTOR:
        l->has_vector = true;
        return TT_OK;
    case TT_CROWD_FIN:
        l->is_fin = true;
        return TT_OK;
    default:
        return tt__crowd_keep(d, &l->letter);
    }
}

tt_status tt__crowd_receive(tt_dynamic *d, bool *did_out)
{
    bool moved = false;
    *did_out = false;
    if (d->comm == NULL)
        return TT_OK;
    TT_TRY(d->comm->def->progress(d->comm, &moved));
    for (int32_t i = 0; i < d->crowd->wall->n_lines; i++)
        TT_TRY(look_at(d, &d->crowd->wall->line[i], did_out));
    *did_out = *did_out || moved;
    reap(d->crowd->wall);
    return TT_OK;
}

// ---- waiting -------------------------------------------------------------

bool tt__crowd_is_empty(const tt_dynamic *d)
{
    const tt__crowd_wall *w = d->crowd->wall;
    for (int32_t i = 0; is_first(d) && i < w->n_lines; i++)
        if (!w->line[i].is_fin)
            return false;
    return w->out == NULL;
}

// Who has not said his last word, or rank 0.
tt_status tt__crowd_rest(const tt_dynamic *d, tt_rest *rest)
{
    const tt__crowd_wall *w = d->crowd->wall;
    int32_t i = 0;
    if (d->comm == NULL)
        return tt_fail(TT_ERR_STATE, "all workers wait");
    while (i + 1 < w->n_lines && w->line[i].is_fin)
        i++;
    const tt_msg open = {.peer = w->line[i].peer, .tag = TAG};
    return tt_comm_turn(d->comm, &open, rest);
}

void tt__crowd_reopen(tt__crowd_wall *wall)
{
    wall->is_closed = false;
    for (int32_t i = 0; i < wall->n_lines; i++)
        wall->line[i].is_fin = false;
}

// ---- vectors -------------------------------------------------------------

static tt_status wait_for(tt_dynamic *d, const tt_msg *open,
                          const bool *is_done)
{
    tt_rest r = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && !*is_done) {
        bool did = false;
        status = tt__crowd_receive(d, &did);
        if (did)
            tt_comm_rested(d->comm, &r);
        else if (status == TT_OK && !*is_done)
            status = tt_comm_turn(d->comm, open, &r);
    }
    tt_comm_rested(d->comm, &r);
    return status;
}

static tt_status send_vector(tt_dynamic *d, const tt__post *post)
{
    const tt__crowd_letter word = {.kind = TT_CROWD_VECTOR};
    tt_msg msg = {
        .peer = post->to, .tag = TAG, .data = post->data, .bytes = post->bytes};
    if (post->to == 0)
        TT_TRY(tt__crowd_send(d, 0, &word));
    TT_TRY(tt_comm_send(d->comm, &msg));
    return wait_for(d, &msg, &msg.is_done);
}

static tt_status receive_vector(tt_dynamic *d, const tt__post *post)
{
    tt__crowd_wall *w = d->crowd->wall;
    tt_msg msg = {.peer = post->from,
                  .tag = TAG,
                  .data = post->room,
                  .bytes = post->bytes};
    if (is_first(d))
        TT_TRY(wait_for(d, &msg, &w->line[post->from - 1].has_vector));
    TT_TRY(tt_comm_receive(d->comm, &msg));
    TT_TRY(wait_for(d, &msg, &msg.is_done));
    if (is_first(d))
        w->line[post->from - 1].has_vector = false;
    return TT_OK;
}

tt_status tt__crowd_post(tt_dynamic *d, const tt__post *post)
{
    const int32_t me = d->job->peers.rank;
    if (post->from == post->to || post->bytes == 0)
        return TT_OK;
    if (post->from == me)
        return send_vector(d, post);
    return post->to == me ? receive_vector(d, post) : TT_OK;
}

// ---- memory --------------------------------------------------------------

tt_status tt__crowd_post_open(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    tt__crowd_wall *w = d->crowd->wall;
    w->n_lines = peers->size == 1 ? 0 : is_first(d) ? peers->size - 1 : 1;
    w->line =
        tt_arena_alloc(d->arena, (w->n_lines + 1) * (int64_t)sizeof *w->line);
    if (w->line == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < w->n_lines; i++)
        w->line[i].peer = is_first(d) ? i + 1 : 0;
    return TT_OK;
}

static void free_all(tt__crowd_parcel *p)
{
    for (tt__crowd_parcel *next; p != NULL; p = next) {
        next = p->next;
        tt_free(p);
    }
}

void tt__crowd_post_close(tt_dynamic *d)
{
    free_all(d->crowd->wall->out);
    free_all(d->crowd->wall->spare);
    free_all(d->crowd->wall->queue);
}
