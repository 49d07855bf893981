// law_transport - every transport keeps the promises of comm/comm.h.
//
// Collectives and the wire are written with messages only, so they are right on a new
// transport if this holds. Ranks are threads over the shared-memory transport, bare or
// wrapped in the member, or the ranks of a launcher over theirs:
//
//   bytes    what is received is what was sent, and nothing after it is written; no
//            byte, one, an odd number, and more than a piece of any transport
//   order    messages to one peer that are under way together arrive in the order of
//            their sending
//   fold     a receive that adds leaves the sum
//   stats    messages and bytes are counted as they are posted
//   refusal  another tag or length than the receiver expects fails, and does not hang
//
// A wrapper is opened by `wrap` of its def. A transport that is none and that no rank
// of this process can open says in `tested_by` how it is tried.

#include "base/alloc.h"
#include "base/clock.h"
#include "check/law.h"
#include "check/rank_threads.h"
#include "comm/coll/coll.h"
#include "comm/transport/transport.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_RANKS = 4,
    N_SIZES = 5,
    N_QUEUED = 8,
    GUARD = 64,
    UNTOUCHED = 0x5a
};
static const int64_t sizes[N_SIZES] = {0, 1, 17, 65537, 2500003};
static const double deadline = 20;

// What one rank finds. The threads of a world have one each.
typedef struct look {
    tt_law_report report;
    const char *name; // of the transport
    tt_comm *comm;
    char *out, *in; // room for the largest size and a guard
} look;

#define CHECK(l, holds, what)                                                  \
    tt_law_report_check(&(l)->report, holds,                                   \
                        "transport %s: rank %d of %d: %s", (l)->name,          \
                        (l)->comm->rank, (l)->comm->size, what)

static char byte_of(int32_t from, int64_t message, int64_t i)
{
    return (char)(from * INT64_C(31) + message * 7 + i + i / 251);
}

static int32_t right(const tt_comm *comm)
{
    return (comm->rank + 1) % comm->size;
}

static int32_t left(const tt_comm *comm)
{
    return (comm->rank + comm->size - 1) % comm->size;
}

static void fill(look *l, char *data, int64_t message, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = byte_of(l->comm->rank, message, i);
}

static bool is_from_left(const look *l, const char *data, int64_t message,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (data[i] != byte_of(left(l->comm), message, i))
            return false;
    return true;
}

// ---- what holds ------------------------------------------------------------

static tt_status check_bytes(look *l)
{
    const int64_t before[] = {l->comm->stats.sent_messages,
                              l->comm->stats.sent_bytes};
    int64_t total = 0;
    for (int k = 0; k < N_SIZES; k++) {
        const int64_t n = sizes[k];
        tt_msg out = {
            .peer = right(l->comm), .tag = k, .data = l->out, .bytes = n};
        tt_msg in = {
            .peer = left(l->comm), .tag = k, .data = l->in, .bytes = n};
        fill(l, l->out, k, n);
        memset(l->in, UNTOUCHED, (size_t)(n + GUARD));
        TT_TRY(tt_comm_swap(l->comm, &out, &in));
        CHECK(l, is_from_left(l, l->in, k, n), "other bytes than were sent");
        bool is_clean = true;
        for (int64_t i = n; i < n + GUARD; i++)
            is_clean = is_clean && l->in[i] == UNTOUCHED;
        CHECK(l, is_clean, "writes after the end of a message");
        total += n;
    }
    CHECK(l,
          l->comm->stats.sent_messages - before[0] == N_SIZES &&
              l->comm->stats.sent_bytes - before[1] == total,
          "stats do not count what was sent");
    return TT_OK;
}

static tt_status check_order(look *l)
{
    enum { EACH = 1024 };
    tt_msg out[N_QUEUED], in[N_QUEUED], *all[2 * N_QUEUED];
    for (int k = 0; k < N_QUEUED; k++) {
        const int64_t n = EACH - 100 * (k % 3);
        out[k] = (tt_msg){.peer = right(l->comm),
                          .tag = 40 + k,
                          .data = l->out + (int64_t)k * EACH,
                          .bytes = n};
        in[k] = (tt_msg){.peer = left(l->comm),
                         .tag = 40 + k,
                         .data = l->in + (int64_t)k * EACH,
                         .bytes = n};
        fill(l, out[k].data, 40 + k, n);
        all[k] = &out[k];
        all[N_QUEUED + k] = &in[k];
    }
    for (int k = 0; k < N_QUEUED; k++) {
        TT_TRY(tt_comm_receive(l->comm, &in[k]));
        TT_TRY(tt_comm_send(l->comm, &out[k]));
    }
    TT_TRY(tt_comm_wait(l->comm, all, 2 * N_QUEUED));
    for (int k = 0; k < N_QUEUED; k++)
        CHECK(l, is_from_left(l, in[k].data, 40 + k, in[k].bytes),
              "messages arrive in another order than they were sent in");
    return TT_OK;
}

static tt_status check_fold(look *l)
{
    enum { N = 1001 };
    int32_t *mine = (int32_t *)(void *)l->out, *sum = (int32_t *)(void *)l->in;
    tt_msg out = {.peer = right(l->comm),
                  .tag = 3,
                  .data = mine,
                  .bytes = sizeof(int32_t) * N};
    tt_msg in = {.peer = left(l->comm),
                 .tag = 3,
                 .data = sum,
                 .bytes = sizeof(int32_t) * N,
                 .fold = {TT_FOLD_SUM, TT_NUM_I32}};
    bool is_sum = true;
    for (int i = 0; i < N; i++) {
        mine[i] = 1000 * l->comm->rank + i;
        sum[i] = 5 * i;
    }
    TT_TRY(tt_comm_swap(l->comm, &out, &in));
    for (int i = 0; i < N; i++)
        is_sum = is_sum && sum[i] == 1000 * left(l->comm) + 6 * i;
    CHECK(l, is_sum, "a receive that adds does not leave the sum");
    return TT_OK;
}

// Nothing is posted any more: before long nothing moves, and that is said.
static tt_status check_rest(look *l)
{
    const double until = tt_clock_seconds() + deadline;
    bool moved = true;
    while (moved && tt_clock_seconds() < until) {
        moved = true;
        TT_TRY(l->comm->def->progress(l->comm, &moved));
    }
    CHECK(l, !moved, "says without end that something moved");
    return TT_OK;
}

static tt_status check_all(look *l)
{
    TT_TRY(check_bytes(l));
    TT_TRY(check_order(l));
    TT_TRY(check_fold(l));
    return check_rest(l);
}

// Rank 1 expects another message than rank 0 sends. How rank 0 fares is open.
static tt_status check_refusal(look *l, bool is_length)
{
    tt_msg msg = {.peer = 1 - l->comm->rank,
                  .tag = 1,
                  .data = l->comm->rank == 0 ? l->out : l->in,
                  .bytes = 64};
    tt_msg *all[] = {&msg};
    const bool is_receiver = l->comm->rank == 1;
    if (is_receiver && is_length)
        msg.bytes = 48;
    else if (is_receiver)
        msg.tag = 2;
    tt_status status = is_receiver ? tt_comm_receive(l->comm, &msg)
                                   : tt_comm_send(l->comm, &msg);
    if (status == TT_OK)
        status = tt_comm_wait(l->comm, all, 1);
    if (is_receiver)
        CHECK(l, status != TT_OK,
              is_length ? "takes a message of another length"
                        : "takes a message with another tag");
    return TT_OK;
}

// ---- worlds ----------------------------------------------------------------

typedef struct world {
    look rank[MOST_RANKS];
    int refusal; // 0: none; 1: of a tag; 2: of a length
} world;

static tt_status look_at(tt_comm *comm, void *user)
{
    world *w = user;
    look *l = &w->rank[comm->rank];
    const int64_t bytes = sizes[N_SIZES - 1] + GUARD;
    l->comm = comm;
    l->out = tt_alloc(bytes);
    l->in = tt_alloc(bytes);
    tt_status status = l->out == NULL || l->in == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a law")
                       : w->refusal > 0 ? check_refusal(l, w->refusal == 2)
                                        : check_all(l);
    tt_free(l->out);
    tt_free(l->in);
    return status;
}

static void add(tt_law_report *r, world *w)
{
    for (int i = 0; i < MOST_RANKS; i++) {
        tt_law_report *part = &w->rank[i].report;
        r->n_checks += part->n_checks;
        r->n_failed += part->n_failed;
        tt_str_add(&r->failures, tt_str_text(&part->failures));
        tt_law_report_fini(part);
    }
}

// `n` ranks over a transport of this process.
static void check_world(tt_law_report *r, const tt_comm_def *def, int32_t n,
                        int refusal)
{
    world w = {.refusal = refusal};
    tt_comm *alone = NULL;
    for (int i = 0; i < MOST_RANKS; i++)
        w.rank[i].name = def->name;
    tt_status status = TT_OK;
    if (strcmp(def->name, "self") == 0) {
        status = tt_self_open(deadline, &alone);
        if (status == TT_OK)
            status = look_at(alone, &w);
        tt_comm_close(alone);
    } else {
        status = tt_rank_threads_run_over(def, n, look_at, &w);
    }
    add(r, &w);
    if (status != TT_OK)
        tt_law_report_check(r, false, "transport %s on %d ranks: %s", def->name,
                            n, tt_error_message());
}

static void check_transport(tt_law_report *r, const tt_comm_def *def)
{
    const bool is_self = strcmp(def->name, "self") == 0;
    const bool is_here =
        is_self || def->wrap != NULL || strcmp(def->name, "shm") == 0;
    const int32_t most = r->most_ranks > 0 && r->most_ranks < MOST_RANKS
                             ? r->most_ranks
                             : MOST_RANKS;
    tt_law_report_check(r, is_here || def->tested_by != NULL,
                        "transport %s: the law cannot open it: give its def "
                        "`wrap`, or `tested_by`",
                        def->name);
    for (int32_t n = is_self ? 1 : 2; is_here && n <= (is_self ? 1 : most); n++)
        check_world(r, def, n, 0);
    for (int refusal = 1; refusal < 3 && is_here && !is_self && most >= 2;
         refusal++)
        check_world(r, def, 2, refusal);
}

// ---- the law ---------------------------------------------------------------

// Ranks of a launcher, over what they are connected by.
static tt_status run_together(tt_law_report *r)
{
    look l = {.name = r->comm->def->name, .comm = r->comm};
    const int64_t bytes = sizes[N_SIZES - 1] + GUARD;
    l.out = tt_alloc(bytes);
    l.in = tt_alloc(bytes);
    tt_status status = l.out == NULL || l.in == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a law")
                           : check_all(&l);
    tt_free(l.out);
    tt_free(l.in);
    r->n_checks += l.report.n_checks;
    r->n_failed += l.report.n_failed;
    tt_str_add(&r->failures, tt_str_text(&l.report.failures));
    tt_law_report_fini(&l.report);
    TT_TRY(status);
    return tt_rank_threads_add_up(r);
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_comm_def *const *all = tt_comm_all(&n);
    if (r->comm != NULL)
        return run_together(r);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, all[i]->name))
            check_transport(r, all[i]);
    return TT_OK;
}

const tt_law_def tt_law_transport = {
    .name = "transport",
    .doc = "Every transport delivers what was sent, in order, or refuses.",
    .takes_ranks = true,
    .run = run,
};
