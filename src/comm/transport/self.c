// self - one rank, alone. A message waits until both of its ends were posted.
//
// With it, code that is written for many ranks runs on one without a special case.

#include "base/alloc.h"
#include "comm/transport/transport.h"

#include <time.h>

typedef struct queue {
    tt_msg *first, *last;
} queue;

typedef struct self {
    tt_comm base;
    queue out, in;
} self;

static void push(queue *q, tt_msg *msg)
{
    msg->next = NULL;
    if (q->first == NULL)
        q->first = msg;
    else
        q->last->next = msg;
    q->last = msg;
}

static void finish(queue *q)
{
    tt_msg *msg = q->first;
    q->first = msg->next;
    msg->moved = msg->bytes;
    msg->is_done = true;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    push(&((self *)comm)->out, msg);
    return TT_OK;
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    push(&((self *)comm)->in, msg);
    return TT_OK;
}

// No other rank will post anything, so waiting for that would never end.
static tt_status progress(tt_comm *comm, bool *moved_out)
{
    self *s = (self *)comm;
    bool moved = false;
    while (s->out.first != NULL && s->in.first != NULL) {
        const tt_msg *out = s->out.first, *in = s->in.first;
        if (out->bytes != in->bytes || out->tag != in->tag)
            return tt_fail(TT_ERR_STATE,
                           "a rank expects message %d of %lld bytes from "
                           "itself and sends message %d of %lld",
                           in->tag, (long long)in->bytes, out->tag,
                           (long long)out->bytes);
        tt_fold_into(in->fold, in->data, out->data, in->bytes);
        finish(&s->out);
        finish(&s->in);
        moved = true;
    }
    if (!moved && (s->out.first != NULL || s->in.first != NULL))
        return tt_fail(TT_ERR_STATE, "a rank waits for a message from itself "
                                     "that it does not send");
    *moved_out = moved;
    return TT_OK;
}

// Only a wrapper that holds a message back has a reason to wait here.
static void doze(tt_comm *comm, double seconds)
{
    const struct timespec pause = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)comm;
    (void)nanosleep(&pause, NULL);
}

static void abandon(tt_comm *comm)
{
    self *s = (self *)comm;
    s->out = s->in = (queue){0};
}

static tt_link link_to(const tt_comm *comm, int32_t to)
{
    (void)comm, (void)to;
    return (tt_link){.latency = 1e-7, .per_byte = 1e-10};
}

static void close_self(tt_comm *comm)
{
    tt_free(comm);
}

const tt_comm_def tt_comm_self = {
    .name = "self",
    .doc = "One rank, alone.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .abandon = abandon,
    .link = link_to,
    .close = close_self,
};

tt_status tt_self_open(double deadline, tt_comm **comm_out)
{
    self *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a rank alone");
    s->base = (tt_comm){.def = &tt_comm_self, .size = 1, .deadline = deadline};
    *comm_out = &s->base;
    return TT_OK;
}
