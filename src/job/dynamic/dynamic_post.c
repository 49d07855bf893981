// dynamic_post - messages between ranks that follow the same list of events.
//
// Every rank comes to every event in the same order and takes part where it is concerned.
// So messages need no names, and nobody can wait for somebody who waits for him: of all
// events that are not over, the ranks of the first one are all on their way to it. A rank
// whose message is not there yet computes a gradient that it will have to deliver later. By
// the wall clock it does not: there a gradient is pushed when it is computed.

#include "base/alloc.h"
#include "job/dynamic/crowd.h"

enum { TAG = 0x7073 };

static bool are_done(const tt_msg *msg, int n)
{
    for (int i = 0; i < n; i++)
        if (!msg[i].is_done)
            return false;
    return true;
}

static tt_status wait_for(tt_dynamic *d, tt_comm *comm, tt_msg *msg, int n)
{
    tt_rest rest = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && !are_done(msg, n)) {
        bool moved = false, did = false;
        status = comm->def->progress(comm, &moved);
        if (status == TT_OK && !moved && !d->is_live)
            status = tt__worker_compute_any(d, &did);
        int i = 0;
        while (i + 1 < n && msg[i].is_done)
            i++;
        if (status == TT_OK && !moved && !did && !are_done(msg, n))
            status = tt_comm_turn(comm, &msg[i], &rest);
    }
    tt_comm_rested(comm, &rest);
    if (status != TT_OK)
        comm->def->abandon(comm);
    return status;
}

static tt_status exchange(tt_dynamic *d, tt_comm *comm, const tt__post *post,
                          int n)
{
    const int32_t me = d->job->peers.rank;
    tt_msg *msg = tt_alloc((n + 1) * (int64_t)sizeof *msg);
    tt_status status =
        msg != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for messages");
    int m = 0;
    for (int i = 0; i < n && status == TT_OK; i++) {
        const tt__post *p = &post[i];
        if (p->from == p->to || p->bytes == 0 || (p->from != me && p->to != me))
            continue;
        msg[m] = (tt_msg){.peer = p->from == me ? p->to : p->from,
                          .tag = TAG,
                          .data = p->from == me ? p->data : p->room,
                          .bytes = p->bytes};
        status = p->from == me ? tt_comm_send(comm, &msg[m])
                               : tt_comm_receive(comm, &msg[m]);
        m += status == TT_OK;
    }
    if (status == TT_OK)
        status = wait_for(d, comm, msg, m);
    else if (msg != NULL)
        comm->def->abandon(comm);
    tt_free(msg);
    return status;
}

tt_status tt__post_all(tt_dynamic *d, const tt__post *post, int n)
{
    const tt_peers *peers = &d->job->peers;
    if (peers->size == 1)
        return TT_OK;
    for (int i = 0; d->comm != NULL && d->crowd != NULL && i < n; i++)
        TT_TRY(tt__crowd_post(d, &post[i]));
    if (d->comm != NULL && d->crowd != NULL)
        return TT_OK;
    const tt_status status =
        exchange(d, tt_comm_wire_borrow(peers->wire), post, n);
    tt_comm_wire_give_back(peers->wire);
    return status;
}

tt_status tt__post_alive(const tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    bool moved = true;
    tt_status status = TT_OK;
    if (peers->size == 1)
        return TT_OK;
    tt_comm *comm = tt_comm_wire_borrow(peers->wire);
    while (status == TT_OK && moved) {
        moved = false; // then it looks for the lost
        status = comm->def->progress(comm, &moved);
    }
    tt_comm_wire_give_back(peers->wire);
    return status;
}

tt_status tt__post_sum(const tt_dynamic *d, double *v, int64_t n)
{
    const tt_peers *peers = &d->job->peers;
    if (peers->size == 1)
        return TT_OK;
    return tt_comm_wire_call(peers->wire, "workers",
                             &(tt_coll_call){.kind = TT_ALL_REDUCE,
                                             .fold = {TT_FOLD_SUM, TT_NUM_F64},
                                             .count = n,
                                             .in = v,
                                             .out = v});
}
