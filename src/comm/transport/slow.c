// slow - wraps another transport in a link of chosen rate and latency, so that network
// effects can be measured on one machine.
//
// A message leaves when the sender's link is free, takes bytes / rate on it, travels
// for the latency and takes as long on the receiver's link, where it may be waiting
// for others. The bytes themselves are sent at once; only their completion is held
// back, and the receiver sleeps until then.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/transport/parcel.h"

enum { KNOWN = 64 };

typedef struct span {
    double begin, end;
} span;

typedef struct slow {
    tt__wrap wrap;
    tt_slow_options options;
    double out_free; // when the link is
    // Intervals in which the link receives, disjoint. Messages are handled in the order
    // in which they are asked for, which may not be that of their arrival.
    span busy[KNOWN];
    int n_busy;
} slow;

static double duration(const slow *s, int64_t bytes)
{
    return s->options.rate > 0 ? (double)bytes / s->options.rate : 0;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    slow *s = (slow *)comm;
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new(&s->wrap, msg, true, false, &p));
    const double now = tt_clock_seconds();
    const double start = s->out_free > now ? s->out_free : now;
    s->out_free = start + duration(s, msg->bytes);
    p->note.due = s->out_free + s->options.latency;
    return tt__parcel_post(&s->wrap, p);
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    slow *s = (slow *)comm;
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new(&s->wrap, msg, false, false, &p));
    return tt__parcel_post(&s->wrap, p);
}

// When a message ends that begins then and uses the time that others leave free.
static double end_of(const slow *s, double begin, double takes)
{
    static const double blink = 1e-9;
    double end = begin + takes, before = 0;
    do {
        double busy = 0;
        before = end;
        for (int i = 0; i < s->n_busy; i++) {
            const span b = s->busy[i];
            const double from = b.begin > begin ? b.begin : begin;
            const double to = b.end < before ? b.end : before;
            busy += to > from ? to - from : 0;
        }
        end = begin + takes + busy;
    } while (end > before + blink);
    return end;
}

// Marks the link as busy from then to then.
static void occupy(slow *s, span all)
{
    int n = 0, oldest = 0;
    for (int i = 0; i < s->n_busy; i++) {
        const span b = s->busy[i];
        if (b.end < all.begin || b.begin > all.end) {
            s->busy[n++] = b;
            continue;
        }
        all.begin = b.begin < all.begin ? b.begin : all.begin;
        all.end = b.end > all.end ? b.end : all.end;
    }
    for (int i = 1; i < n; i++)
        oldest = s->busy[i].end < s->busy[oldest].end ? i : oldest;
    s->busy[n < KNOWN ? n : oldest] = all;
    s->n_busy = n < KNOWN ? n + 1 : KNOWN;
}

static tt_status arrive(tt__wrap *w, tt__parcel *p)
{
    slow *s = (slow *)w;
    const double takes = duration(s, p->msg->bytes);
    const double begin = p->note.due - takes;
    if (takes > 0) {
        p->note.due = end_of(s, begin, takes);
        occupy(s, (span){begin, p->note.due});
    }
    return TT_OK;
}

static tt_link link_to(const tt_comm *comm, int32_t to)
{
    const slow *s = (const slow *)comm;
    const tt_comm *below = s->wrap.below;
    tt_link link = below->def->link(below, to);
    link.latency += s->options.latency;
    link.per_byte += duration(s, 1);
    return link;
}

static tt_status wrap(tt_comm *below, tt_comm **comm_out)
{
    // Fast enough for a law, and not so fast that nothing is held back.
    return tt_slow_open(below, &(tt_slow_options){1e9, 1e-4}, comm_out);
}

const tt_comm_def tt_comm_slow = {
    .name = "slow",
    .doc = "Around another: a link of chosen bytes per second and latency.",
    .send = post_send,
    .receive = post_receive,
    .progress = tt__wrap_progress,
    .doze = tt__wrap_doze,
    .wake = tt__wrap_wake,
    .idle = tt__wrap_idle,
    .abandon = tt__wrap_abandon,
    .alloc = tt__wrap_alloc,
    .link = link_to,
    .close = tt__wrap_close,
    .wrap = wrap,
};

tt_status tt_slow_open(tt_comm *below, const tt_slow_options *options,
                       tt_comm **comm_out)
{
    if (!(options->rate >= 0) || !(options->latency >= 0))
        return tt_fail(TT_ERR_ARG,
                       "a slow link has a rate and a latency of at least 0");
    slow *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a slow link");
    tt__wrap_init(&s->wrap, &tt_comm_slow, below);
    s->wrap.arrive = arrive;
    s->options = *options;
    *comm_out = &s->wrap.base;
    return TT_OK;
}
