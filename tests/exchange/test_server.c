// Rules of servers, over the registry of clocks: what they promise, without numbers.

#include "base/arena.h"
#include "exchange/clock.h"
#include "exchange/drawn.h"
#include "policy/policy.h"
#include "policy/server.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { W = 5, PUSHES = 400 };

typedef struct trial {
    tt_arena *arena;
    tt_server server;
    tt_drawn drawn;
    int64_t n_applied, n_answers;
    int64_t oldest; // of applied gradients
    int64_t widest; // lead over the slowest of one that goes on
    uint64_t trace; // of all that was decided
    // What is applied as one: a list of pushes each.
    int64_t sizes[PUSHES];
} trial;

static const tt_drawn_rules uneven = {.workers = W,
                                      .seed = 7,
                                      .spread = 0.6,
                                      .jitter = 0.5,
                                      .pause = 0.1,
                                      .length = 4,
                                      .delay = 0.1};
static const tt_drawn_rules even = {.workers = W, .seed = 7};

static void note(trial *t, int64_t what)
{
    t->trace = (t->trace ^ (uint64_t)what) * UINT64_C(0x100000001b3);
}

static void begin(trial *t, const char *clock, double bound,
                  const tt_drawn_rules *pace)
{
    tt_server_rules rules = {
        .workers = pace->workers, .clock = tt_clock_find(clock), .reject = -1};
    memset(t, 0, sizeof *t);
    t->arena = tt_arena_create();
    CHECK_OK(tt_clock_bound(rules.clock, rules.workers, bound, &rules.bound));
    CHECK_OK(tt_server_init(&t->server, &rules, t->arena));
    CHECK_OK(tt_drawn_init(&t->drawn, pace, t->arena));
}

static void apply(trial *t)
{
    const tt_server *s = &t->server;
    for (int32_t i = 0; i < s->n_pending; i++) {
        const int64_t old = tt_server_staleness(s, &s->pending[i]);
        t->oldest = old > t->oldest ? old : t->oldest;
        note(t, s->pending[i].worker);
        note(t, s->pending[i].version);
    }
    t->sizes[s->version] = s->n_pending;
    t->n_applied += s->n_pending;
    note(t, -1);
    tt_server_applied(&t->server, 0.001);
}

static void answer(trial *t, int32_t worker)
{
    int64_t least = t->server.worker[0].pushed;
    for (int32_t i = 1; i < t->server.rules.workers; i++)
        if (t->server.worker[i].pushed < least)
            least = t->server.worker[i].pushed;
    const int64_t lead = t->server.worker[worker].pushed - least;
    t->widest = lead > t->widest ? lead : t->widest;
    t->n_answers++;
    note(t, -2 - worker);
    tt_drawn_begin(&t->drawn, worker);
}

// One delivery, and all that follows; false: all wait for each other.
static bool deliver(trial *t)
{
    int32_t slot = 0, who = 0;
    const int32_t worker = tt_drawn_next(&t->drawn);
    if (worker < 0)
        return false;
    (void)tt_server_deliver(&t->server, worker, &slot);
    for (;;) {
        switch (tt_server_next(&t->server, &who)) {
        case TT_SERVER_APPLY:
            apply(t);
            continue;
        case TT_SERVER_ANSWER:
            answer(t, who);
            continue;
        default:
            return true;
        }
    }
}

static void run(trial *t, int n)
{
    for (int i = 0; i < n; i++)
        CHECK(deliver(t));
}

static void end(trial *t)
{
    tt_arena_destroy(t->arena);
}

TEST(every_clock_goes_on_and_loses_no_gradient)
{
    int n = 0;
    const tt_clock_def *const *all = tt_clock_all(&n);
    for (int i = 0; i < n; i++) {
        trial t;
        begin(&t, all[i]->name, -1, &uneven);
        run(&t, PUSHES);
        CHECK(t.server.n_pushed == PUSHES);
        CHECK(t.n_applied + t.server.n_dropped + t.server.n_pending == PUSHES);
        CHECK(t.n_answers > PUSHES - 2 * W);
        CHECK(all[i]->doc != NULL);
        end(&t);
    }
}

// The choices of the setting are the registry, in its order.
TEST(the_setting_names_every_clock)
{
    const tt_opt *opt = tt_opt_find(tt_policy_find("ps")->options, "clock");
    char names[256] = "";
    int n = 0;
    const tt_clock_def *const *all = tt_clock_all(&n);
    for (int i = 0; i < n; i++) {
        strcat(names, i > 0 ? "|" : "");
        strcat(names, all[i]->name);
    }
    CHECK(strcmp(opt->choices, names) == 0);
}

static uint64_t trace_of(const char *clock, double bound,
                         const tt_drawn_rules *pace)
{
    trial t;
    begin(&t, clock, bound, pace);
    run(&t, PUSHES);
    const uint64_t trace = t.trace;
    end(&t);
    return trace;
}

TEST(ssp_without_lead_is_bsp_and_without_bound_async)
{
    CHECK(trace_of("ssp", 0, &uneven) == trace_of("bsp", -1, &uneven));
    CHECK(trace_of("ssp", 1e9, &uneven) == trace_of("async", -1, &uneven));
    CHECK(trace_of("ssp", 2, &uneven) != trace_of("async", -1, &uneven));
    CHECK(trace_of("softsync", W, &uneven) == trace_of("bsp", -1, &uneven));
    CHECK(trace_of("softsync", 1, &uneven) == trace_of("async", -1, &uneven));
    CHECK(trace_of("backup", 0, &uneven) == trace_of("bsp", -1, &uneven));
    CHECK(trace_of("quorum", W, &uneven) == trace_of("bsp", -1, &uneven));
    CHECK(trace_of("delay", 0, &uneven) == trace_of("bsp", -1, &uneven));
    CHECK(trace_of("delay", 1e9, &uneven) == trace_of("async", -1, &uneven));
    CHECK(trace_of("value", 1e9, &uneven) == trace_of("async", -1, &uneven));
    CHECK(trace_of("essp", 1e9, &uneven) == trace_of("async", -1, &uneven));
    CHECK(trace_of("absp", W, &uneven) == trace_of("bsp", -1, &uneven));
}

// With ssp a gradient whose worker is held waits with it; with essp it is an update at once,
// and weights are there a message sooner.
TEST(an_eager_server_holds_no_gradient)
{
    tt_drawn_rules pace = uneven;
    trial ssp, essp;
    bool has_held = false;
    pace.is_eager = true;
    begin(&ssp, "ssp", 1, &uneven);
    begin(&essp, "essp", 1, &pace);
    for (int i = 0; i < PUSHES; i++) {
        CHECK(deliver(&ssp) && deliver(&essp));
        has_held = has_held || ssp.server.n_pending > 0;
        CHECK(essp.server.n_pending == 0);
    }
    CHECK(has_held);
    CHECK(essp.widest <= 1 && essp.drawn.now < ssp.drawn.now);
    CHECK(essp.server.version == PUSHES && ssp.server.version < PUSHES);
    end(&ssp);
    end(&essp);
}

TEST(stragglers_give_what_they_have)
{
    trial t;
    int32_t slot = 0, hurried = 0;
    begin(&t, "absp", 2, &uneven);
    run(&t, 1);
    CHECK(!tt_clock_is_hurried(&t.server));
    run(&t, 1);
    CHECK(tt_clock_is_hurried(&t.server));
    for (int32_t i = 0; i < W; i++) {
        if (t.server.worker[i].is_waiting)
            continue;
        const double now = t.drawn.now, due = t.drawn.worker[i].due;
        const double part = tt_drawn_hurry(&t.drawn, i);
        CHECK(part > 0 && part < 1 && now == t.drawn.now && due > now);
        (void)tt_server_deliver(&t.server, i, &slot);
        hurried++;
    }
    CHECK(hurried == W - 2);
    CHECK(tt_server_next(&t.server, &slot) == TT_SERVER_APPLY);
    end(&t);
}

TEST(staleness_of_even_workers_is_one_less_than_they_are)
{
    trial t;
    begin(&t, "async", -1, &even);
    run(&t, PUSHES);
    // The first round has 0, 1, ..., W - 1; all later ones W - 1.
    const double first = W * (W - 1) / 2.0;
    CHECK_CLOSE(tt_server_mean_staleness(&t.server),
                (first + (PUSHES - W) * (W - 1.0)) / PUSHES, 1e-12);
    CHECK(t.oldest == W - 1);
    end(&t);
}

TEST(bounds_hold)
{
    for (int bound = 0; bound < 4; bound++) {
        trial t;
        begin(&t, "ssp", bound, &uneven);
        run(&t, PUSHES);
        CHECK(t.widest <= bound);
        end(&t);
        begin(&t, "delay", bound, &uneven);
        run(&t, PUSHES);
        CHECK(t.oldest <= bound);
        end(&t);
    }
}

TEST(backup_drops_what_is_late_and_quorum_keeps_it)
{
    trial t;
    begin(&t, "backup", 2, &uneven);
    run(&t, PUSHES);
    CHECK(t.server.n_dropped > 0);
    CHECK(t.oldest == 0);
    for (int64_t v = 0; v < t.server.version; v++)
        CHECK(t.sizes[v] == W - 2);
    end(&t);
    begin(&t, "quorum", W - 2, &uneven);
    run(&t, PUSHES);
    CHECK(t.server.n_dropped == 0);
    CHECK(t.oldest > 0);
    end(&t);
}

TEST(a_saved_server_goes_on_as_if_it_had_not_stopped)
{
    int n = 0;
    const tt_clock_def *const *all = tt_clock_all(&n);
    for (int i = 0; i < n; i++) {
        trial one, two;
        double server[512], drawn[4096];
        begin(&one, all[i]->name, -1, &uneven);
        begin(&two, all[i]->name, -1, &uneven);
        CHECK(tt_server_count(&one.server.rules) <= 512);
        CHECK(tt_drawn_count(&uneven) <= 4096);
        run(&one, 133);
        tt_server_save(&one.server, server);
        tt_drawn_save(&one.drawn, drawn);
        CHECK_OK(tt_server_load(&two.server, server));
        CHECK_OK(tt_drawn_load(&two.drawn, drawn));
        one.trace = two.trace = 0;
        run(&one, 100);
        run(&two, 100);
        CHECK(one.trace == two.trace);
        CHECK(memcmp(one.server.histogram, two.server.histogram,
                     sizeof one.server.histogram) == 0);
        end(&one);
        end(&two);
    }
}

// Every number of a saved server, made into what it cannot be.
TEST(numbers_that_no_server_has_are_refused)
{
    static const double wrong[] = {(double)NAN, (double)INFINITY, -1, 0.5,
                                   1e18};
    trial t;
    double good[512], bad[512];
    begin(&t, "softsync", 3, &uneven);
    run(&t, 133);
    while (t.server.n_pending == 0)
        run(&t, 1);
    tt_server_save(&t.server, good);
    const int64_t of_push = 4, rest = (int64_t)W * 2 * of_push;
    const int64_t n =
        tt_server_count(&t.server.rules) - rest + t.server.n_pending * of_push;
    const int64_t workers = 4 + TT_STALENESS_BINS;
    for (int64_t at = 0; at < n; at++)
        for (int i = 0; i < 5; i++) {
            const bool is_distance =
                at >= workers && at < workers + (int64_t)W * 7 &&
                (at - workers) % 7 == 4; // any that is finite and not below 0
            if (is_distance && i >= 3)
                continue;
            memcpy(bad, good, sizeof bad);
            bad[at] = wrong[i];
            CHECK_MSG(tt_server_load(&t.server, bad) == TT_ERR_ARG,
                      "number %lld as %g", (long long)at, wrong[i]);
        }
    CHECK_OK(tt_server_load(&t.server, good));
    end(&t);
}

// Counts that are whole but not what their parts add up to, two gradients in one slot, one
// of the future.
TEST(sums_that_do_not_add_up_are_refused)
{
    trial t;
    double good[512], bad[512];
    begin(&t, "softsync", 4, &uneven);
    run(&t, 133);
    while (t.server.n_pending < 2)
        run(&t, 1);
    tt_server_save(&t.server, good);
    const int64_t push = tt_server_count(&t.server.rules) - (int64_t)W * 8;
    const int64_t worker = 4 + TT_STALENESS_BINS;
    const struct {
        int64_t at;
        double by;
    } wrong[] = {{1, 1},          {2, 1},          {3, -1},
                 {4, 1},          {worker, 1},     {worker + 1, 1e6},
                 {worker + 3, 1}, {worker + 6, 1}, {push, W},
                 {push + 2, 1e6}, {push + 3, 1e6}};
    for (int i = 0; i < (int)(sizeof wrong / sizeof wrong[0]); i++) {
        memcpy(bad, good, sizeof bad);
        bad[wrong[i].at] += wrong[i].by;
        CHECK_MSG(tt_server_load(&t.server, bad) == TT_ERR_ARG, "number %lld",
                  (long long)wrong[i].at);
    }
    memcpy(bad, good, sizeof bad);
    bad[push + 5] = bad[push + 1];
    CHECK(tt_server_load(&t.server, bad) == TT_ERR_ARG);
    end(&t);
}

TEST(times_that_no_worker_has_are_refused)
{
    static double good[4096], bad[4096];
    trial t;
    begin(&t, "async", -1, &uneven);
    run(&t, 133);
    tt_drawn_save(&t.drawn, good);
    for (int64_t at = 0; at < tt_drawn_count(&uneven); at++) {
        memcpy(bad, good, sizeof bad);
        bad[at] = (double)NAN;
        CHECK(tt_drawn_load(&t.drawn, bad) == TT_ERR_ARG);
        bad[at] = -2;
        const bool is_bar = at > 1 + W * 5; // sums of differences
        CHECK(is_bar || tt_drawn_load(&t.drawn, bad) == TT_ERR_ARG);
    }
    memcpy(bad, good, sizeof bad);
    bad[3] += 0.5; // a worker's number
    CHECK(tt_drawn_load(&t.drawn, bad) == TT_ERR_ARG);
    CHECK_OK(tt_drawn_load(&t.drawn, good));
    end(&t);
}

// One of four at half speed: who waits for it falls to its pace. A lead of 3 is used up
// soon, so ssp does too.
TEST(only_clocks_that_wait_fall_to_the_slowest)
{
    static const double speed[] = {1, 1, 1, 0.5};
    static const struct {
        const char *clock;
        double bound, least, most; // part of the sum of speeds that is used
    } kept[] = {{"bsp", -1, 0.57, 0.58},
                {"ssp", 3, 0.57, 0.60},
                {"async", -1, 0.99, 1.01},
                {"backup", 1, 0.84, 0.87},
                {"quorum", 3, 0.97, 1.01}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const tt_drawn_rules pace = {.workers = 4, .speed = speed};
        trial t;
        begin(&t, kept[i].clock, kept[i].bound, &pace);
        run(&t, PUSHES);
        const double used = (double)t.n_applied / t.drawn.now / 3.5;
        CHECK_MSG(used >= kept[i].least && used <= kept[i].most,
                  "%s uses %.3f of the speeds", kept[i].clock, used);
        end(&t);
    }
}

TEST(bounds_without_a_meaning_are_refused)
{
    double bound = 0;
    CHECK(tt_clock_bound(tt_clock_find("bsp"), 4, 1, &bound) == TT_ERR_ARG);
    CHECK(tt_clock_bound(tt_clock_find("ssp"), 4, 0.5, &bound) == TT_ERR_ARG);
    CHECK(tt_clock_bound(tt_clock_find("softsync"), 4, 5, &bound) ==
          TT_ERR_ARG);
    CHECK(tt_clock_bound(tt_clock_find("backup"), 4, 4, &bound) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "from 0 to 3") != NULL);
    CHECK(tt_clock_bound(tt_clock_find("quorum"), 4, 0, &bound) == TT_ERR_ARG);
}
