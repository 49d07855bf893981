// fault - for tests: wraps another transport and injects faults: a rank that falls
// silent, messages that are late, damaged or slow. Each message has a checksum and is
// first received into a buffer of its own, so that damage is noticed before it is
// folded in. That costs two more passes over the data; other transports rely on memory
// and network for it.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/settings/opt.h"
#include "comm/transport/parcel.h"

#include <string.h>
#include <time.h>

enum { MAX_RULES = 8, MAX_TEXT = 256 };

typedef enum kind { DROP, DELAY, JITTER, CORRUPT, SLOW, N_KINDS } kind;
static const char *const kinds[N_KINDS] = {"drop", "delay", "jitter", "corrupt",
                                           "slow"};

typedef struct rule {
    kind kind;
    int64_t rank, after, every, bit, seed;
    double seconds, rate;
} rule;

static const tt_opt table[] = {
    {"rank", "-1", "who does it; -1: all", TT_OPT_I64, offsetof(rule, rank),
     NULL, -1, 1 << 20},
    {"after", "0", "messages that it sends before", TT_OPT_I64,
     offsetof(rule, after), NULL, 0, -1},
    {"every", "1", "delay: one message in this many", TT_OPT_I64,
     offsetof(rule, every), NULL, 1, -1},
    {"bit", "0", "corrupt: which one", TT_OPT_I64, offsetof(rule, bit), NULL, 0,
     -1},
    {"seconds", "0.1", "delay: how long; jitter: at most", TT_OPT_F64,
     offsetof(rule, seconds), NULL, 0, 3600},
    {"seed", "0", "jitter: of its random numbers", TT_OPT_I64,
     offsetof(rule, seed), NULL, 0, -1},
    {"rate", "1e6", "slow: bytes per second", TT_OPT_F64, offsetof(rule, rate),
     NULL, 1, -1},
    {0},
};

typedef struct fault {
    tt__wrap wrap;
    rule rule[MAX_RULES];
    int n_rules;
    int64_t n_sent;
    double out_free; // when the slowed link is
    bool is_silent;
} fault;

// ---- settings ------------------------------------------------------------

static tt_status parse_rule(const char *text, int32_t size, rule *out)
{
    char words[MAX_TEXT];
    const char *colon = strchr(text, ':');
    const size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    int k = 0;
    while (k < N_KINDS &&
           (strlen(kinds[k]) != n || strncmp(kinds[k], text, n) != 0))
        k++;
    if (k == N_KINDS)
        return tt_fail(TT_ERR_ARG,
                       "fault \"%s\": not drop, delay, jitter, corrupt or slow",
                       text);
    words[0] = '\0';
    if (colon != NULL)
        memcpy(words, colon + 1, strlen(colon + 1) + 1);
    for (char *c = words; *c != '\0'; c++)
        *c = *c == ',' ? ' ' : *c;
    tt_status status = tt_opt_defaults(table, out, NULL);
    if (status == TT_OK)
        status = tt_opt_parse(table, out, words, NULL);
    out->kind = (kind)k;
    if (status == TT_OK && out->rank >= size)
        status = tt_fail(TT_ERR_ARG, "there are %d ranks", size);
    return status == TT_OK ? TT_OK
                           : tt_fail_context(status, "fault \"%s\"", text);
}

static tt_status parse(fault *f, const char *text)
{
    while (*text != '\0') {
        char part[MAX_TEXT];
        const size_t n = strcspn(text, ";");
        if (n >= sizeof part || f->n_rules == MAX_RULES)
            return tt_fail(TT_ERR_ARG, "fault \"%s\": too long", text);
        memcpy(part, text, n);
        part[n] = '\0';
        TT_TRY(parse_rule(part, f->wrap.base.size, &f->rule[f->n_rules++]));
        text += n + (text[n] == ';');
    }
    return TT_OK;
}

// ---- messages ------------------------------------------------------------

// Any one bit that differs gives another sum.
static uint64_t checksum(const void *data, int64_t bytes)
{
    const char *at = data;
    uint64_t sum = (uint64_t)bytes;
    for (; bytes > 0; bytes -= 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, bytes < 8 ? (size_t)bytes : 8);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

static void flip(const rule *r, tt__parcel *p)
{
    const int64_t bit = p->msg->bytes > 0 ? r->bit % (8 * p->msg->bytes) : 0;
    if (p->copy != NULL)
        p->copy[bit / 8] = (char)(p->copy[bit / 8] ^ 1 << bit % 8);
    else
        p->note.sum ^= 1; // nothing else to damage
}

// From 0 to 1, another one for each message.
static double random_part(const fault *f, const rule *r)
{
    return tt_rng_uniform(
        tt_rng_key((uint64_t)r->seed, "jitter", (uint64_t)f->wrap.base.rank),
        (uint64_t)f->n_sent);
}

static void apply(fault *f, const rule *r, tt__parcel *p)
{
    const int64_t past = f->n_sent - r->after;
    const double now = tt_clock_seconds();
    double due = 0;
    if ((r->rank >= 0 && r->rank != f->wrap.base.rank) || past < 0)
        return;
    switch (r->kind) {
    case DROP:
        f->is_silent = true;
        break;
    case DELAY:
        due = past % r->every == 0 ? now + r->seconds : 0;
        break;
    case JITTER:
        due = now + r->seconds * random_part(f, r);
        break;
    case CORRUPT:
        if (past == 0)
            flip(r, p);
        break;
    default:
        f->out_free = (f->out_free > now ? f->out_free : now) +
                      (double)p->msg->bytes / r->rate;
        due = f->out_free;
        break;
    }
    if (p->note.due < due)
        p->note.due = due;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    fault *f = (fault *)comm;
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new(&f->wrap, msg, true, true, &p));
    if (p->copy != NULL)
        memcpy(p->copy, msg->data, (size_t)msg->bytes);
    p->note.sum = checksum(msg->data, msg->bytes);
    for (int i = 0; i < f->n_rules; i++)
        apply(f, &f->rule[i], p);
    f->n_sent++;
    return tt__parcel_post(&f->wrap, p);
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    fault *f = (fault *)comm;
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new(&f->wrap, msg, false, true, &p));
    return tt__parcel_post(&f->wrap, p);
}

static tt_status arrive(tt__wrap *w, tt__parcel *p)
{
    if (checksum(p->copy, p->msg->bytes) != p->note.sum)
        return tt_fail(TT_ERR_PEER,
                       "message %d of %lld bytes from rank %d came to rank %d "
                       "damaged: its checksum is wrong",
                       p->msg->tag, (long long)p->msg->bytes, p->msg->peer,
                       w->base.rank);
    return TT_OK;
}

// Posted messages only leave when progress is called.
static tt_status progress(tt_comm *comm, bool *moved_out)
{
    *moved_out = false;
    return ((fault *)comm)->is_silent ? TT_OK
                                      : tt__wrap_progress(comm, moved_out);
}

static void doze(tt_comm *comm, double seconds)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    if (((fault *)comm)->is_silent)
        (void)nanosleep(&pause, NULL);
    else
        tt__wrap_doze(comm, seconds);
}

static tt_link link_to(const tt_comm *comm, int32_t to)
{
    const tt_comm *below = ((const fault *)comm)->wrap.below;
    return below->def->link(below, to);
}

static tt_status wrap(tt_comm *below, tt_comm **comm_out)
{
    return tt_fault_open(below, "delay:seconds=0.0002,every=3", comm_out);
}

const tt_comm_def tt_comm_fault = {
    .name = "fault",
    .doc = "Around another: silence, delay, damage and slowness on purpose.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .wake = tt__wrap_wake,
    .idle = tt__wrap_idle,
    .abandon = tt__wrap_abandon,
    .alloc = tt__wrap_alloc,
    .link = link_to,
    .close = tt__wrap_close,
    .wrap = wrap,
};

tt_status tt_fault_check(const char *text, int32_t n_ranks)
{
    fault f = {.wrap.base.size = n_ranks};
    return parse(&f, text);
}

tt_status tt_fault_open(tt_comm *below, const char *text, tt_comm **comm_out)
{
    fault *f = tt_alloc(sizeof *f);
    if (f == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for faults");
    tt__wrap_init(&f->wrap, &tt_comm_fault, below);
    f->wrap.arrive = arrive;
    const tt_status status = parse(f, text);
    if (status != TT_OK) {
        tt_free(f);
        return status;
    }
    *comm_out = &f->wrap.base;
    return TT_OK;
}
