// Flights: when gradients leave, how much of that is hidden, how much memory
// gathered weights need, what a plan may not promise, and who goes first.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

typedef struct planned {
    tt_arena *arena;
    tt_job *job;
    tt_plan *plan; // the job's
} planned;

static planned make(const char *const *settings)
{
    planned p = {.arena = tt_arena_create()};
    tt_settings s = {0};
    CHECK_OK(tt_settings_assign(&s, "device=ref", "test", p.arena));
    for (; *settings != NULL; settings++)
        CHECK_OK(tt_settings_assign(&s, *settings, "test", p.arena));
    CHECK_OK(tt_job_configure(&s, NULL, &p.job));
    CHECK_OK(tt_job_plan(p.job));
    p.plan = p.job->plan;
    CHECK_OK(tt_plan_verify(p.plan));
    return p;
}

static void destroy(planned *p)
{
    tt_job_close(p->job);
    tt_arena_destroy(p->arena);
    CHECK(tt_alloc_live() == 0);
}

static const char *const small_gpt[] = {
    "model=gpt",     "model.layers=6", "model.width=64",
    "model.heads=4", "model.vocab=96", "model.context=32",
    "batch=8",       "mesh.data=4",    NULL};
static const char *const small_resnet[] = {
    "model=resnet", "model.depth=18", "model.width=8", "model.classes=10",
    "image=32",     "batch=8",        "mesh.data=2",   NULL};
static const char *const small_vgg[] = {
    "model=vgg",       "model.depth=11",   "model.width=8",
    "model.hidden=64", "model.classes=10", "image=32",
    "batch=8",         "mesh.data=2",      NULL};
static const char *const *const nets[] = {small_gpt, small_resnet, small_vgg};

static int32_t first_of(const tt_plan *plan, tt_phase phase)
{
    for (int32_t i = 0; i < plan->n_segments; i++)
        if (plan->segment[i].phase == phase)
            return plan->segment[i].first;
    return plan->n_steps;
}

static bool is_gradient(const tt_plan *plan, const tt_flight *flight)
{
    return flight->is_last_only && flight->bytes > 64 &&
           flight->begin <= first_of(plan, TT_UPDATE);
}

// ---- overlap -----------------------------------------------------------------

TEST(the_first_bucket_leaves_before_backward_is_half_done)
{
    for (int i = 0; i < 3; i++) {
        planned p = make(nets[i]);
        const double *clock = p.plan->clock;
        const int32_t from = first_of(p.plan, TT_BACKWARD);
        const double half =
            (clock[from] + clock[first_of(p.plan, TT_UPDATE)]) / 2;
        int32_t f = 0;
        while (!is_gradient(p.plan, &p.plan->flight[f]))
            f++;
        CHECK(p.plan->flight[f].begin > from);
        CHECK_MSG(clock[p.plan->flight[f].begin] < half, "%s: %d",
                  p.plan->flight[f].name, p.plan->flight[f].begin);
        destroy(&p);
    }
}

// What of the communication of gradients is left when backward is over, if all of
// it takes `share` of backward's time and the wire carries one after another.
static double exposed(const tt_plan *plan, double share)
{
    const double from = plan->clock[first_of(plan, TT_BACKWARD)];
    const double until = plan->clock[first_of(plan, TT_UPDATE)];
    double bytes = 0, free_at = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        if (is_gradient(plan, &plan->flight[f]))
            bytes += (double)plan->flight[f].bytes;
    const double all = share * (until - from);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (!is_gradient(plan, flight))
            continue;
        free_at = fmax(free_at, plan->clock[flight->begin]) +
                  all * (double)flight->bytes / bytes;
    }
    return fmax(0, free_at - until) / all;
}

TEST(little_communication_is_left_when_backward_is_over)
{
    for (int i = 0; i < 3; i++) {
        planned p = make(nets[i]);
        const double left = exposed(p.plan, 0.8);
        CHECK_MSG(left <= 0.1, "net %d: %g", i, left);
        destroy(&p);
    }
}

TEST(a_bucket_holds_what_it_may_and_is_one_message)
{
    const char *settings[12];
    memcpy(settings, small_gpt, sizeof(small_gpt));
    settings[9] = NULL;
    for (int i = 0; i < 2; i++) {
        settings[8] = i == 0 ? "exchange.bucket=30000" : "exchange.bucket=1";
        planned p = make(settings);
        int64_t all = 0;
        for (int32_t f = 0; f < p.plan->n_flights; f++) {
            const tt_flight *flight = &p.plan->flight[f];
            const int32_t last = p.plan->member[flight->first + flight->n - 1];
            CHECK(flight->is_joined && flight->is_last_only);
            // Without its last member it was not full.
            CHECK(flight->bytes - p.plan->step[last].moved_bytes <
                  (i == 0 ? 30000 : 1));
            CHECK(i == 0 || flight->n == 1);
            all += flight->bytes;
        }
        CHECK(all > p.plan->bytes_by_use[TT_USE_GRAD]); // tallies too
        // Gradients are summed where they lie.
        CHECK(p.plan->bytes_by_use[TT_USE_GRAD] ==
              p.plan->bytes_by_use[TT_USE_PARAM]);
        destroy(&p);
    }
}

// ---- ZeRO --------------------------------------------------------------------

static const char *const zero3[] = {"model=gpt",
                                    "model.layers=4",
                                    "model.width=64",
                                    "model.heads=4",
                                    "model.vocab=512",
                                    "model.context=32",
                                    "batch=8",
                                    "mesh.data=4",
                                    "zero=3",
                                    "accumulate=2",
                                    NULL};

static bool is_weight_gather(const tt_plan *plan, const tt_flight *flight)
{
    const tt_step *step = &plan->step[plan->member[flight->first]];
    return step->op == &tt_op_all_gather && step->phase != TT_UPDATE;
}

TEST(gathered_weights_are_no_more_than_two_layers)
{
    planned p = make(zero3);
    const tt_plan *plan = p.plan;
    int64_t first = 0, second = 0, most = 0;
    int n = 0, n_ahead = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (!is_weight_gather(plan, flight))
            continue;
        n++;
        n_ahead += flight->begin < plan->member[flight->first];
        second = flight->bytes > second ? flight->bytes : second;
        if (second > first) {
            const int64_t old = first;
            first = second;
            second = old;
        }
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int64_t alive = 0;
        for (int32_t f = 0; f < plan->n_flights; f++) {
            const tt_flight *flight = &plan->flight[f];
            for (int32_t i = 0; i < flight->n && is_weight_gather(plan, flight);
                 i++) {
                const int32_t g = plan->member[flight->first + i];
                const tt_buffer *b = &plan->buffer[plan->step[g].out[0].buffer];
                CHECK(b->class_ != TT_PERSISTENT);
                alive += b->first <= s && s <= b->last ? b->bytes : 0;
            }
        }
        most = alive > most ? alive : most;
    }
    CHECK(n > 40 && n_ahead > n * 3 / 4);
    CHECK_MSG(most <= first + second, "%lld > %lld + %lld", (long long)most,
              (long long)first, (long long)second);
    CHECK(most > first);
    destroy(&p);
}

static bool has_work(const tt_plan *plan, const tt_flight *flight)
{
    for (int32_t s = flight->begin; s < flight->end; s++)
        if (plan->step[s].choice.kernel != NULL)
            return true;
    return false;
}

// Whole gradients die early, and two flights of them at most are under way.
TEST(scattered_gradients_travel_in_pairs_at_most)
{
    for (int micro = 1; micro <= 2; micro++) {
        const char *settings[12];
        memcpy(settings, zero3, sizeof(zero3));
        settings[8] = "zero=2";
        settings[9] = micro == 1 ? "accumulate=1" : "accumulate=2";
        planned p = make(settings);
        const tt_plan *plan = p.plan;
        int n = 0, n_long = 0;
        for (int32_t s = 0; s < plan->n_steps; s++) {
            int in_air = 0;
            for (int32_t f = 0; f < plan->n_flights; f++) {
                const tt_flight *flight = &plan->flight[f];
                if (plan->step[plan->member[flight->first]].op !=
                        &tt_op_reduce_scatter ||
                    flight->is_last_only)
                    continue;
                in_air += flight->begin <= s && s < flight->end;
                n += s == 0;
                n_long += s == 0 && has_work(plan, flight);
            }
            CHECK(in_air <= 2);
        }
        CHECK_MSG(n > 8 && n_long >= n - 2, "%d of %d", n_long, n);
        destroy(&p);
    }
}

typedef struct gathers {  // of new weights
    int n, n_apart;       // from a buffer that is not the weight's
    int n_long;           // with steps between begin and end
    int most, most_apart; // at a time
} gathers;

static int most_of(int a, int b)
{
    return a > b ? a : b;
}

static gathers count_gathers(const tt_plan *plan)
{
    gathers g = {0};
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int n = 0, n_apart = 0;
        for (int32_t f = 0; f < plan->n_flights; f++) {
            const tt_flight *flight = &plan->flight[f];
            const tt_step *step = &plan->step[plan->member[flight->first]];
            const bool is_apart = step->in[0].buffer != step->out[0].buffer;
            if (step->op != &tt_op_all_gather)
                continue;
            n += flight->begin <= s && s < flight->end;
            n_apart += is_apart && flight->begin <= s && s < flight->end;
            g.n += flight->begin == s;
            g.n_apart += is_apart && flight->begin == s;
            g.n_long += flight->begin == s && has_work(plan, flight);
        }
        g.most = most_of(g.most, n);
        g.most_apart = most_of(g.most_apart, n_apart);
    }
    return g;
}

// A rank updates its block where it lies, so that waiting costs no memory. Only the
// blocks of c_attn.bias, along its heads, are no runs.
TEST(new_weights_are_gathered_in_place_while_others_are_updated)
{
    const char *settings[12];
    memcpy(settings, zero3, sizeof(zero3));
    settings[8] = "zero=1";
    planned p = make(settings);
    const gathers g = count_gathers(p.plan);
    CHECK_MSG(g.n > 10 && g.n_long >= g.n - 2, "%d of %d", g.n_long, g.n);
    CHECK_MSG(g.n_apart == 4, "%d of %d", g.n_apart, g.n);
    CHECK_MSG(g.most >= g.n - g.n_apart, "%d of %d", g.most, g.n);
    destroy(&p);
}

TEST(new_weights_in_buffers_of_their_own_are_few_at_a_time)
{
    const char *settings[12];
    memcpy(settings, zero3, sizeof(zero3));
    settings[3] = "model.heads=2"; // blocks of heads: c_proj.weight
    settings[8] = "zero=1";
    planned p = make(settings);
    const gathers g = count_gathers(p.plan);
    CHECK_MSG(g.n_apart == 8 && g.n_long >= g.n - 2, "%d of %d", g.n_apart,
              g.n);
    CHECK_MSG(g.most_apart >= 1 && g.most_apart <= 2, "%d of %d", g.most_apart,
              g.n_apart);
    destroy(&p);
}

// ---- what may not be -----------------------------------------------------------

static void refuses(const tt_plan *plan, const char *why)
{
    CHECK(tt_plan_verify(plan) == TT_ERR_STATE);
    CHECK_MSG(strstr(tt_error_message(), why) != NULL, "\"%s\" lacks \"%s\"",
              tt_error_message(), why);
}

TEST(flights_that_meet_a_step_are_refused)
{
    planned p = make(small_gpt);
    tt_plan *plan = p.plan;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        tt_flight *flight = &plan->flight[f];
        const tt_flight was = *flight;
        if (f == 0 || plan->flight[f - 1].begin <= was.begin - 1) {
            flight->begin = flight->ready = was.begin - 1;
            refuses(plan, "meets");
            *flight = was;
        }
        if (was.end < plan->n_steps) {
            flight->end++;
            refuses(plan, "meets");
            *flight = was;
        }
        flight->begin = was.end;
        refuses(plan, "ends before");
        *flight = was;
        flight->begin--;
        refuses(plan, "ends before");
        *flight = was;
        flight->is_last_only = false;
        refuses(plan, "micro-batch");
        *flight = was;
        flight->end = plan->n_steps + 1;
        refuses(plan, "ends before");
        *flight = was;
    }
    CHECK_OK(tt_plan_verify(plan));
    destroy(&p);
}

static tt_buffer *buffer_of(const tt_plan *plan, int32_t member)
{
    return &plan->buffer[plan->step[plan->member[member]].in[0].buffer];
}

// Two members of a size change places.
static void check_row(const tt_plan *plan)
{
    int n = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        for (int32_t i = 1; i < plan->flight[f].n; i++) {
            tt_buffer *a = buffer_of(plan, plan->flight[f].first);
            tt_buffer *b = buffer_of(plan, plan->flight[f].first + i);
            const int64_t first = a->offset, second = b->offset;
            if (a->bytes != b->bytes)
                continue;
            a->offset = second;
            b->offset = first;
            refuses(plan, "not in a row");
            a->offset = first;
            b->offset = second;
            n++;
        }
    CHECK(n > 0);
}

TEST(flights_are_complete_in_order_and_in_a_row)
{
    planned p = make(small_gpt);
    tt_plan *plan = p.plan;
    tt_flight *last = &plan->flight[plan->n_flights - 1];
    const tt_flight was = *last;
    plan->n_flights--;
    refuses(plan, "in no flight");
    plan->n_flights++;
    const int32_t member = plan->member[1];
    plan->member[1] = plan->member[0];
    refuses(plan, "a member that is none");
    plan->member[1] = member - 1;
    refuses(plan, "a member that is none");
    plan->member[1] = member;
    *last = plan->flight[0];
    plan->flight[0] = was;
    refuses(plan, "order of beginnings");
    plan->flight[0] = *last;
    *last = was;
    check_row(plan);
    CHECK_OK(tt_plan_verify(plan));
    destroy(&p);
}

TEST(flights_of_a_micro_batch_stay_in_their_segment)
{
    planned p = make(zero3);
    tt_plan *plan = p.plan;
    const int32_t end = first_of(plan, TT_BACKWARD);
    int n = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        tt_flight *flight = &plan->flight[f];
        const tt_flight was = *flight;
        if (flight->is_last_only)
            continue;
        CHECK((flight->begin < end) == (flight->end <= end));
        if (flight->begin < end) {
            flight->end = end + 1;
            refuses(plan, "leaves its segment");
            n++;
        }
        *flight = was;
    }
    CHECK(n > 20);
    destroy(&p);
}

// Batch norm talks in every layer of backward: it does not wait for whole buckets.
TEST(rows_are_cut_where_layers_talk)
{
    planned p = make(small_resnet);
    tt_plan *plan = p.plan;
    const int32_t from = first_of(plan, TT_BACKWARD);
    const int32_t update = first_of(plan, TT_UPDATE);
    const double time = plan->clock[update] - plan->clock[from];
    double bytes = 0, all = 0;
    int n = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        all += plan->flight[f].to > 0 ? (double)plan->flight[f].bytes : 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        tt_flight *flight = &plan->flight[f];
        const tt_flight was = *flight;
        if (flight->to == 0)
            continue;
        n++;
        // No more is under way than work is done while the next step runs.
        bytes += (double)flight->bytes;
        CHECK(flight->begin == update || flight->begin == flight->ready ||
              (plan->clock[flight->begin + 1] - plan->clock[from]) / time >=
                  bytes / all - 1e-9);
        flight->to -= 64;
        refuses(plan, "not all of its row");
        *flight = was;
    }
    CHECK_MSG(n >= 8, "%d", n);
    destroy(&p);
    planned gpt = make(small_gpt);
    for (int32_t f = 0; f < gpt.plan->n_flights; f++)
        CHECK(gpt.plan->flight[f].to == 0);
    destroy(&gpt);
}

// ---- who goes first --------------------------------------------------------------

static void check_same_set(const tt_plan *plan, const int32_t *order)
{
    int64_t sum = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        sum += order[f];
    CHECK(sum == (int64_t)plan->n_flights * (plan->n_flights - 1) / 2);
}

TEST(of_buckets_that_wait_the_one_with_the_smallest_key_goes_first)
{
    const char *settings[12];
    memcpy(settings, small_gpt, sizeof(small_gpt));
    settings[8] = "exchange.bucket=20000";
    settings[9] = NULL;
    planned p = make(settings);
    const tt_plan *plan = p.plan;
    int32_t begin[256], order[256];
    double key[256];
    const int32_t n = plan->n_flights;
    CHECK(n > 12 && n <= 256);
    for (int32_t f = 0; f < n; f++)
        key[f] = -f; // the newest first
    tt_plan_schedule(plan, key, begin, order);
    check_same_set(plan, order);
    CHECK(order[0] == 0); // nothing else is ready
    int n_turned = 0;
    for (int32_t i = 1; i < n; i++) {
        n_turned += order[i] < order[i - 1];
        CHECK(begin[order[i]] >= begin[order[i - 1]]);
        CHECK(begin[order[i]] >= plan->flight[order[i]].ready);
        CHECK(begin[order[i]] < plan->flight[order[i]].end);
    }
    CHECK(n_turned >= 2);
    for (int32_t f = 0; f < n; f++)
        key[f] = f; // as they come
    tt_plan_schedule(plan, key, begin, order);
    for (int32_t i = 0; i < n; i++)
        CHECK(order[i] == i && begin[i] == plan->flight[i].begin);
    destroy(&p);
}

TEST(priority_sends_first_what_the_next_forward_needs_first)
{
    const char *settings[12];
    memcpy(settings, small_gpt, sizeof(small_gpt));
    settings[8] = "exchange.bucket=20000";
    settings[9] = NULL;
    planned fifo = make(settings);
    settings[9] = "exchange.order=priority";
    settings[10] = NULL;
    planned p = make(settings);
    const tt_plan *plan = p.plan;
    CHECK(plan->n_flights == fifo.plan->n_flights);
    int n_turned = 0;
    for (int32_t f = 1; f < plan->n_flights; f++) {
        const tt_flight *a = &plan->flight[f - 1], *b = &plan->flight[f];
        CHECK(a->needed < first_of(plan, TT_BACKWARD) || a->bytes < 1000);
        n_turned += a->ready > b->ready;
        CHECK(a->ready <= b->ready || a->needed < b->needed);
    }
    CHECK(n_turned >= 1);
    CHECK(tt_plan_flights_hash(plan) != tt_plan_flights_hash(fifo.plan));
    tt_job_close(p.job);
    tt_arena_destroy(p.arena);
    destroy(&fifo);
}

TEST(a_plan_prints_its_flights)
{
    planned p = make(small_vgg);
    tt_str text = {0};
    tt_plan_print(p.plan, true, &text);
    CHECK(strstr(tt_str_text(&text), "flights (begin, end, bytes: members)\n  "
                                     "f0 ") != NULL);
    CHECK(strstr(tt_str_text(&text), " as one  ") != NULL);
    tt_str_fini(&text);
    tt_plan_print(p.plan, false, &text);
    CHECK(strstr(tt_str_text(&text), "flights") == NULL);
    tt_str_fini(&text);
    destroy(&p);
}
