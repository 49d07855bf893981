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

void tt_server_applied(tt_server *server, double change)
{
    for (int32_t i = 0; i < server->n_pending; i++) {
        const tt_server_push *push = &server->pending[i];
        const int64_t old = tt_server_staleness(server, push);
        const int64_t last = TT_STALENESS_BINS - 1;
        server->histogram[old < last ? old : last]++;
        server->worker[push->worker].n_stale += old;
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

// Whether a number is one of 0 .. n - 1.
static bool is_below(double number, int64_t n)
{
    return number >= 0 && number < (double)n && number == floor(number);
}

tt_status tt_server_load(tt_server *server, const double *numbers)
{
    const double *p = numbers;
    const int64_t most = (int64_t)server->rules.workers * EACH;
    if (!is_below(numbers[HEAD - 1], most + 1))
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
    memset(server->is_taken, 0, (size_t)most);
    for (int32_t i = 0; i < server->n_pending; i++, p += OF_PUSH) {
        if (!is_below(p[0], server->rules.workers) || !is_below(p[1], most))
            return damaged();
        server->pending[i] = (tt_server_push){.worker = (int32_t)p[0],
                                              .slot = (int32_t)p[1],
                                              .number = (int64_t)p[2],
                                              .version = (int64_t)p[3]};
        server->is_taken[server->pending[i].slot] = true;
    }
    return TT_OK;
}
