// rows - when each row of the plan's order ran, and what it waited for.
//
// A row is a segment for one micro-batch. In a pipeline it begins with waiting for the
// message of another stage, and that waiting is the bubble. So per row there are a start,
// an end, and of the time between the part that was waiting for messages:
//
//   rank 0   F0 F1 ......B0--- F2        start, end: of F, B
//                  ^^^^^^                waited: belongs to row B0, for rank 1
//
//   bubble = what rows waited, but for the first row and the update
//   span   = from when the first row had its message to the end of the last gradient
//
// This is what tt_pipe_measure computes for a table. Collectives within a layer (tensor
// parallelism) are part of the row: another order of rows would not hide them.
//
// Pace. A rank that is to take its modelled seconds sleeps in its rows, before the row's
// first message leaves, since the others would see an early one. Waits for others, in
// collectives too, are not computing. What the row does after
// that was timed in the run before, and is left room for.
//
//   cost    two readings of the clock per row; no memory in a run
//   limits  a device only queues kernels: unless it is paced, its rows end for the host
//           when all is queued

#include "exec/rows.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/state.h"
#include "traffic/site.h"

#include <math.h>
#include <time.h>

static bool are_kept(const tt_exec *exec)
{
    return exec->options.rows || exec->options.pace != NULL;
}

// The rank that a flight's messages come from or go to; -1: a collective.
static int32_t peer_of(const tt_plan *plan, const tt_flight *flight)
{
    const tt_traffic_site x =
        tt_traffic_site_of(plan, plan->member[flight->first]);
    if (x.kind == NULL || x.kind->way != TT_TRAFFIC_MOVE)
        return -1;
    if (tt_traffic_site_sends(&x))
        return tt_traffic_site_rank(&x, (int32_t)x.p->to_coord);
    return tt_traffic_site_receives(&x)
               ? tt_traffic_site_rank(&x, (int32_t)x.p->from_coord)
               : -1;
}

tt_status tt__rows_init(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__row_state *rows = &exec->rows;
    const int64_t n = plan->n_order + plan->n_aside + 1;
    const int64_t ranks = tt_mesh_ranks(&plan->graph->mesh);
    if (!are_kept(exec))
        return TT_OK;
    rows->time = tt_alloc(n * (int64_t)sizeof *rows->time);
    rows->sums.computed = tt_alloc(n * (int64_t)sizeof(double));
    rows->sums.waited = tt_alloc(ranks * (int64_t)sizeof(double));
    rows->tail = tt_alloc((plan->n_segments + 1) * (int64_t)sizeof(double));
    rows->peer = tt_alloc((plan->n_flights + 1) * (int64_t)sizeof(int32_t));
    if (rows->time == NULL || rows->sums.computed == NULL ||
        rows->sums.waited == NULL || rows->tail == NULL || rows->peer == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the times of %d rows",
                       plan->n_order);
    for (int32_t f = 0; f < plan->n_flights; f++)
        rows->peer[f] = peer_of(plan, &plan->flight[f]);
    return TT_OK;
}

void tt__rows_fini(tt_exec *exec)
{
    tt_free(exec->rows.time);
    tt_free(exec->rows.sums.computed);
    tt_free(exec->rows.sums.waited);
    tt_free(exec->rows.tail);
    tt_free(exec->rows.peer);
}

// ---- one row -------------------------------------------------------------

static tt_row_time *row_of(tt_exec *exec)
{
    return &exec->rows.time[exec->row - exec->order];
}

void tt__row_begin(tt_exec *exec)
{
    if (exec->rows.time == NULL)
        return;
    const tt__driven *driven = &exec->driven;
    *row_of(exec) =
        (tt_row_time){.start = tt_clock_seconds() - driven->waited, .peer = -1};
    exec->rows.sent = 0;
    exec->rows.longest = 0;
    if (driven->waited > 0)
        tt__row_waited(exec, driven->waited_for, driven->waited);
}

void tt__row_waited(tt_exec *exec, int32_t flight, double seconds)
{
    tt__row_state *rows = &exec->rows;
    if (rows->time == NULL || exec->row == NULL)
        return;
    tt_row_time *time = row_of(exec);
    time->idle += seconds;
    if (rows->peer[flight] < 0)
        return;
    time->waited += seconds;
    rows->sums.waited[rows->peer[flight]] += seconds;
    if (seconds > rows->longest || time->peer < 0) {
        rows->longest = seconds;
        time->peer = rows->peer[flight];
    }
}

static void sleep_until(double when)
{
    double left = when - tt_clock_seconds();
    while (left > 0) {
        const struct timespec pause = {.tv_sec = (time_t)left,
                                       .tv_nsec = (long)(fmod(left, 1) * 1e9)};
        (void)nanosleep(&pause, NULL);
        left = when - tt_clock_seconds();
    }
}

// Sleeps until the row has computed for so long as it shall, but for `room` seconds.
static tt_status pace(tt_exec *exec, double room)
{
    const tt_row_time *row = row_of(exec);
    const double until =
        row->start + row->idle + exec->options.pace[exec->row->segment] - room;
    TT_TRY(tt_memory_wait(exec->backend));
    sleep_until(until);
    return TT_OK;
}

tt_status tt__row_send(tt_exec *exec)
{
    tt__row_state *rows = &exec->rows;
    if (exec->options.pace == NULL || rows->sent > 0)
        return TT_OK;
    TT_TRY(pace(exec, rows->tail[exec->row->segment]));
    rows->sent = tt_clock_seconds();
    return TT_OK;
}

tt_status tt__row_end(tt_exec *exec)
{
    tt__row_state *rows = &exec->rows;
    if (rows->time == NULL)
        return TT_OK;
    tt_row_time *row = row_of(exec);
    if (exec->options.pace != NULL) {
        const double end = tt_clock_seconds();
        const double over = end - row->start - row->idle -
                            exec->options.pace[exec->row->segment];
        if (rows->sent > 0)
            rows->tail[exec->row->segment] = end - rows->sent;
        rows->sums.n_paced++;
        rows->sums.n_late +=
            over > 0.05 * exec->options.pace[exec->row->segment];
        TT_TRY(pace(exec, 0));
    }
    row->end = tt_clock_seconds();
    return TT_OK;
}

// ---- sums ----------------------------------------------------------------

static void clear_sums(tt_exec *exec)
{
    tt_row_sums *sums = &exec->rows.sums;
    for (int32_t i = 0; i < exec->plan->n_order; i++)
        sums->computed[i] = 0;
    for (int32_t r = 0; r < tt_mesh_ranks(&exec->plan->graph->mesh); r++)
        sums->waited[r] = 0;
    sums->n_runs = sums->n_steps = sums->n_paced = sums->n_late = 0;
    sums->bubble = sums->span = 0;
}

void tt__rows_reset(tt_exec *exec)
{
    if (exec->rows.time != NULL)
        clear_sums(exec);
}

// The first run also loads kernels, so it counts only where there is no other.
void tt__rows_run_ended(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    const tt_row_time *time = exec->rows.time;
    tt_row_sums *sums = &exec->rows.sums;
    double last = 0;
    if (time == NULL || plan->n_order == 0)
        return;
    if (exec->until > 0 && sums->n_runs > 0 &&
        exec->until < plan->n_micro * plan->n_updates)
        return; // not all of its rows
    for (int32_t i = 0; i < plan->n_order; i++) {
        if (exec->until > 0 && plan->order[i].micro >= exec->until)
            continue;
        sums->computed[i] += time[i].end - time[i].start - time[i].waited;
        if (plan->segment[plan->order[i].segment].phase == TT_UPDATE)
            continue;
        sums->bubble += i > 0 ? time[i].waited : 0;
        last = fmax(last, time[i].end);
    }
    sums->span += fmax(0, last - time[0].start - time[0].waited);
    sums->n_runs++;
    sums->n_steps +=
        exec->until > 0 ? exec->until / plan->n_micro : plan->n_updates;
}

void tt__rows_run_begins(tt_exec *exec)
{
    if (exec->rows.time != NULL && exec->rows.n_runs++ == 1)
        clear_sums(exec);
}

const tt_row_time *tt_exec_rows(const tt_exec *exec)
{
    return exec->rows.time;
}

const tt_row_sums *tt_exec_row_sums(const tt_exec *exec)
{
    return exec->rows.time != NULL ? &exec->rows.sums : NULL;
}
