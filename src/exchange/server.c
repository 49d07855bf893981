#include "exchange/server.h"

#include "exchange/clock.h"

#include <math.h>
#include <string.h>

// A worker that came late may have one gradient waiting and deliver a second one.
enum { EACH = 2 };

tt_status tt_server_init(tt_server *server, const tt_server_rules *rules,
                         tt_arena *arena)
{
    const int64_t n = rules->workers;
    *server = (tt_server){.rules = *rules};
    server->worker = tt_arena_alloc(arena, n * (int64_t)sizeof *server->worker);
    server->pending =
        tt_arena_alloc(arena, EACH * n * (int64_t)sizeof *server->pending);
    server->is_taken = tt_arena_alloc(arena, EACH * n);
    return server->worker != NULL && server->pending != NULL &&
                   server->is_taken != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %lld workers",
                         (long long)n);
}

int64_t tt_server_staleness(const tt_server *server, const tt_server_push *push)
{
    return server->version - push->version;
}

static int32_t free_slot(tt_server *s)
{
    int32_t slot = 0;
    while (s->is_taken[slot])
        slot++;
    s->is_taken[slot] = true;
    return slot;
}

static void keep(tt_server *s, const tt_server_push *push)
{
    int32_t at = s->n_pending++;
    for (; at > 0 && s->pending[at - 1].worker > push->worker; at--)
        s->pending[at] = s->pending[at - 1];
    s->pending[at] = *push;
}

bool tt_server_deliver(tt_server *server, int32_t worker, int32_t *slot_out)
{
    tt_server_worker *w = &server->worker[worker];
    tt_server_push push = {
        .worker = worker, .number = w->pushed, .version = w->version};
    const int64_t old = tt_server_staleness(server, &push);
    w->pushed++;
    w->is_waiting = true;
    server->n_pushed++;
    if ((server->rules.reject >= 0 && old > server->rules.reject) ||
        server->rules.clock->is_late(server, &push)) {
        server->n_dropped++;
        w->n_dropped++;
        return true;
    }
    push.slot = free_slot(server);
    *slot_out = push.slot;
    w->n_pending++;
    keep(server, &push);
    return false;
}

tt_server_do tt_server_next(tt_server *server, int32_t *worker_out)
{
    const tt_clock_def *clock = server->rules.clock;
    if (server->n_pending > 0 && clock->is_time(server))
        return TT_SERVER_APPLY;
    for (int32_t i = 0; i < server->rules.workers; i++) {
        tt_server_worker *w = &server->worker[i];
        if (!w->is_waiting || !clock->goes_on(server, i))
            continue;
        w->is_waiting = false;
        w->version = server->version;
        w->unseen = 0;
        *worker_out = i;
        return TT_SERVER_ANSWER;
    }
    return TT_SERVER_NOTHING;
}

static void count(tt_server *s, int32_t worker, int64_t old)
{
    const int64_t last = TT_STALENESS_BINS - 1;
    s->histogram[old < last ? old : last]++;
    s->worker[worker].n_stale += old;
}

void tt_server_note(tt_server *server, int32_t worker, int64_t old)
{
    server->worker[worker].pushed++;
    server->n_pushed++;
    server->version++;
    if (old >= 0)
        count(server, worker, old);
}

void tt_server_applied(tt_server *server, double change)
{
    for (int32_t i = 0; i < server->n_pending; i++) {
        const tt_server_push *push = &server->pending[i];
        const int64_t old = tt_server_staleness(server, push);
        count(server, push->worker, old);
        server->worker[push->worker].n_pending--;
        server->is_taken[push->slot] = false;
    }
    server->n_pending = 0;
    server->version++;
    for (int32_t i = 0; i < server->rules.workers; i++)
        server->worker[i].unseen += change;
}

double tt_server_mean_staleness(const tt_server *server)
{
    int64_t n = 0, sum = 0;
    for (int b = 0; b < TT_STALENESS_BINS; b++)
        n += server->histogram[b];
    for (int32_t i = 0; i < server->rules.workers; i++)
        sum += server->worker[i].n_stale;
    return n > 0 ? (double)sum / (double)n : 0;
}

// ---- as numbers ----------------------------------------------------------

enum { HEAD = 4, OF_WORKER = 7, OF_PUSH = 4 };

int64_t tt_server_count(const tt_server_rules *rules)
{
    return HEAD + TT_STALENESS_BINS +
           (int64_t)rules->workers * (OF_WORKER + EACH * OF_PUSH);
}

void tt_server_save(const tt_server *server, double *numbers)
{
    double *p = numbers;
    memset(p, 0, (size_t)tt_server_count(&server->rules) * sizeof *numbers);
    *p++ = (double)server->version;
    *p++ = (double)server->n_pushed;
    *p++ = (double)server->n_dropped;
    *p++ = (double)server->n_pending;
    for (int b = 0; b < TT_STALENESS_BINS; b++)
        *p++ = (double)server->histogram[b];
    for (int32_t i = 0; i < server->rules.workers; i++) {
        const tt_server_worker *w = &server->worker[i];
        const double of[OF_WORKER] = {(double)w->pushed,   (double)w->version,
                                      w->is_waiting,       (double)w->n_pending,
                                      w->unseen,           (double)w->n_stale,
                                      (double)w->n_dropped};
        memcpy(p, of, sizeof of);
        p += OF_WORKER;
    }
    for (int32_t i = 0; i < server->n_pending; i++, p += OF_PUSH) {
        const tt_server_push *push = &server->pending[i];
        p[0] = push->worker;
        p[1] = push->slot;
        p[2] = (double)push->number;
        p[3] = (double)push->version;
    }
}

static tt_status damaged(void)
{
    return tt_fail(TT_ERR_ARG, "the state of the server is damaged");
}

static const double most_events = 1e15; // as a count in 64 bits of a double

// Whether a number is one of 0 .. most.
static bool is_count(double number, double most)
{
    return number >= 0 && number <= most && number == floor(number);
}

static bool are_counts(const double *number, int64_t n, double most)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_count(number[i], most))
            return false;
    return true;
}

static bool is_worker(const double of[OF_WORKER], double version)
{
    return is_count(of[0], most_events) && is_count(of[1], version) &&
           is_count(of[2], 1) && is_count(of[3], EACH) && isfinite(of[4]) &&
           of[4] >= 0 && is_count(of[5], most_events) && is_count(of[6], of[0]);
}

static double sum_of(const double *number, int64_t n, int64_t apart)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += number[i * apart];
    return sum;
}

// Each is of a worker that has pushed so many, in their order, in a slot of its own.
static bool are_pushes(const double *push, int64_t n, const double *worker,
                       int32_t workers, double version)
{
    double before = 0;
    for (int64_t i = 0; i < n; i++, before = push[0], push += OF_PUSH) {
        if (!is_count(push[0], workers - 1) || push[0] < before)
            return false;
        const double *of = worker + (int64_t)push[0] * OF_WORKER;
        if (!is_count(push[1], EACH * workers - 1) ||
            !is_count(push[2], of[0] - 1) || !is_count(push[3], version))
            return false;
        for (int64_t k = 1; k <= i; k++)
            if (push[1] == push[1 - k * OF_PUSH])
                return false;
    }
    return true;
}

static bool has_pending(const double *push, int64_t n, const double *worker,
                        int32_t workers)
{
    for (int32_t w = 0; w < workers; w++) {
        double count = 0;
        for (int64_t i = 0; i < n; i++)
            count += push[i * OF_PUSH] == w;
        if (count != worker[(int64_t)w * OF_WORKER + 3])
            return false;
    }
    return true;
}

// Every number is in its range, and sums are what their parts are.
static bool is_server(const double *v, const tt_server_rules *rules)
{
    const int32_t workers = rules->workers;
    const double *histogram = v + HEAD;
    const double *worker = histogram + TT_STALENESS_BINS;
    const double *push = worker + (int64_t)workers * OF_WORKER;
    if (!are_counts(v, HEAD - 1, most_events) || v[0] > v[1] ||
        !is_count(v[HEAD - 1], EACH * workers) ||
        !are_counts(histogram, TT_STALENESS_BINS, most_events))
        return false;
    for (int32_t i = 0; i < workers; i++)
        if (!is_worker(worker + (int64_t)i * OF_WORKER, v[0]))
            return false;
    const int64_t n = (int64_t)v[HEAD - 1];
    const double counted =
        sum_of(histogram, TT_STALENESS_BINS, 1) + v[2] + v[3];
    return sum_of(worker, workers, OF_WORKER) == v[1] &&
           sum_of(worker + 6, workers, OF_WORKER) == v[2] &&
           (rules->is_noted ? counted <= v[1] : counted == v[1]) &&
           are_pushes(push, n, worker, workers, v[0]) &&
           are_counts(push + n * OF_PUSH,
                      ((int64_t)EACH * workers - n) * OF_PUSH, 0) &&
           has_pending(push, n, worker, workers);
}

tt_status tt_server_load(tt_server *server, const double *numbers)
{
    const double *p = numbers;
    if (!is_server(numbers, &server->rules))
        return damaged();
    server->version = (int64_t)*p++;
    server->n_pushed = (int64_t)*p++;
    server->n_dropped = (int64_t)*p++;
    server->n_pending = (int32_t)*p++;
    for (int b = 0; b < TT_STALENESS_BINS; b++)
        server->histogram[b] = (int64_t)*p++;
    for (int32_t i = 0; i < server->rules.workers; i++, p += OF_WORKER)
        server->worker[i] = (tt_server_worker){.pushed = (int64_t)p[0],
                                               .version = (int64_t)p[1],
                                               .is_waiting = p[2] != 0,
                                               .n_pending = (int32_t)p[3],
                                               .unseen = p[4],
                                               .n_stale = (int64_t)p[5],
                                               .n_dropped = (int64_t)p[6]};
    memset(server->is_taken, 0, (size_t)server->rules.workers * EACH);
    for (int32_t i = 0; i < server->n_pending; i++, p += OF_PUSH) {
        server->pending[i] = (tt_server_push){.worker = (int32_t)p[0],
                                              .slot = (int32_t)p[1],
                                              .number = (int64_t)p[2],
                                              .version = (int64_t)p[3]};
        server->is_taken[server->pending[i].slot] = true;
    }
    return TT_OK;
}
