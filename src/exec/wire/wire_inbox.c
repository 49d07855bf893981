// wire_inbox - what arrives from a rank is matched by what it is, not by when it was sent.
//
// The problem. A transport matches the messages of two ranks by position. But a pipeline
// whose ranks hold several chunks sends activations and gradients the same way, and the
// receiver needs them in another order than the sender makes them.
//
// The idea. A move goes as two messages: an envelope, which says what it is (tag and
// micro-batch) and how long, and the body. A rank that wants anything from a peer receives
// the next envelope; then it knows where the body goes.
//
//   sender    [ env B ][ body B ][ env A ][ body A ]
//   receiver  wants A: env B is not wanted yet: its body goes to memory of its own
//             wants B: it is there                       env A: straight into A's operand
//
// Devices that reach each other send envelopes without bodies: wire_device_moves.c.
//
// Only one envelope or body of a peer is received at a time, and no envelope unless
// something is wanted: else it would take a message of a collective for one. For the same
// reason a collective waits until nothing is wanted of its members
// (tt__moves_keep_waiting). All that is the thread's own, without a lock.
//
//   cost    32 bytes and a message for each move, which no statistic counts: as the
//           headers of transports. One copy of what comes before it is wanted

#include "base/alloc.h"
#include "exec/wire/wire_state.h"

#include <string.h>

enum { ENVELOPE = TT_TRAFFIC_TAGS + 1 };

// A message that came before it was wanted.
struct tt__wire_early {
    tt__wire_envelope envelope;
    tt_msg msg;
    tt__wire_leg *leg; // who wants it; NULL: nobody yet
    struct tt__wire_early *next;
    char data[];
};

static bool is_same(const tt__wire_envelope *a, const tt__wire_envelope *b)
{
    return a->tag == b->tag && a->micro == b->micro && a->node == b->node;
}

static tt_msg envelope_msg(int32_t peer, tt__wire_envelope *envelope)
{
    return (tt_msg){.peer = peer,
                    .tag = ENVELOPE,
                    .data = envelope,
                    .bytes = sizeof *envelope};
}

// ---- sending ---------------------------------------------------------------

tt_status tt__inbox_send(tt_comm *comm, tt__wire_leg *leg)
{
    leg->head = envelope_msg(leg->msg.peer, &leg->sent);
    TT_TRY(comm->def->send(comm, &leg->head));
    return leg->sent.bytes < 0 ? TT_OK : tt_comm_send(comm, &leg->msg);
}

// ---- receiving -------------------------------------------------------------

static tt_status other_length(const tt_comm *comm, const tt__wire_leg *leg,
                              int64_t bytes)
{
    return tt_fail(TT_ERR_PEER,
                   "rank %d expected a value of %lld bytes from rank %d, which "
                   "sent %lld: the ranks do different things",
                   comm->rank, (long long)leg->msg.bytes, leg->msg.peer,
                   (long long)bytes);
}

// What came early is handed over.
static tt_status hand_over(const tt_comm *comm, tt__wire_early *early,
                           tt__wire_leg *leg)
{
    const int64_t bytes = early->envelope.bytes;
    if (bytes != leg->msg.bytes)
        return other_length(comm, leg, bytes);
    if (bytes > 0)
        memcpy(leg->msg.data, early->data, (size_t)bytes);
    leg->envelope.turn = early->envelope.turn;
    leg->msg.moved = bytes;
    leg->msg.is_done = true;
    return TT_OK;
}

// Begins to receive the next envelope, if anything is wanted.
static tt_status read_next(tt_comm *comm, tt__wire_inbox *box, int32_t peer)
{
    if (box->wanted == NULL || box->is_reading || box->is_filling)
        return TT_OK;
    box->head = envelope_msg(peer, &box->envelope);
    box->is_reading = true;
    return comm->def->receive(comm, &box->head);
}

tt_status tt__inbox_receive(tt_comm_wire *w, tt__wire_leg *leg)
{
    tt_comm *comm = w->carrier.comm;
    tt__wire_inbox *box = &w->inbox[leg->msg.peer];
    leg->next_wanted = NULL;
    if (box->early != NULL && box->is_filling &&
        is_same(&box->early->envelope, &leg->envelope) &&
        box->early->leg == NULL) { // it is just arriving
        box->early->leg = leg;
        return TT_OK;
    }
    for (tt__wire_early **at = &box->kept; *at != NULL; at = &(*at)->next) {
        tt__wire_early *early = *at;
        if (!is_same(&early->envelope, &leg->envelope))
            continue;
        *at = early->next;
        const tt_status status = hand_over(comm, early, leg);
        tt_free(early);
        return status;
    }
    tt__wire_leg **end = &box->wanted;
    while (*end != NULL)
        end = &(*end)->next_wanted;
    *end = leg;
    return read_next(comm, box, leg->msg.peer);
}

static tt_status receive_body(tt_comm *comm, tt_msg *msg)
{
    if (msg->bytes >= 0)
        return tt_comm_receive(comm, msg);
    msg->is_done = true;
    return TT_OK;
}

// The envelope is there: the body goes where it is wanted, or to memory of its own.
static tt_status open_envelope(tt_comm *comm, tt__wire_inbox *box, int32_t peer)
{
    tt__wire_leg **at = &box->wanted;
    box->is_reading = false;
    box->is_filling = true;
    box->early = NULL;
    while (*at != NULL && !is_same(&(*at)->envelope, &box->envelope))
        at = &(*at)->next_wanted;
    tt__wire_leg *leg = *at;
    if (leg != NULL) {
        *at = leg->next_wanted;
        leg->envelope.turn = box->envelope.turn;
        box->body = &leg->msg;
        return leg->msg.bytes == box->envelope.bytes
                   ? receive_body(comm, &leg->msg)
                   : other_length(comm, leg, box->envelope.bytes);
    }
    const int64_t bytes = box->envelope.bytes;
    tt__wire_early *early =
        tt_alloc((int64_t)sizeof *early + (bytes > 0 ? bytes : 0));
    if (early == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no memory for %lld bytes that came before they are "
                       "wanted",
                       (long long)bytes);
    early->envelope = box->envelope;
    early->msg = (tt_msg){.peer = peer,
                          .tag = early->envelope.tag,
                          .data = early->data,
                          .bytes = bytes};
    box->early = early;
    box->body = &early->msg;
    return receive_body(comm, &early->msg);
}

static tt_status body_came(tt_comm *comm, tt__wire_inbox *box, int32_t peer)
{
    tt__wire_early *early = box->early;
    tt_status status = TT_OK;
    box->is_filling = false;
    box->early = NULL;
    if (early != NULL && early->leg != NULL) {
        status = hand_over(comm, early, early->leg);
        tt_free(early);
    } else if (early != NULL) {
        tt__wire_early **end = &box->kept;
        while (*end != NULL)
            end = &(*end)->next;
        early->next = NULL;
        *end = early;
    }
    return status == TT_OK ? read_next(comm, box, peer) : status;
}

tt_status tt__inbox_sort(tt_comm_wire *w, bool *moved_out)
{
    tt_comm *comm = w->carrier.comm;
    for (int32_t r = 0; r < comm->size; r++) {
        tt__wire_inbox *box = &w->inbox[r];
        while ((box->is_reading && box->head.is_done) ||
               (box->is_filling && box->body->is_done)) {
            *moved_out = true;
            TT_TRY(box->is_reading ? open_envelope(comm, box, r)
                                   : body_came(comm, box, r));
        }
    }
    return TT_OK;
}

bool tt__inbox_is_idle(const tt_comm_wire *w, int32_t peer)
{
    const tt__wire_inbox *box = &w->inbox[peer];
    return !box->is_reading && !box->is_filling;
}

void tt__inbox_clear(tt_comm_wire *w)
{
    for (int32_t r = 0; r < w->carrier.comm->size && w->inbox != NULL; r++) {
        tt__wire_inbox *box = &w->inbox[r];
        tt_free(box->early);
        while (box->kept != NULL) {
            tt__wire_early *early = box->kept;
            box->kept = early->next;
            tt_free(early);
        }
        *box = (tt__wire_inbox){0};
    }
}
