// Transports around another: the same results, later, or damaged and noticed.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/coll/coll.h"
#include "comm/transport/parcel.h"
#include "comm/transport/shm.h"
#include "comm/transport/transport.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_RANKS = 4 };

// Ranks as threads; what `wrap` makes of each one's transport is used.
typedef tt_status wrap_fn(tt_comm *below, const void *how, tt_comm **out);
typedef tt_status rank_fn(tt_comm *comm, void *user);

typedef struct cast {
    int32_t n;
    double deadline;
    wrap_fn *wrap;
    const void *how;
    rank_fn *fn;
    void *user;
} cast;

typedef struct actor {
    tt_comm *comm;
    const cast *cast;
    tt_status status;
    char message[256];
} actor;

static void *act(void *user)
{
    actor *a = user;
    a->status = a->cast->fn(a->comm, a->cast->user);
    if (a->status != TT_OK)
        snprintf(a->message, sizeof a->message, "%s", tt_error_message());
    return NULL;
}

static void play(const cast *c, actor actors[MAX_RANKS])
{
    tt_shm_world *world = NULL;
    pthread_t thread[MAX_RANKS];
    CHECK_OK(tt_shm_world_create(c->n, 1 << 22, &world));
    for (int32_t i = 0; i < c->n; i++) {
        tt_comm *below = NULL;
        actors[i] = (actor){.cast = c};
        CHECK_OK(tt_shm_open(world, i, c->deadline, &below));
        CHECK_OK(c->wrap(below, c->how, &actors[i].comm));
    }
    for (int32_t i = 0; i < c->n; i++)
        CHECK(pthread_create(&thread[i], NULL, act, &actors[i]) == 0);
    for (int32_t i = 0; i < c->n; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    for (int32_t i = 0; i < c->n; i++)
        tt_comm_close(actors[i].comm);
    tt_shm_world_destroy(world);
}

static tt_status wrap_slow(tt_comm *below, const void *how, tt_comm **out)
{
    return tt_slow_open(below, how, out);
}

static tt_status wrap_fault(tt_comm *below, const void *how, tt_comm **out)
{
    return tt_fault_open(below, how, out);
}

static tt_status wrap_trace(tt_comm *below, const void *how, tt_comm **out)
{
    return tt_comm_trace_open(below, *(const int *)how, out);
}

typedef struct sum_user {
    const char *algorithm;
    int64_t count;
    double seconds[MAX_RANKS];
} sum_user;

static tt_status sum_up(tt_comm *comm, void *user)
{
    sum_user *u = user;
    static _Thread_local float data[100000], scratch[100000];
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = {.n = comm->size, .me = comm->rank},
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = u->count,
                               .in = data,
                               .out = data,
                               .scratch = scratch};
    for (int64_t i = 0; i < u->count; i++)
        data[i] = (float)(i % 100 + comm->rank);
    const double start = tt_clock_seconds();
    TT_TRY(tt_coll_run(tt_coll_find(u->algorithm), comm, &call));
    u->seconds[comm->rank] = tt_clock_seconds() - start;
    for (int64_t i = 0; i < u->count; i++) {
        const int64_t n = comm->size;
        if (data[i] != (float)(n * (i % 100) + n * (n - 1) / 2))
            return tt_fail(TT_ERR_STATE, "element %lld is wrong", (long long)i);
    }
    return TT_OK;
}

static double longest(const sum_user *u, int32_t n)
{
    double most = 0;
    for (int32_t i = 0; i < n; i++)
        most = u->seconds[i] > most ? u->seconds[i] : most;
    return most;
}

// The time must never be shorter; on a busy machine it is enough that it is not
// longer once.
static void check_time(const cast *c, double least, double most)
{
    double best = 1e9;
    for (int k = 0; k < 5 && best > most; k++) {
        actor actors[MAX_RANKS];
        sum_user *u = c->user;
        play(c, actors);
        for (int32_t i = 0; i < c->n; i++)
            CHECK_MSG(actors[i].status == TT_OK, "%s", actors[i].message);
        const double seconds = longest(u, c->n);
        CHECK_MSG(seconds > least, "%d ranks: %g s, not %g", c->n, seconds,
                  least);
        best = seconds < best ? seconds : best;
    }
    CHECK_MSG(best < most || TT_TEST_SANITIZED, "%d ranks: %g s, not %g", c->n,
              best, most);
}

TEST(slow_takes_the_time_of_its_link)
{
    // 400 kB at 4 MB/s: the ring sends 2 (n - 1) / n of it.
    const tt_slow_options how = {.rate = 4e6, .latency = 1e-3};
    for (int32_t n = 2; n <= 4; n++) {
        sum_user u = {.algorithm = "ring", .count = 100000};
        const cast c = {n, 30, wrap_slow, &how, sum_up, &u};
        const double rounds = 2.0 * (n - 1);
        const double want = rounds * (4e5 / n / 4e6 + 1e-3);
        check_time(&c, 0.97 * want, 1.5 * want + 0.05);
    }
}

TEST(slow_links_carry_one_message_at_a_time)
{
    // Two others send 400 kB each to the root, whose link is as slow as theirs, and
    // get as much back from it: four times 0.1 s one after another.
    const tt_slow_options how = {.rate = 4e6};
    sum_user u = {.algorithm = "naive", .count = 100000};
    const cast c = {3, 30, wrap_slow, &how, sum_up, &u};
    check_time(&c, 0.32, 0.6);
}

static tt_status send_and_go_on(tt_comm *comm, void *user)
{
    double *seconds = user;
    char data[1000] = {0};
    const double start = tt_clock_seconds(), cpu = (double)clock();
    tt_msg msg = {.peer = 1 - comm->rank, .data = data, .bytes = sizeof data};
    TT_TRY(comm->rank == 0 ? tt_comm_swap(comm, &msg, NULL)
                           : tt_comm_swap(comm, NULL, &msg));
    seconds[comm->rank] = tt_clock_seconds() - start;
    seconds[2 + comm->rank] = ((double)clock() - cpu) / CLOCKS_PER_SEC;
    return TT_OK;
}

TEST(slow_lets_the_sender_go_on_and_the_receiver_sleep)
{
    const tt_slow_options how = {.rate = 1e6, .latency = 0.3};
    double best = 1e9;
    for (int k = 0; k < 5 && best > 0.1; k++) {
        actor actors[MAX_RANKS];
        double seconds[4] = {0};
        // The deadline is shorter: a message on its way is no silence.
        const cast c = {2, 0.2, wrap_slow, &how, send_and_go_on, seconds};
        play(&c, actors);
        CHECK_MSG(actors[1].status == TT_OK, "%s", actors[1].message);
        CHECK_MSG(seconds[1] > 0.2, "it took %g s", seconds[1]);
        CHECK_MSG(seconds[3] < 0.2, "the wait took %g s of CPU", seconds[3]);
        best = seconds[0] < best ? seconds[0] : best;
    }
    CHECK_MSG(best < 0.1 || TT_TEST_SANITIZED, "the sender waited %g s", best);
}

TEST(fault_without_rules_changes_nothing)
{
    actor actors[MAX_RANKS];
    sum_user u = {.algorithm = "halving", .count = 1009};
    const cast c = {3, 30, wrap_fault, "", sum_up, &u};
    play(&c, actors);
    for (int32_t i = 0; i < 3; i++)
        CHECK_MSG(actors[i].status == TT_OK, "%s", actors[i].message);
}

TEST(fault_damage_is_noticed_wherever_it_is)
{
    static const char *const faults[] = {"corrupt:rank=1,after=0",
                                         "corrupt:rank=1,after=1,bit=12345",
                                         "corrupt:rank=1,after=3,bit=31"};
    for (int k = 0; k < 3; k++) {
        actor actors[MAX_RANKS];
        sum_user u = {.algorithm = "ring", .count = 1009};
        const cast c = {3, 0.5, wrap_fault, faults[k], sum_up, &u};
        play(&c, actors);
        CHECK_MSG(strstr(actors[2].message, "from rank 1 came to rank 2 "
                                            "damaged") != NULL,
                  "%s: %s", faults[k], actors[2].message);
        CHECK(actors[2].status == TT_ERR_PEER);
    }
}

TEST(fault_silence_ends_waits_at_the_deadline)
{
    actor actors[MAX_RANKS];
    sum_user u = {.algorithm = "ring", .count = 1009};
    const cast c = {3, 0.3, wrap_fault, "drop:rank=2,after=1", sum_up, &u};
    const double start = tt_clock_seconds();
    play(&c, actors);
    CHECK(tt_clock_seconds() - start < 3);
    for (int32_t i = 0; i < 3; i++)
        CHECK(actors[i].status == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(actors[0].message, "for rank 2") != NULL, "%s",
              actors[0].message);
}

TEST(fault_delays_and_slows)
{
    static const struct {
        const char *text;
        double least;
    } cases[] = {{"delay:rank=1,seconds=0.2", 0.2},
                 {"slow:rank=0,rate=1e4", 1009 * 4 / 3.0 / 1e4},
                 {"delay:rank=0,after=1,seconds=0.1;delay:rank=0,after=3,"
                  "seconds=0.2",
                  0.2}};
    for (int k = 0; k < 3; k++) {
        actor actors[MAX_RANKS];
        sum_user u = {.algorithm = "ring", .count = 1009};
        const cast c = {3, 30, wrap_fault, cases[k].text, sum_up, &u};
        play(&c, actors);
        for (int32_t i = 0; i < 3; i++)
            CHECK_MSG(actors[i].status == TT_OK, "%s", actors[i].message);
        CHECK_MSG(longest(&u, 3) > cases[k].least, "%s: %g s", cases[k].text,
                  longest(&u, 3));
    }
}

TEST(fault_refuses_what_it_does_not_know)
{
    static const char *const wrong[][2] = {
        {"break:rank=1", "not drop"},        {"drop:rang=1", "rank"},
        {"drop:rank=5", "2 ranks"},          {"delay:seconds=x", "seconds"},
        {"drop:rank=1;nothing", "not drop"},
    };
    tt_shm_world *world = NULL;
    tt_comm *below = NULL, *comm = NULL;
    CHECK_OK(tt_shm_world_create(2, 0, &world));
    CHECK_OK(tt_shm_open(world, 0, 1, &below));
    for (int i = 0; i < 5; i++) {
        CHECK(tt_fault_open(below, wrong[i][0], &comm) == TT_ERR_ARG);
        CHECK_MSG(strstr(tt_error_message(), wrong[i][1]) != NULL, "%s",
                  tt_error_message());
    }
    tt_comm_close(below);
    tt_shm_world_destroy(world);
}

static tt_status sum_and_look(tt_comm *comm, void *user)
{
    TT_TRY(sum_up(comm, user));
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = {.n = comm->size, .me = comm->rank},
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = ((sum_user *)user)->count};
    const tt_coll_cost cost =
        tt_coll_find("ring")->way[TT_ALL_REDUCE].cost(&call);
    int64_t n = 0, messages = 0, bytes = 0;
    double last = 0;
    for (int64_t i = 0; i == 0 || i < n; i++) {
        const tt_comm_trace_event *e = tt_comm_trace_event_of(comm, i, &n);
        messages += e->is_send;
        bytes += e->is_send ? e->bytes : 0;
        const int32_t peer = e->is_send ? comm->rank + 1 : comm->rank + 2;
        if (e->posted < last || e->done < e->posted || e->number != i ||
            e->peer != peer % 3)
            return tt_fail(TT_ERR_STATE, "message %lld makes no sense",
                           (long long)i);
        last = e->posted;
    }
    if (messages != cost.messages || bytes != cost.bytes ||
        n != 2 * cost.messages)
        return tt_fail(TT_ERR_STATE, "%lld messages, %lld bytes",
                       (long long)messages, (long long)bytes);
    return TT_OK;
}

TEST(trace_keeps_every_message)
{
    actor actors[MAX_RANKS];
    const int capacity = 100;
    sum_user u = {.algorithm = "ring", .count = 1009};
    const cast c = {3, 30, wrap_trace, &capacity, sum_and_look, &u};
    play(&c, actors);
    for (int32_t i = 0; i < 3; i++)
        CHECK_MSG(actors[i].status == TT_OK, "%s", actors[i].message);
}

TEST(trace_keeps_the_newest)
{
    tt_comm *below = NULL, *comm = NULL;
    int64_t n = 0;
    CHECK_OK(tt_self_open(1, &below));
    CHECK_OK(tt_comm_trace_open(below, 4, &comm));
    for (int i = 0; i < 5; i++) {
        int32_t from = i, to = -1;
        tt_msg out = {.tag = i, .data = &from, .bytes = sizeof from};
        tt_msg in = {.tag = i, .data = &to, .bytes = sizeof to};
        CHECK_OK(tt_comm_swap(comm, &out, &in));
        CHECK(to == i);
    }
    CHECK(tt_comm_trace_event_of(comm, 0, &n)->number == 6);
    CHECK(n == 4 && tt_comm_trace_event_of(comm, 4, &n) == NULL);
    CHECK(tt_comm_trace_event_of(below, 0, &n) == NULL && n == 0);
    tt_comm_close(comm);
}

TEST(self_refuses_to_wait_for_nothing)
{
    tt_comm *comm = NULL;
    char byte = 0;
    CHECK_OK(tt_self_open(30, &comm));
    tt_msg in = {.data = &byte, .bytes = 1}, out = {.data = &byte};
    CHECK(tt_comm_swap(comm, NULL, &in) == TT_ERR_STATE);
    CHECK(tt_comm_swap(comm, &out, &in) == TT_ERR_STATE);
    tt_comm_close(comm);
}

TEST(slow_works_alone)
{
    const tt_slow_options how = {.rate = 1e4};
    tt_comm *below = NULL, *comm = NULL;
    char from[1000] = "alone", to[1000];
    CHECK_OK(tt_self_open(30, &below));
    CHECK_OK(tt_slow_open(below, &how, &comm));
    tt_msg out = {.data = from, .bytes = sizeof from};
    tt_msg in = {.data = to, .bytes = sizeof to};
    const double start = tt_clock_seconds();
    CHECK_OK(tt_comm_swap(comm, &out, &in));
    CHECK(tt_clock_seconds() - start > 0.1 && strcmp(to, "alone") == 0);
    tt_comm_close(comm);
}

// ---- the least that a wrapper is -----------------------------------------

static const double later = 0.05;

static tt_status least_send(tt_comm *comm, tt_msg *msg)
{
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new((tt__wrap *)comm, msg, true, false, &p));
    p->note.due = tt_clock_seconds() + later;
    return tt__parcel_post((tt__wrap *)comm, p);
}

static tt_status least_receive(tt_comm *comm, tt_msg *msg)
{
    tt__parcel *p = NULL;
    TT_TRY(tt__parcel_new((tt__wrap *)comm, msg, false, false, &p));
    return tt__parcel_post((tt__wrap *)comm, p);
}

TEST(a_wrapper_need_not_look_at_what_arrives)
{
    static const tt_comm_def least = {.name = "least",
                                      .send = least_send,
                                      .receive = least_receive,
                                      .progress = tt__wrap_progress,
                                      .doze = tt__wrap_doze,
                                      .idle = tt__wrap_idle,
                                      .abandon = tt__wrap_abandon,
                                      .alloc = tt__wrap_alloc,
                                      .close = tt__wrap_close};
    tt_comm *below = NULL;
    tt__wrap *w = tt_alloc(sizeof *w);
    CHECK(w != NULL);
    CHECK_OK(tt_self_open(30, &below));
    tt__wrap_init(w, &least, below);
    int32_t from = 7, to = 0;
    tt_msg out = {.data = &from, .bytes = sizeof from};
    tt_msg in = {.data = &to, .bytes = sizeof to};
    const double start = tt_clock_seconds();
    CHECK_OK(tt_comm_swap(&w->base, &out, &in));
    CHECK(to == 7 && tt_clock_seconds() - start >= later);
    tt_comm_close(&w->base);
}
