// ranks_report - what every rank has measured, gathered on rank 0.
//
// A rank's block holds a few sums (bytes, seconds) and three times for each
// collective since the last gather: ready, begun, ended. Collectives have the same
// numbers on all ranks, so the blocks describe the same ones, they are equally
// long, and no lengths need to be exchanged.
//
//   block:  | sums ... | ready begun ended | ready begun ended | ...
//
// One gather per logged step, or when PENDING collectives have piled up. Times are
// by each rank's own clock; rank 0 converts them (ranks_clock.h).
//
// Bytes and seconds of evaluations and checkpoints go over the same wire. They are
// counted between pause and resume, and subtracted from the numbers per step.

#include "train/ranks_report.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "train/arrivals.h"
#include "train/ranks_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PENDING = 1024 }; // collectives that wait to be gathered, at most

// ---- opening -------------------------------------------------------------

tt_status tt__ranks_report_gather(const tt_ranks_report *r, tt_num type,
                                  const void *mine, void *all, int64_t n)
{
    const tt_coll_call call = {.kind = TT_GATHER,
                               .fold = {TT_FOLD_COPY, type},
                               .count = n * r->size,
                               .in = mine,
                               .out = all};
    return tt_comm_wire_call(r->options.wire, tt__ranks_call, &call);
}

static tt_status gather_hosts(tt_ranks_report *r)
{
    TT_TRY(tt__ranks_report_gather(r, TT_NUM_U8, r->my_host, r->host,
                                   TT__HOST_BYTES));
    for (int64_t i = 0; r->rank == 0 && i < r->size; i++)
        r->host[(i + 1) * TT__HOST_BYTES - 1] = '\0';
    return TT_OK;
}

static tt_status open_shared(tt_ranks_report *r)
{
    const int64_t n = r->size;
    const int64_t sums = n * TT__N_SUMS * (int64_t)sizeof(double);
    r->host = tt_arena_alloc(r->arena, n * TT__HOST_BYTES);
    r->now = tt_arena_alloc(r->arena, sums);
    r->before = tt_arena_alloc(r->arena, sums);
    r->arrival = tt_arena_alloc(r->arena, n * (int64_t)sizeof *r->arrival);
    if (r->host == NULL || r->now == NULL || r->before == NULL ||
        r->arrival == NULL)
        return TT_ERR_NOMEM;
    tt_wire_stats stats;
    tt_comm_wire_stats(r->options.wire, false, &stats);
    r->gathered = stats.flights;
    TT_TRY(tt_arrivals_create(r->size, &r->arrivals));
    TT_TRY(tt__ranks_report_clock_open(&r->clock, r->options.wire, r->arena));
    return gather_hosts(r);
}

static tt_status open_trace(tt_ranks_report *r)
{
    const int64_t lengths = (r->size + 1) * (int64_t)sizeof(int64_t);
    r->mark = tt_arena_alloc(r->arena, TT__MARKS * (int64_t)sizeof *r->mark);
    r->piece = tt_arena_alloc(r->arena, TT__PIECE_BYTES);
    r->length = tt_arena_alloc(r->arena, lengths);
    r->bound = tt_arena_alloc(r->arena, lengths);
    return r->mark != NULL && r->piece != NULL && r->length != NULL &&
                   r->bound != NULL
               ? TT_OK
               : TT_ERR_NOMEM;
}

static tt_status open_report(tt_ranks_report *r)
{
    const bool is_named = gethostname(r->my_host, TT__HOST_BYTES - 1) == 0;
    if (r->options.host != NULL || !is_named)
        snprintf(r->my_host, TT__HOST_BYTES, "%s",
                 r->options.host != NULL ? r->options.host : "?");
    if (r->options.wants_trace)
        TT_TRY(open_trace(r));
    return r->size > 1 ? open_shared(r) : TT_OK;
}

tt_status tt_ranks_report_open(const tt_ranks_options *options,
                               tt_ranks_report **report_out)
{
    tt_arena *arena = tt_arena_create();
    tt_ranks_report *r = arena ? tt_arena_alloc(arena, sizeof *r) : NULL;
    if (r == NULL) {
        tt_arena_destroy(arena);
        return tt_fail(TT_ERR_NOMEM, "no memory for the report about ranks");
    }
    const bool is_alone = options->wire == NULL;
    *r = (tt_ranks_report){
        .options = *options,
        .arena = arena,
        .rank = is_alone ? 0 : tt_comm_wire_rank(options->wire),
        .size = is_alone ? 1 : tt_comm_wire_size(options->wire),
        .opened = tt_clock_seconds(),
    };
    const tt_status status = open_report(r);
    if (status == TT_OK)
        *report_out = r;
    else
        tt_ranks_report_close(r);
    return status;
}

void tt_ranks_report_close(tt_ranks_report *r)
{
    if (r == NULL)
        return;
    tt_arrivals_destroy(r->arrivals);
    tt_free(r->mine);
    tt_free(r->all);
    tt_free(r->name);
    tt_arena_destroy(r->arena);
}

// ---- gathering -----------------------------------------------------------

// The collectives that were not gathered yet, in the order in which they ended.
// Called between steps, when none is in flight.
static const tt_wire_event *pending(const tt_ranks_report *r, int64_t *n_out)
{
    tt_wire_stats stats;
    const tt_wire_event *event = NULL;
    *n_out = 0;
    if (r->options.pipe != NULL)
        return NULL;
    const int64_t kept = tt_comm_wire_events(r->options.wire, &event);
    tt_comm_wire_stats(r->options.wire, false, &stats);
    const int64_t since = stats.flights - r->gathered;
    *n_out = since < kept ? since : kept;
    return kept > 0 ? event + (kept - *n_out) : NULL;
}

// The length of a block with `n` collectives, in numbers.
static int64_t block_of(int64_t n)
{
    return TT__N_SUMS + 3 * n;
}

static tt_status make_room(tt_ranks_report *r, int64_t n)
{
    const int64_t block = block_of(n) * (int64_t)sizeof(double);
    const int64_t blocks = r->rank == 0 ? r->size : 1;
    if (n <= r->capacity && r->mine != NULL)
        return TT_OK;
    tt_free(r->mine);
    tt_free(r->all);
    tt_free(r->name);
    r->mine = tt_alloc(block);
    r->all = tt_alloc(blocks * block);
    r->name = tt_alloc((n + 1) * (int64_t)sizeof *r->name);
    r->capacity = n;
    if (r->mine == NULL || r->all == NULL || r->name == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the report about ranks");
    return TT_OK;
}

static void fill_sums(tt_ranks_report *r, double *sum)
{
    tt_wire_stats wire;
    tt_exec_stats exec = {0};
    tt_comm_wire_stats(r->options.wire, false, &wire);
    if (r->options.exec != NULL)
        tt_exec_stats_get(r->options.exec, &exec);
    r->gathered = wire.flights;
    sum[TT__SUM_MESSAGES] = (double)wire.messages;
    sum[TT__SUM_BYTES] = (double)wire.bytes;
    sum[TT__SUM_BUSY] = wire.busy_seconds;
    sum[TT__SUM_EXPOSED] = wire.exposed_seconds;
    sum[TT__SUM_KERNELS] = exec.kernel_seconds;
    sum[TT__SUM_FEED] = exec.feed_seconds;
    sum[TT__SUM_CODING] = exec.coding_seconds;
    sum[TT__SUM_RAW] = exec.raw_bytes;
    sum[TT__SUM_CODED] = exec.added_bytes + (double)wire.packet_bytes;
    sum[TT__SUM_RESIDUAL] = r->residual;
    sum[TT__SUM_ASIDE_BYTES] = (double)r->aside.bytes;
    sum[TT__SUM_ASIDE_BUSY] = r->aside.busy_seconds;
    sum[TT__SUM_ASIDE_EXPOSED] = r->aside.exposed_seconds;
    memcpy(&sum[TT__SUM_TIME], &r->time, sizeof r->time);
}

static tt_arrival arrival_of(const tt_ranks_report *r, int32_t rank,
                             const double *at)
{
    const tt_ranks_clock *c = &r->clock;
    return (tt_arrival){tt__ranks_report_clock_common(c, rank, at[0]),
                        tt__ranks_report_clock_common(c, rank, at[1]),
                        tt__ranks_report_clock_common(c, rank, at[2])};
}

// On rank 0: takes in the blocks of all ranks.
static tt_status take_blocks(tt_ranks_report *r, int64_t n)
{
    const int64_t block = block_of(n);
    for (int64_t i = 0; i < r->size; i++)
        memcpy(&r->now[i * TT__N_SUMS], &r->all[i * block],
               TT__N_SUMS * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        for (int32_t i = 0; i < r->size; i++)
            r->arrival[i] = arrival_of(r, i, &r->all[i * block + block_of(k)]);
        TT_TRY(tt_arrivals_add(r->arrivals, r->name[k], r->arrival));
    }
    return TT_OK;
}

static tt_status gather_all(tt_ranks_report *r, bool is_end)
{
    int64_t n = 0;
    TT_TRY(tt__ranks_report_clock_again(&r->clock, is_end));
    const tt_wire_event *event = pending(r, &n);
    TT_TRY(make_room(r, n));
    fill_sums(r, r->mine);
    for (int64_t k = 0; k < n; k++) { // copied: the gather itself adds events
        double *at = &r->mine[block_of(k)];
        at[0] = event[k].ready;
        at[1] = event[k].begun;
        at[2] = event[k].ended;
        r->name[k] = event[k].name;
    }
    TT_TRY(
        tt__ranks_report_gather(r, TT_NUM_F64, r->mine, r->all, block_of(n)));
    return r->rank == 0 ? take_blocks(r, n) : TT_OK;
}

// ---- while the run goes on -----------------------------------------------

void tt_ranks_report_mark(tt_ranks_report *r, const char *what, int64_t step,
                          double started)
{
    const int64_t half = TT__MARKS / 2;
    if (r->mark == NULL)
        return;
    if (r->n_marks == TT__MARKS) {
        memmove(r->mark, r->mark + half, (size_t)half * sizeof *r->mark);
        r->n_marks = half;
    }
    r->mark[r->n_marks++] =
        (tt_trace_mark){what, step, started, tt_clock_seconds()};
}

void tt_ranks_report_pause(tt_ranks_report *r, bool is_over)
{
    tt_wire_stats now;
    if (r->size == 1)
        return;
    tt_comm_wire_stats(r->options.wire, false, &now);
    if (is_over) {
        r->aside.bytes += now.bytes - r->paused.bytes;
        r->aside.busy_seconds += now.busy_seconds - r->paused.busy_seconds;
        r->aside.exposed_seconds +=
            now.exposed_seconds - r->paused.exposed_seconds;
    }
    r->paused = now;
}

void tt_ranks_report_time(tt_ranks_report *r, const tt_report_time *time)
{
    r->time = *time;
}

void tt_ranks_report_residual(tt_ranks_report *r, double squares)
{
    r->residual = squares;
}

tt_status tt_ranks_report_step(tt_ranks_report *r, int64_t step, double started)
{
    int64_t n = 0;
    tt_ranks_report_mark(r, "step", step, started);
    if (r->size == 1)
        return TT_OK;
    (void)pending(r, &n);
    return n >= PENDING ? gather_all(r, false) : TT_OK;
}

tt_status tt_ranks_report_point(tt_ranks_report *r, int64_t steps,
                                bool *has_out, tt_ranks_point *point_out)
{
    double sum[TT__N_SUMS] = {0}, residual = 0;
    *has_out = false;
    if (r->size == 1)
        return TT_OK;
    TT_TRY(gather_all(r, false));
    if (r->rank > 0)
        return TT_OK;
    for (int64_t i = 0; i < r->size; i++)
        residual += r->now[i * TT__N_SUMS + TT__SUM_RESIDUAL];
    for (int64_t i = 0; i < (int64_t)r->size * TT__N_SUMS; i++) {
        sum[i % TT__N_SUMS] += r->now[i] - r->before[i];
        r->before[i] = r->now[i];
    }
    const double per = 1 / ((double)r->size * (double)(steps > 0 ? steps : 1));
    const double busy = sum[TT__SUM_BUSY] - sum[TT__SUM_ASIDE_BUSY];
    const double exposed = sum[TT__SUM_EXPOSED] - sum[TT__SUM_ASIDE_EXPOSED];
    *point_out = (tt_ranks_point){
        .exposed = per * exposed,
        .hidden = per * fmax(0, busy - exposed),
        .bytes = per * (sum[TT__SUM_BYTES] - sum[TT__SUM_ASIDE_BYTES]),
        .spread = tt_arrivals_recent(r->arrivals),
        .coding = per * sum[TT__SUM_CODING],
        .raw = per * sum[TT__SUM_RAW],
        .coded = per * sum[TT__SUM_CODED],
        .residual = sqrt(residual),
    };
    *has_out = true;
    return TT_OK;
}

_Static_assert(sizeof(tt_report_time) ==
                   sizeof(double) * (TT__N_SUMS - TT__SUM_TIME),
               "a rank's time travels as it is");

// If the rank has told where its time went, that number for the network is used, so
// that the parts add up.
static tt_rank_row row_of(const double *sum, const char *host)
{
    tt_rank_row row = {
        .host = host,
        .messages = (int64_t)sum[TT__SUM_MESSAGES],
        .bytes = (int64_t)sum[TT__SUM_BYTES],
        .busy = sum[TT__SUM_BUSY] - sum[TT__SUM_ASIDE_BUSY],
        .exposed = sum[TT__SUM_EXPOSED] - sum[TT__SUM_ASIDE_EXPOSED],
        .kernels = sum[TT__SUM_KERNELS],
        .feed = sum[TT__SUM_FEED],
        .coding = sum[TT__SUM_CODING],
        .raw = (int64_t)sum[TT__SUM_RAW],
        .coded = (int64_t)sum[TT__SUM_CODED],
    };
    memcpy(&row.time, &sum[TT__SUM_TIME], sizeof row.time);
    if (row.time.total > 0)
        row.exposed = row.time.network;
    return row;
}

static tt_status sum_up(const tt_ranks_report *r, tt_arena *arena,
                        tt_ranks *ranks)
{
    tt_rank_row *row = tt_arena_alloc(arena, r->size * (int64_t)sizeof *row);
    const char *host =
        tt_arena_copy(arena, r->host, (int64_t)r->size * TT__HOST_BYTES);
    if (row == NULL || host == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < r->size; i++)
        row[i] = row_of(&r->now[i * TT__N_SUMS], &host[i * TT__HOST_BYTES]);
    ranks->n = r->size;
    ranks->rank = row;
    ranks->clock_error = r->clock.error;
    return tt_arrivals_sum(r->arrivals, arena, row, ranks);
}

tt_status tt_ranks_report_end(tt_ranks_report *r, tt_arena *arena,
                              const tt_ranks **ranks_out)
{
    *ranks_out = NULL;
    if (r->size == 1)
        return TT_OK;
    const tt_ranks_pipe *pipe = NULL;
    TT_TRY(gather_all(r, true));
    TT_TRY(tt__ranks_report_pipe(r, arena, &pipe));
    if (r->rank > 0)
        return TT_OK;
    tt_ranks *ranks = tt_arena_alloc(arena, sizeof *ranks);
    if (ranks == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(sum_up(r, arena, ranks));
    ranks->pipe = pipe;
    ranks->is_paced = r->options.is_paced;
    *ranks_out = ranks;
    return TT_OK;
}
