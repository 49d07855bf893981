// parcel - posting notes and bodies below, and handing over what is due.
//
// A wrapper changes when a message arrives, or what is in it. So each message becomes
// two on the transport below: a note (when it is due, its checksum) and the body. A
// parcel is done when both have come and its time has passed. Parcels are kept in a
// list and used again.

#include "comm/transport/parcel.h"

#include "base/alloc.h"
#include "base/clock.h"

void tt__wrap_init(tt__wrap *w, const tt_comm_def *def, tt_comm *below)
{
    w->base = (tt_comm){.def = def,
                        .rank = below->rank,
                        .size = below->size,
                        .deadline = below->deadline,
                        .journal = below->journal,
                        .is_guest = below->is_guest};
    w->below = below;
}

static void append(tt__wrap *w, tt__parcel *p)
{
    if (w->first == NULL)
        w->first = p;
    else
        w->last->next = p;
    w->last = p;
}

static void recycle(tt__wrap *w, tt__parcel *p)
{
    tt_free(p->copy);
    p->copy = NULL;
    p->next = w->spare;
    w->spare = p;
}

tt_status tt__parcel_new(tt__wrap *w, tt_msg *msg, bool is_out, bool copy,
                         tt__parcel **out)
{
    tt__parcel *p = w->spare;
    if (p != NULL)
        w->spare = p->next;
    else
        p = tt_alloc(sizeof *p);
    if (p == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for a message",
                       w->base.def->name);
    *p = (tt__parcel){.msg = msg, .is_out = is_out};
    p->head = (tt_msg){.peer = msg->peer, .tag = msg->tag};
    p->head.data = &p->note;
    p->head.bytes = sizeof p->note;
    p->body = (tt_msg){.peer = msg->peer, .tag = msg->tag};
    p->body.data = msg->data;
    p->body.bytes = msg->bytes;
    p->body.fold = msg->fold;
    if (copy && msg->bytes > 0) {
        p->copy = tt_alloc(msg->bytes);
        p->body.data = p->copy;
        p->body.fold = (tt_fold){0};
        if (p->copy == NULL) {
            recycle(w, p);
            return tt_fail(TT_ERR_NOMEM, "%s: no memory for %lld bytes",
                           w->base.def->name, (long long)msg->bytes);
        }
    }
    *out = p;
    return TT_OK;
}

tt_status tt__parcel_post(tt__wrap *w, tt__parcel *p)
{
    append(w, p);
    if (p->is_out) {
        TT_TRY(tt_comm_send(w->below, &p->head));
        return tt_comm_send(w->below, &p->body);
    }
    TT_TRY(tt_comm_receive(w->below, &p->head));
    return tt_comm_receive(w->below, &p->body);
}

// Whether the parcel is through; what came is only looked at once it all did.
static tt_status check(tt__wrap *w, tt__parcel *p, double now, bool *done_out)
{
    *done_out = false;
    if (!p->head.is_done || !p->body.is_done)
        return TT_OK;
    if (!p->is_out) {
        if (!p->is_known && w->arrive != NULL)
            TT_TRY(w->arrive(w, p));
        p->is_known = true;
        if (now < p->note.due) {
            w->base.stirred = now; // on its way is not lost
            return TT_OK;
        }
        if (p->copy != NULL)
            tt_fold_into(p->msg->fold, p->msg->data, p->copy, p->msg->bytes);
    }
    p->msg->moved = p->msg->bytes;
    p->msg->is_done = true;
    *done_out = true;
    return TT_OK;
}

tt_status tt__wrap_progress(tt_comm *comm, bool *moved_out)
{
    tt__wrap *w = (tt__wrap *)comm;
    TT_TRY(w->below->def->progress(w->below, moved_out));
    if (comm->stirred < w->below->stirred)
        comm->stirred = w->below->stirred;
    const double now = tt_clock_seconds();
    tt__parcel *before = NULL;
    for (tt__parcel *p = w->first; p != NULL;) {
        tt__parcel *next = p->next;
        bool is_done = false;
        TT_TRY(check(w, p, now, &is_done));
        if (is_done) {
            if (before == NULL)
                w->first = next;
            else
                before->next = next;
            if (w->last == p)
                w->last = before;
            recycle(w, p);
            *moved_out = true;
        } else {
            before = p;
        }
        p = next;
    }
    return TT_OK;
}

void tt__wrap_doze(tt_comm *comm, double seconds)
{
    tt__wrap *w = (tt__wrap *)comm;
    const double now = tt_clock_seconds();
    for (const tt__parcel *p = w->first; p != NULL; p = p->next) {
        const double left = p->note.due - now;
        if (!p->is_out && p->is_known && left < seconds)
            seconds = left > 0 ? left : 0;
    }
    w->below->def->doze(w->below, seconds);
}

void tt__wrap_wake(tt_comm *comm)
{
    tt_comm_wake(((tt__wrap *)comm)->below);
}

double tt__wrap_idle(tt_comm *comm, double since)
{
    return tt_comm_idle(((tt__wrap *)comm)->below, since);
}

void tt__wrap_abandon(tt_comm *comm)
{
    tt__wrap *w = (tt__wrap *)comm;
    w->below->def->abandon(w->below);
    while (w->first != NULL) {
        tt__parcel *p = w->first;
        w->first = p->next;
        recycle(w, p);
    }
    w->last = NULL;
}

void *tt__wrap_alloc(tt_comm *comm, int64_t bytes)
{
    return tt_comm_alloc(((tt__wrap *)comm)->below, bytes);
}

void tt__wrap_close(tt_comm *comm)
{
    tt__wrap *w = (tt__wrap *)comm;
    tt_comm_close(w->below);
    while (w->first != NULL) {
        tt__parcel *p = w->first;
        w->first = p->next;
        recycle(w, p);
    }
    while (w->spare != NULL) {
        tt__parcel *p = w->spare;
        w->spare = p->next;
        tt_free(p);
    }
    tt_free(w);
}
