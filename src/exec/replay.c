// replay - pieces of the plan that a device repeats by itself, recorded once.
//
// The problem. Launching kernels one by one takes the host's time. The idea. Steps
// between two actions of the host are a piece, and a device (CUDA graphs) records it in
// its second run and replays it from then on.
//
//   steps    a b c | d e f g | h i ...       |: the host acts
//   pieces   [---]   [-----]   [---
//
// A piece ends where a flight begins or must be over, where a copy from or to the host
// begins or must be over, or at a kernel that runs on the host. Arguments are those of
// the recording, so whatever changes between runs must lie in the device's memory. Two
// things differ between micro-batches: addresses, which are those of a slot and of a version
// of the weights, and whether kernels add. So there are up to two recordings for each slot
// and version.
//
// Traces, marks and the search for NaN look at single steps, so they launch each step.

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/coding.h"
#include "exec/state.h"

enum { LEAST_STEPS = 3 }; // fewer are launched just as fast

static const tt_memory_def *memory_of(const tt_exec *exec)
{
    return exec->backend->def->memory;
}

static bool is_wanted(const tt_exec *exec)
{
    const tt_exec_options *o = &exec->options;
    const tt_memory_def *memory = memory_of(exec);
    // Ordered by magnitude, flights begin at other steps in every run.
    return memory != NULL && memory->record != NULL &&
           !exec->backend->options.launch && !o->trace && !o->wait &&
           !o->marks && !o->check_finite &&
           exec->plan->flight_order != TT_ORDER_MAGNITUDE;
}

// Copies from and to the host begin and end between pieces.
static bool is_repeatable(const tt_step *step)
{
    return !tt_op_is_collective(step->op) && !step->is_beside &&
           step->ends < 0 && !tt_kernel_is_staged(step->choice.kernel);
}

// Whether the host does something between the step and the one before it, or there are
// rows that run only one of them.
static bool is_cut(const tt_exec *exec, int32_t s)
{
    const tt__exec_flights *flights = &exec->flights;
    const tt_step *step = &exec->plan->step[s];
    if (s > 0 && (step[-1].phase == TT_UPDATE) != (step->phase == TT_UPDATE))
        return true;
    return flights->first_begin[s] != flights->first_begin[s + 1] ||
           flights->first_end[s] != flights->first_end[s + 1];
}

static void add_piece(tt_exec *exec, int32_t first, int32_t end)
{
    tt__recording *p = &exec->piece[exec->n_pieces];
    if (end - first < LEAST_STEPS)
        return;
    *p = (tt__recording){.first = first, .end = end};
    for (int32_t s = first; s < end; s++)
        p->differs =
            p->differs || exec->plan->step[s].accumulate == TT_ADD_AFTER_FIRST;
    exec->n_pieces++;
}

static void cut_segment(tt_exec *exec, const tt_segment *segment)
{
    const int32_t end = segment->first + segment->n;
    int32_t first = segment->first;
    for (int32_t s = segment->first; s < end; s++) {
        const bool is_whole = is_repeatable(&exec->plan->step[s]);
        if (!is_whole || is_cut(exec, s)) {
            add_piece(exec, first, s);
            first = is_whole ? s : s + 1;
        }
    }
    add_piece(exec, first, end);
}

tt_status tt__replay_init(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    if (!is_wanted(exec))
        return TT_OK;
    exec->piece = tt_alloc((plan->n_steps / LEAST_STEPS + 1) *
                           (int64_t)sizeof *exec->piece);
    if (exec->piece == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d steps", plan->n_steps);
    for (int32_t i = 0; i < plan->n_segments; i++)
        cut_segment(exec, &plan->segment[i]);
    const int64_t takes = 2 * (int64_t)plan->n_places * plan->n_slots;
    exec->take =
        tt_alloc((exec->n_pieces * takes + 1) * (int64_t)sizeof *exec->take);
    if (exec->take == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d steps", plan->n_steps);
    for (int32_t i = 0; i < exec->n_pieces; i++)
        exec->piece[i].take = exec->take + i * takes;
    return TT_OK;
}

void tt__replay_fini(tt_exec *exec)
{
    const int64_t n = 2 * (int64_t)exec->n_pieces * exec->plan->n_places *
                      exec->plan->n_slots;
    for (int64_t i = 0; i < n && exec->take != NULL; i++)
        memory_of(exec)->forget(exec->backend, exec->take[i].recording);
    tt_free(exec->take);
    tt_free(exec->piece);
    exec->take = NULL;
    exec->piece = NULL;
    exec->n_pieces = 0;
}

tt__recording *tt__recording_at(const tt_exec *exec, int32_t step)
{
    int32_t low = 0, high = exec->n_pieces;
    while (low < high) {
        const int32_t k = (low + high) / 2;
        if (exec->piece[k].first < step)
            low = k + 1;
        else
            high = k;
    }
    return low < exec->n_pieces && exec->piece[low].first == step
               ? &exec->piece[low]
               : NULL;
}

// Recording computes nothing, so statistics stay as they were.
static tt_status record(tt_exec *exec, tt__recording *p, void **recording_out)
{
    const tt_exec_stats before = exec->stats;
    TT_TRY(memory_of(exec)->record(exec->backend));
    const tt_status status = tt__run_steps(exec, p->first, p->end);
    exec->stats = before;
    return memory_of(exec)->recorded(exec->backend, status == TT_OK,
                                     recording_out);
}

tt_status tt__recording_run(tt_exec *exec, tt__recording *piece)
{
    const int way = piece->differs && !exec->row->is_first ? 1 : 0;
    const int64_t set = (tt__args_of(exec, 0) - exec->args) /
                        exec->plan->n_steps; // of addresses
    tt__piece_take *take = &piece->take[2 * set + way];
    if (take->recording == NULL && !piece->is_direct && take->n_runs++ > 0) {
        TT_TRY(record(exec, piece, &take->recording));
        piece->is_direct = take->recording == NULL;
    }
    if (take->recording == NULL)
        return tt__run_steps(exec, piece->first, piece->end);
    const double start = tt_clock_seconds();
    TT_TRY(memory_of(exec)->replay(exec->backend, take->recording));
    exec->stats.kernel_seconds += tt_clock_seconds() - start;
    exec->stats.n_steps += piece->end - piece->first;
    exec->stats.n_replayed += piece->end - piece->first;
    for (int32_t s = piece->first; s < piece->end; s++) {
        exec->stats.flops += exec->plan->step[s].cost.flops;
        tt__coding_note(exec, s, 0);
    }
    return TT_OK;
}
