// dynamic_did - what workers did, for tables and reports.
//
// A worker is slow by what it took to compute a gradient, not by how many it delivered: a
// clock that holds everybody back to the slowest would hide who that is.

#include "job/dynamic/chain.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/proxy.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

static int32_t used_bins(const tt_server *s)
{
    int32_t n = TT_STALENESS_BINS;
    while (n > 0 && s->histogram[n - 1] == 0)
        n--;
    return n;
}

// Without the longest one, which of a real worker is its first. Of a gradient that is being
// computed counts what it has taken, once that is more than usual: a worker that never
// delivers is slow too.
static double pace_of(const tt_dynamic *d, int32_t worker)
{
    const tt_diary *diary = &d->drawn.diary;
    const tt_drawn_worker *w = &d->drawn.worker[worker];
    const int64_t n = tt__worker_pushed(d, worker);
    const double sum = tt_diary_sum(diary, worker, TT_CAUSE_COMPUTING) +
                       tt_diary_sum(diary, worker, TT_CAUSE_WASTED);
    const double open = isfinite(w->due) ? d->drawn.now - w->turn.began : 0;
    const double usual = n > 1   ? (sum - w->longest) / (double)(n - 1)
                         : n > 0 ? sum
                                 : 0;
    return open > usual + w->longest ? (sum + open) / (double)(n + 1) : usual;
}

// The lower one of two in the middle.
static double median_pace(const tt_worker_row *row, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t below = 0, same = 0;
        for (int32_t k = 0; k < n; k++) {
            below += row[k].pace < row[i].pace;
            same += row[k].pace <= row[i].pace;
        }
        if (below <= (n - 1) / 2 && same > (n - 1) / 2)
            return row[i].pace;
    }
    return 0;
}

// Gradients whose age was counted.
static int64_t used_by(const tt_dynamic *d, int32_t worker)
{
    const tt_server_worker *w = &d->server.worker[tt__pusher(d, worker)];
    if (d->crowd == NULL)
        return w->pushed - w->n_dropped - w->n_pending;
    const int64_t used = tt_peer_used(&d->crowd->rules, worker);
    return d->hog != NULL
               ? used - d->crowd->rules.version - d->n_refused[worker]
               : used;
}

static void fill_row(const tt_dynamic *d, const tt_workers *all, int32_t i,
                     tt_worker_row *row)
{
    const tt_server_worker *w = &d->server.worker[tt__pusher(d, i)];
    const int64_t used = used_by(d, i);
    const int64_t bytes = tt_vector_bytes(&d->all);
    *row = (tt_worker_row){.rank = tt__worker_rank(d, i),
                           .pushed = tt__worker_pushed(d, i),
                           .dropped = w->n_dropped,
                           .refused = d->n_refused[i],
                           .staleness =
                               used > 0 ? (double)w->n_stale / (double)used : 0,
                           .pace = all->unit != NULL ? pace_of(d, i) : 0,
                           .up = (int64_t)d->up[i],
                           .down = (d->drawn.worker[i].number + 1) * bytes};
    if (d->crowd != NULL) {
        row->up = d->crowd->rules.worker[i].sent * bytes;
        row->down = d->crowd->rules.worker[i].got * bytes;
    }
    for (int c = 0; all->unit != NULL && c < TT_N_CAUSES; c++)
        row->time[c] = fmax(0, tt_diary_sum(&all->diary, i, c));
}

// What the server heard and said.
static tt_server_did server_of(const tt_dynamic *d)
{
    const int64_t bytes = tt_vector_bytes(&d->all);
    tt_server_did l = {.pushes = d->server.n_pushed};
    if (d->crowd != NULL)
        return (tt_server_did){0};
    for (int32_t i = 0; i < d->server.rules.workers; i++)
        l.answers += d->server.worker[i].pushed -
                     (d->server.worker[i].is_waiting ? 1 : 0);
    for (int32_t i = 0; i < d->workers; i++)
        l.bytes_in += (int64_t)d->up[i];
    if (d->tree != NULL) {
        l.proxies = d->tree->rules.proxies;
        l.bytes_in = l.pushes * bytes;
    }
    l.chain = d->chain != NULL ? d->chain->length : 1;
    l.bytes_passed = (int64_t)d->passed;
    l.bytes_in += l.bytes_passed;
    l.bytes_out = l.answers * bytes + l.bytes_passed;
    return l;
}

tt_status tt_job_workers_did(const tt_job *job, tt_arena *arena,
                             tt_workers *out)
{
    const tt_dynamic *d = job->dynamic;
    const tt_workers_sums sums = tt_job_workers_sums(job);
    *out = (tt_workers){0};
    if (d == NULL)
        return TT_OK;
    if (d->federated != NULL)
        return tt__federated_did(d, arena, out);
    tt_worker_row *row =
        tt_arena_alloc(arena, d->workers * (int64_t)sizeof *row);
    if (row == NULL)
        return TT_ERR_NOMEM;
    *out = (tt_workers){.n = d->workers,
                        .worker = row,
                        .updates = sums.updates,
                        .pushed = sums.pushed,
                        .dropped = sums.dropped,
                        .refused = sums.refused,
                        .staleness = tt_server_mean_staleness(&d->server),
                        .n_bins = used_bins(&d->server),
                        .bins_max = TT_STALENESS_BINS,
                        .histogram = d->server.histogram,
                        .now = d->drawn.now,
                        .busy = d->busy,
                        .seconds =
                            d->crowd != NULL && d->hog == NULL ? 0 : d->seconds,
                        .n_made = d->n_updates,
                        .has_server = d->crowd == NULL};
    out->server = server_of(d);
    out->messages = d->crowd != NULL ? d->crowd->rules.messages : 0;
    if (d->is_live)
        out->unit = "seconds";
    else if (d->list == NULL)
        out->unit = "gradients";
    TT_TRY(tt_drawn_diary(&d->drawn, arena, &out->diary));
    for (int32_t i = 0; i < d->workers; i++)
        fill_row(d, out, i, &row[i]);
    const double usual = median_pace(row, d->workers);
    for (int32_t i = 0; i < d->workers; i++)
        row[i].slow = usual > 0 ? row[i].pace / usual : 0;
    return TT_OK;
}

bool tt_job_workers_may_change(const tt_job *job)
{
    return job->workers > 0 && tt__hog_is(job);
}

bool tt_job_workers_are_live(const tt_job *job)
{
    return job->workers > 0 &&
           strcmp(tt__server_params(job)->pace.schedule, "wall") == 0;
}

const char *tt_job_workers_caveat(const tt_job *job)
{
    return tt_job_workers_may_change(job)
               ? "exchange.policy=hogwild: weights are changed without locks; "
                 "no two runs have the same bits, and none can be repeated"
               : NULL;
}

tt_workers_sums tt_job_workers_sums(const tt_job *job)
{
    const tt_dynamic *d = job->dynamic;
    tt_workers_sums s = {0};
    if (d == NULL)
        return s;
    if (d->federated != NULL)
        return tt__federated_sums(d);
    // Gradients; a proxy's sum is one of each of its workers.
    const int64_t each = d->workers / d->server.rules.workers;
    s.updates = d->server.version;
    s.dropped = d->server.n_dropped * each;
    s.time = d->list == NULL ? d->drawn.now : (double)NAN;
    for (int b = 0; b < TT_STALENESS_BINS; b++)
        s.used += d->server.histogram[b] * each;
    for (int32_t i = 0; i < d->workers; i++) {
        s.pushed += tt__worker_pushed(d, i);
        s.refused += d->n_refused[i];
        s.stale += d->server.worker[tt__pusher(d, i)].n_stale;
    }
    return s;
}
