// driven - a rank runs what has arrived.
//
// The problem. A schedule with a fixed order waits for the message of its next row, though
// that of another row may be here: of a rank that is late today, or on a link that is.
//
// The idea (AxoNN). Rows are a set. The receives of all rows that could come next are
// posted; when a row ends, the executor asks the wire which have come, and takes one.
//
//   slot     micro-batch, its next row     message
//    0       2   backward                  not yet
//    1       3   backward                  has come: runs next
//    2       4   forward                   has come: gradients go first
//    3       5   forward                   not yet
//
// The rule. A micro-batch takes a free slot, in the order of micro-batches, and keeps it
// until its last row. Of the rows that can run, gradients come before forward rows: ranks
// before wait for them, and they free slots. Of each kind, what came first. If none can
// run, the rank waits for any message, with the deadline of the transport.
//
// No deadlock: a rank always has a receive posted for all that others may send it. The
// first rank has at most `bound` micro-batches in flight, so no other needs more slots.
// First and last are those of the rows as they run: sums of gradients are taken in that
// order.
//
//   cost    a look at each slot before each row: a lock each. Memory: what is received
//           lies in the slot (plan/lifetime.c)

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/state.h"

// ---- the rows ------------------------------------------------------------

static tt_phase phase_of(const tt_exec *exec, int32_t row)
{
    return exec->plan->segment[exec->order[row].segment].phase;
}

static void link_rows(tt_exec *exec)
{
    tt__driven *d = &exec->driven;
    for (int32_t m = 0; m < exec->plan->n_micro; m++)
        d->first_row[m] = -1;
    for (int32_t i = exec->plan->n_order - 1; i >= 0; i--) {
        int32_t *first = &d->first_row[d->order[i].micro];
        d->after[i] = -1;
        if (phase_of(exec, i) == TT_UPDATE)
            continue;
        d->after[i] = *first;
        *first = i;
    }
}

static void index_flights(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__driven *d = &exec->driven;
    int32_t n = 0;
    for (int32_t s = 0; s < plan->n_segments; s++) {
        const tt_segment *segment = &plan->segment[s];
        d->first_flight[s] = n;
        for (int32_t f = 0; f < plan->n_flights; f++)
            if (plan->flight[f].is_ahead &&
                plan->flight[f].begin >= segment->first &&
                plan->flight[f].begin < segment->first + segment->n)
                d->flight[n++] = f;
    }
    d->first_flight[plan->n_segments] = n;
}

tt_status tt__driven_init(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__driven *d = &exec->driven;
    const int64_t word = sizeof(int32_t);
    exec->order = plan->order;
    if (plan->bound == 0)
        return TT_OK;
    d->order = tt_alloc((plan->n_order + 1) * (int64_t)sizeof *d->order);
    d->after = tt_alloc((plan->n_order + 1) * word);
    d->first_row = tt_alloc((plan->n_micro + 1) * word);
    d->next = tt_alloc((plan->n_slots + 1) * word);
    d->n_rows = tt_alloc((plan->n_segments + 1) * word);
    d->left = tt_alloc((plan->n_segments + 1) * word);
    d->flight = tt_alloc((plan->n_flights + 1) * word);
    d->first_flight = tt_alloc((plan->n_segments + 2) * word);
    if (d->order == NULL || d->after == NULL || d->first_row == NULL ||
        d->next == NULL || d->n_rows == NULL || d->left == NULL ||
        d->flight == NULL || d->first_flight == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d rows", plan->n_order);
    for (int32_t i = 0; i < plan->n_order; i++) {
        d->order[i] = plan->order[i];
        d->n_rows[d->order[i].segment]++;
    }
    exec->order = d->order;
    link_rows(exec);
    index_flights(exec);
    return TT_OK;
}

void tt__driven_fini(tt_exec *exec)
{
    tt__driven *d = &exec->driven;
    tt_free(d->order);
    tt_free(d->after);
    tt_free(d->first_row);
    tt_free(d->next);
    tt_free(d->n_rows);
    tt_free(d->left);
    tt_free(d->flight);
    tt_free(d->first_flight);
}

// ---- what can run --------------------------------------------------------

// The row comes next in its slot: what it needs of others is asked for.
static tt_status expect(tt_exec *exec, int32_t slot, int32_t row)
{
    tt__driven *d = &exec->driven;
    d->next[slot] = row;
    if (row < 0)
        return TT_OK;
    tt_order *order = &d->order[row];
    const int32_t s = order->segment;
    order->slot = slot;
    for (int32_t i = d->first_flight[s]; i < d->first_flight[s + 1]; i++)
        TT_TRY(tt__exec_flight_expect(exec, d->flight[i], order));
    return TT_OK;
}

// A free slot goes to the next micro-batch.
static tt_status start(tt_exec *exec, int32_t slot)
{
    tt__driven *d = &exec->driven;
    int32_t row = -1;
    while (row < 0 && d->n_started < exec->plan->n_micro)
        row = d->first_row[d->n_started++];
    return expect(exec, slot, row);
}

tt_status tt__driven_begin(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__driven *d = &exec->driven;
    if (plan->bound == 0)
        return TT_OK;
    d->n_started = 0;
    for (int32_t s = 0; s < plan->n_segments; s++)
        d->left[s] = d->n_rows[s];
    for (int32_t slot = 0; slot < plan->n_slots; slot++)
        TT_TRY(start(exec, slot));
    return TT_OK;
}

// A row that could be run, and when the last of its messages came.
typedef struct choice {
    int32_t row;    // -1: none
    int32_t flight; // whose message was the last; -1: it needed none
    double since;
    bool is_gradient;
} choice;

static bool can_run(const tt_exec *exec, int32_t row, choice *out)
{
    const tt__driven *d = &exec->driven;
    const tt_order *order = &d->order[row];
    *out = (choice){.row = row,
                    .flight = -1,
                    .is_gradient = phase_of(exec, row) != TT_FORWARD};
    for (int32_t i = d->first_flight[order->segment];
         i < d->first_flight[order->segment + 1]; i++) {
        double since = 0;
        if (!tt__exec_flight_came(exec, d->flight[i], order, &since))
            return false;
        if (out->flight < 0 || since > out->since) {
            out->flight = d->flight[i];
            out->since = since;
        }
    }
    return true;
}

static bool is_better(const tt_exec *exec, const choice *a, const choice *b)
{
    if (b->row < 0 || a->is_gradient != b->is_gradient)
        return b->row < 0 || a->is_gradient;
    if (a->since != b->since)
        return a->since < b->since;
    return exec->order[a->row].micro < exec->order[b->row].micro;
}

static choice choose(const tt_exec *exec)
{
    choice best = {.row = -1};
    for (int32_t slot = 0; slot < exec->plan->n_slots; slot++) {
        const int32_t row = exec->driven.next[slot];
        choice x;
        if (row >= 0 && can_run(exec, row, &x) && is_better(exec, &x, &best))
            best = x;
    }
    return best;
}

// ---- a run ---------------------------------------------------------------

static tt_status wait_for_one(tt_exec *exec, choice *out)
{
    const tt_wire *wire = exec->options.wire;
    const double start = tt_clock_seconds();
    int64_t n_over = -1;
    bool has_waited = false;
    for (;;) {
        if (wire != NULL &&
            wire->wait_any != NULL) // before the look: none is missed
            TT_TRY(wire->wait_any(wire->ctx, &n_over));
        *out = choose(exec);
        if (out->row >= 0)
            break;
        if (wire == NULL || wire->wait_any == NULL)
            return tt_fail(TT_ERR_STATE,
                           "no row of rank %d can run, and none is waited for",
                           exec->plan->rank);
        has_waited = true;
    }
    exec->driven.waited = has_waited ? tt_clock_seconds() - start : 0;
    exec->driven.waited_for = out->flight;
    exec->stats.wait_seconds += exec->driven.waited;
    return TT_OK;
}

// The update comes after all other rows.
tt_status tt__driven_next(tt_exec *exec, int32_t i, const tt_order **row_out)
{
    tt__driven *d = &exec->driven;
    choice x = {.row = i};
    if (exec->plan->bound == 0) {
        *row_out = &exec->order[i];
        return TT_OK;
    }
    d->waited = 0;
    if (phase_of(exec, i) != TT_UPDATE)
        TT_TRY(wait_for_one(exec, &x));
    tt_order *row = &d->order[x.row];
    row->is_first = d->left[row->segment] == d->n_rows[row->segment];
    row->is_last = --d->left[row->segment] == 0;
    *row_out = row;
    return TT_OK;
}

tt_status tt__driven_ended(tt_exec *exec)
{
    const int32_t row = (int32_t)(exec->row - exec->order);
    if (exec->plan->bound == 0 || phase_of(exec, row) == TT_UPDATE)
        return TT_OK;
    const int32_t slot = exec->row->slot, after = exec->driven.after[row];
    return after >= 0 ? expect(exec, slot, after) : start(exec, slot);
}
