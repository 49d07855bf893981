// run - one step of training: the plan's order, timed.
//
//   for each (segment, micro-batch) of the plan's order,        run_order
//   or of those whose messages are here:                        driven.c
//     feed the micro-batch's inputs, if it is the first of it
//     keep the weights that an update replaces, if somebody still reads them
//     for each step, or piece of steps (replay.c):              run_segment
//       wait for flights that must be over before it            flights.c
//       begin flights that begin before it
//       run the kernel, or replay the piece
//       end copies from and to the host that must be over
//     note when the row began and ended, if that is wanted      rows.c
//
// Nothing is looked up or allocated here: kernels and addresses were resolved when the
// executor was made. On a device a kernel is only queued. The host waits for it where
// somebody reads a value, and where a flight must be over.

#include "base/clock.h"
#include "exec/coding.h"
#include "exec/limit.h"
#include "exec/rows.h"
#include "exec/signals.h"
#include "exec/state.h"

#include <omp.h>

tt_status tt__check_finite(const tt_exec *exec, const tt_step *step,
                           int32_t micro)
{
    tt__culprit c;
    if (!exec->options.check_finite)
        return TT_OK;
    TT_TRY(tt__find_not_finite(exec, step, &c));
    if (c.index < 0)
        return TT_OK;
    return tt_fail(TT_ERR_STATE,
                   "%s produced %s (first at element %lld of output %d) in "
                   "micro-batch %d of step %lld",
                   step->name, c.is_nan ? "NaN" : "Inf", (long long)c.index,
                   c.output, micro + 1, (long long)exec->n_runs + 1);
}

void tt__trace_record(tt_exec *exec, const tt__event *event)
{
    if (exec->event != NULL)
        exec->event[exec->n_events++ % exec->events_capacity] = *event;
}

static void record(tt_exec *exec, int32_t s, int32_t micro, double start)
{
    const double seconds = tt_clock_seconds() - start;
    if (!exec->options.marks)
        exec->step_seconds[s] += seconds;
    exec->stats.kernel_seconds += seconds;
    tt__coding_note(exec, s, seconds);
    exec->stats.n_steps++;
    exec->stats.flops += exec->plan->step[s].cost.flops;
    tt__trace_record(exec, &(tt__event){s, micro, start, seconds, -1, false});
}

// Ends the copies from and to the host that must be over after this step.
static tt_status end_copies(tt_exec *exec, int32_t s)
{
    const tt_step *step = exec->plan->step;
    for (int32_t c = step[s].ends; c >= 0; c = step[c].next_end)
        TT_TRY(tt_kernel_finish(step[c].choice.kernel, tt__args_of(exec, c)));
    return TT_OK;
}

static tt_status run_step(tt_exec *exec, int32_t s)
{
    const tt_step *step = &exec->plan->step[s];
    const int32_t micro = exec->row->micro;
    tt_args *args = tt__args_of(exec, s);
    args->accumulate =
        step->accumulate == TT_ADD ||
        (step->accumulate == TT_ADD_AFTER_FIRST && !exec->row->is_first);
    if (exec->between != NULL)
        TT_TRY(exec->between(exec->between_user));
    const double start = tt_clock_seconds();
    TT_TRY(tt__mark(exec, s, false));
    tt_status status = tt_kernel_begin(step->choice.kernel, args);
    if (status == TT_OK)
        status = tt__mark(exec, s, true);
    if (status == TT_OK)
        status = end_copies(exec, s);
    if (status == TT_OK && (exec->options.wait || exec->options.trace))
        status = tt_memory_wait(exec->backend);
    record(exec, s, micro, start);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", step->name);
    return tt__check_finite(exec, step, micro);
}

tt_status tt__run_steps(tt_exec *exec, int32_t first, int32_t end)
{
    for (int32_t s = first; s < end; s++)
        if (!tt_op_is_collective(exec->plan->step[s].op) &&
            tt_step_runs(exec->row, &exec->plan->step[s]) &&
            (exec->wanted == NULL || exec->wanted[s]))
            TT_TRY(run_step(exec, s));
    return TT_OK;
}

static tt_status run_segment(tt_exec *exec, const tt_order *order)
{
    const tt_segment *segment = &exec->plan->segment[order->segment];
    const int32_t end = segment->first + segment->n;
    for (int32_t s = segment->first, next; s < end; s = next) {
        tt__recording *piece = tt__recording_at(exec, s);
        TT_TRY(tt__exec_flights_finish(exec, s));
        TT_TRY(tt__exec_flights_begin(exec, s, order));
        next = piece != NULL ? piece->end : s + 1;
        if (piece != NULL && tt_step_runs(order, &exec->plan->step[s]))
            TT_TRY(tt__recording_run(exec, piece));
        else if (piece == NULL)
            TT_TRY(tt__run_steps(exec, s, next));
    }
    return tt__exec_flights_finish(exec, end);
}

static tt_status feed_micro(tt_exec *exec, tt_feed_fn *feed, void *user,
                            int32_t micro)
{
    const double start = tt_clock_seconds();
    const tt_status status = feed(user, exec, micro);
    exec->stats.feed_seconds += tt_clock_seconds() - start;
    return status;
}

static char *buffer_address(const tt_exec *exec, int32_t buffer)
{
    const tt_ref ref = {.buffer = buffer};
    return tt__address(exec, &ref);
}

// Before an update: keeps the weights that it replaces (plan/stash.c).
static tt_status keep_weights(tt_exec *exec, const tt_order *order)
{
    const tt_plan *plan = exec->plan;
    const tt_segment *segment = &plan->segment[order->segment];
    const bool is_one = tt_mesh_pipe(&plan->graph->mesh) >= 0;
    for (int32_t i = 0; i < plan->n_stashes && order->place > 0; i++) {
        const tt_stash *stash = &plan->stash[i];
        if (is_one || stash->stage == segment->stage)
            TT_TRY(tt_memory_copy(
                exec->backend,
                buffer_address(exec, stash->place[order->place - 1]),
                buffer_address(exec, stash->buffer),
                plan->buffer[stash->buffer].bytes));
    }
    return TT_OK;
}

static bool is_beyond_limit(const tt_exec *exec, const tt_order *order)
{
    return exec->n_micros > 0 && order->micro >= exec->n_micros;
}

static tt_status run_row(tt_exec *exec, bool is_first, tt_feed_fn *feed,
                         void *user)
{
    const tt_order *order = exec->row;
    tt__row_begin(exec);
    if (order->is_new)
        TT_TRY(tt__exec_slot_clear(exec, order->slot));
    if (order->is_new && feed != NULL)
        TT_TRY(feed_micro(exec, feed, user, order->micro));
    if (is_beyond_limit(exec, order)) // that the feed has set
        return tt__row_end(exec);
    if (exec->before_row != NULL)
        TT_TRY(exec->before_row(exec->before_user, exec, order));
    if (is_first)
        TT_TRY(tt__mark_run(exec, false));
    if (exec->plan->segment[order->segment].phase == TT_UPDATE) {
        TT_TRY(tt__drain_hold(exec));
        TT_TRY(keep_weights(exec, order));
    }
    TT_TRY(run_segment(exec, order));
    return tt__row_end(exec);
}

// The row from `i` on that belongs to this stretch; n_order: there is none.
static int32_t next_row(const tt_exec *exec, int32_t i)
{
    const tt_plan *plan = exec->plan;
    while (i < plan->n_order && exec->until > 0 &&
           plan->order[i].micro >= exec->until)
        i++;
    return i;
}

// The rows of a part, of an order that is one step.
static tt_status run_rows(tt_exec *exec, tt_feed_fn *feed, void *user)
{
    bool is_first = true;
    for (int32_t i = 0; i < exec->plan->n_order; i++) {
        const tt_order *order = &exec->plan->order[i];
        const bool updates =
            exec->plan->segment[order->segment].phase == TT_UPDATE;
        if (updates != (exec->part == TT_RUN_UPDATE) ||
            is_beyond_limit(exec, order))
            continue;
        exec->row = order;
        TT_TRY(run_row(exec, is_first, feed, user));
        is_first = false;
    }
    return tt__mark_run(exec, true);
}

// Of a stretch: all rows that are left belong to it.
static bool is_last_step(const tt_exec *exec, const tt_order *order)
{
    return exec->until > 0 && order->micro + 1 >= exec->until;
}

static tt_status run_order(tt_exec *exec, tt_feed_fn *feed, void *user)
{
    bool is_first = true, is_over = false;
    if (exec->next == 0)
        TT_TRY(tt__driven_begin(exec));
    while (!is_over && exec->next < exec->plan->n_order) {
        const tt_order *order = NULL;
        TT_TRY(tt__driven_next(exec, exec->next, &order));
        exec->row = order;
        exec->next = next_row(exec, exec->next + 1);
        TT_TRY(run_row(exec, is_first, feed, user));
        TT_TRY(tt__driven_ended(exec));
        is_over = order->ends_step && !is_last_step(exec, order);
        is_first = false;
    }
    return tt__mark_run(exec, true);
}

// Nothing is on its way: the next run begins with the first row.
static void start_over(tt_exec *exec)
{
    exec->next = 0;
    exec->until = 0;
}

tt_status tt_exec_stretch(tt_exec *exec, int32_t n_steps)
{
    if (exec->next != 0 || n_steps < 1 || n_steps > exec->plan->n_updates)
        return tt_fail(TT_ERR_STATE,
                       "%d steps cannot be begun at row %d of a plan with %d",
                       n_steps, exec->next, exec->plan->n_updates);
    exec->until = n_steps * exec->plan->n_micro;
    return TT_OK;
}

void tt_exec_before_rows(tt_exec *exec, tt_row_fn *fn, void *user)
{
    exec->before_row = fn;
    exec->before_user = user;
}

void tt_exec_between(tt_exec *exec, tt_between_fn *fn, void *user)
{
    exec->between = fn;
    exec->between_user = user;
}

tt_status tt_exec_run_part(tt_exec *exec, tt_exec_part part, const bool *wanted,
                           tt_feed_fn *feed, void *user)
{
    exec->part = part;
    exec->wanted = wanted;
    const tt_status status = tt_exec_run(exec, feed, user);
    exec->part = TT_RUN_ALL;
    exec->wanted = NULL;
    return status;
}

void tt_exec_limit(tt_exec *exec, int32_t n_micros)
{
    exec->n_micros = n_micros;
}

tt_status tt_exec_run(tt_exec *exec, tt_feed_fn *feed, void *user)
{
    const int n_threads = exec->backend->options.n_threads;
    sigset_t before;
    omp_set_num_threads(n_threads);
    const double start = tt_clock_seconds();
    tt__exec_flights_order(exec);
    if (exec->next == 0)
        tt__rows_run_begins(exec);
    tt__exec_signals_hold(n_threads, &before);
    const tt_status status = exec->part == TT_RUN_ALL
                                 ? run_order(exec, feed, user)
                                 : run_rows(exec, feed, user);
    tt__exec_signals_release(&before);
    exec->row = NULL;
    if (status != TT_OK)
        start_over(exec);
    TT_TRY(status);
    TT_TRY(tt__marks_read(exec));
    if (exec->next >= exec->plan->n_order) {
        tt__rows_run_ended(exec);
        start_over(exec);
    }
    exec->stats.wall_seconds += tt_clock_seconds() - start;
    tt__coding_ran(exec);
    exec->stats.n_runs++;
    exec->n_runs++;
    return TT_OK;
}

static const tt_order *find_aside(const tt_plan *plan, tt_phase phase,
                                  int32_t stage)
{
    for (int32_t i = 0; i < plan->n_aside; i++) {
        const tt_order *row = &plan->order[plan->n_order + i];
        if (plan->segment[row->segment].phase == phase &&
            plan->segment[row->segment].stage == stage)
            return row;
    }
    return NULL;
}

static tt_status run_aside(tt_exec *exec, const tt_order *row)
{
    exec->row = row;
    tt__row_begin(exec);
    TT_TRY(tt__drain_hold(exec));
    TT_TRY(run_segment(exec, row));
    return tt__row_end(exec);
}

tt_status tt_exec_run_aside(tt_exec *exec, tt_phase phase, int32_t stage)
{
    const int n_threads = exec->backend->options.n_threads;
    const tt_order *row = find_aside(exec->plan, phase, stage);
    sigset_t before;
    if (row == NULL)
        return tt_fail(TT_ERR_STATE, "the plan has no segment %s.%d",
                       tt_phase_name(phase), stage);
    omp_set_num_threads(n_threads);
    const double start = tt_clock_seconds();
    tt__exec_signals_hold(n_threads, &before);
    const tt_status status = run_aside(exec, row);
    tt__exec_signals_release(&before);
    exec->row = NULL;
    exec->stats.wall_seconds += tt_clock_seconds() - start;
    return status;
}

void tt_exec_stats_get(const tt_exec *exec, tt_exec_stats *stats_out)
{
    *stats_out = exec->stats;
    const double wall = exec->stats.wall_seconds;
    stats_out->overhead_fraction =
        wall > 0 ? (wall - exec->stats.kernel_seconds -
                    exec->stats.feed_seconds - exec->stats.wait_seconds) /
                       wall
                 : 0;
}

void tt_exec_stats_reset(tt_exec *exec)
{
    exec->stats = (tt_exec_stats){0};
    tt__rows_reset(exec);
    for (int32_t s = 0; s < exec->plan->n_steps; s++)
        exec->step_seconds[s] = 0;
}

const double *tt_exec_step_seconds(const tt_exec *exec)
{
    return exec->step_seconds;
}
