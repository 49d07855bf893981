// trace - remembers every message of the transport below: when it was posted and when
// it was done. The newest are kept; a message costs a clock reading at each end.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/transport/transport.h"

// A message that is not done, and its place in the list.
typedef struct open_msg {
    const tt_msg *msg;
    int64_t number;
} open_msg;

typedef struct trace {
    tt_comm base;
    tt_comm *below;
    tt_comm_trace_event *event;
    int64_t capacity, n; // n: since the opening
    open_msg *open;
    int64_t n_open, open_room;
} trace;

static tt_status remember(trace *t, const tt_msg *msg, bool is_send)
{
    if (t->n_open == t->open_room) {
        const int64_t room = 2 * t->open_room + 16;
        open_msg *more = tt_alloc(room * (int64_t)sizeof *more);
        if (more == NULL)
            return tt_fail(TT_ERR_NOMEM, "trace: no memory for a message");
        for (int64_t i = 0; i < t->n_open; i++)
            more[i] = t->open[i];
        tt_free(t->open);
        t->open = more;
        t->open_room = room;
    }
    t->event[t->n % t->capacity] = (tt_comm_trace_event){
        .posted = tt_clock_seconds(),
        .number = t->n,
        .bytes = msg->bytes,
        .peer = msg->peer,
        .tag = msg->tag,
        .is_send = is_send,
    };
    t->open[t->n_open++] = (open_msg){msg, t->n++};
    return TT_OK;
}

// A message is only looked at right after the call that may have finished it: later
// it may be gone.
static void note_done(trace *t)
{
    int64_t left = 0;
    const double now = tt_clock_seconds();
    for (int64_t i = 0; i < t->n_open; i++) {
        const open_msg o = t->open[i];
        if (!o.msg->is_done)
            t->open[left++] = o;
        else if (o.number >= t->n - t->capacity)
            t->event[o.number % t->capacity].done = now;
    }
    t->n_open = left;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    trace *t = (trace *)comm;
    TT_TRY(remember(t, msg, true));
    const tt_status status = tt_comm_send(t->below, msg);
    note_done(t);
    return status;
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    trace *t = (trace *)comm;
    TT_TRY(remember(t, msg, false));
    const tt_status status = tt_comm_receive(t->below, msg);
    note_done(t);
    return status;
}

static tt_status progress(tt_comm *comm, bool *moved_out)
{
    trace *t = (trace *)comm;
    const tt_status status = t->below->def->progress(t->below, moved_out);
    comm->stirred = t->below->stirred;
    note_done(t);
    return status;
}

static void doze(tt_comm *comm, double seconds)
{
    const trace *t = (trace *)comm;
    t->below->def->doze(t->below, seconds);
}

static void wake(tt_comm *comm)
{
    tt_comm_wake(((trace *)comm)->below);
}

static double idle(tt_comm *comm, double since)
{
    return tt_comm_idle(((trace *)comm)->below, since);
}

static void abandon(tt_comm *comm)
{
    trace *t = (trace *)comm;
    t->n_open = 0;
    t->below->def->abandon(t->below);
}

static void *alloc(tt_comm *comm, int64_t bytes)
{
    return tt_comm_alloc(((trace *)comm)->below, bytes);
}

static tt_link link_to(const tt_comm *comm, int32_t to)
{
    const trace *t = (const trace *)comm;
    return t->below->def->link(t->below, to);
}

static void close_trace(tt_comm *comm)
{
    trace *t = (trace *)comm;
    tt_comm_close(t->below);
    tt_free(t->event);
    tt_free(t->open);
    tt_free(t);
}

static tt_status wrap(tt_comm *below, tt_comm **comm_out)
{
    return tt_comm_trace_open(below, 8, comm_out);
}

const tt_comm_def tt_comm_trace = {
    .name = "trace",
    .doc = "Around another: remembers every message.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .wake = wake,
    .idle = idle,
    .abandon = abandon,
    .alloc = alloc,
    .link = link_to,
    .close = close_trace,
    .wrap = wrap,
};

tt_status tt_comm_trace_open(tt_comm *below, int64_t capacity,
                             tt_comm **comm_out)
{
    if (capacity < 1)
        return tt_fail(TT_ERR_ARG, "a trace of %lld messages keeps none",
                       (long long)capacity);
    trace *t = tt_alloc(sizeof *t);
    tt_comm_trace_event *event = tt_alloc(capacity * (int64_t)sizeof *event);
    if (t == NULL || event == NULL) {
        tt_free(t);
        tt_free(event);
        return tt_fail(TT_ERR_NOMEM, "no memory for a trace");
    }
    *t = (trace){.base = {.def = &tt_comm_trace,
                          .rank = below->rank,
                          .size = below->size,
                          .deadline = below->deadline,
                          .journal = below->journal,
                          .is_guest = below->is_guest},
                 .below = below,
                 .event = event,
                 .capacity = capacity};
    *comm_out = &t->base;
    return TT_OK;
}

const tt_comm_trace_event *tt_comm_trace_event_of(const tt_comm *comm,
                                                  int64_t i, int64_t *n_out)
{
    const trace *t = (const trace *)comm;
    *n_out = 0;
    if (comm->def != &tt_comm_trace)
        return NULL;
    *n_out = t->n < t->capacity ? t->n : t->capacity;
    return i >= 0 && i < *n_out ? &t->event[(t->n - *n_out + i) % t->capacity]
                                : NULL;
}
