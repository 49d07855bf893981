// segments - the order in which nodes run: grouped by (phase, stage), within a
// group as in the graph, but for those that wait (wait.c).
//
//   forward.0 forward.1 ... backward.1 backward.0 [weight_grad.1 ...] update.0 | aside
//
// Phases aside (graph.h) are no part of a step: each of their segments has a row of its
// own after the rows of a step, and is run when somebody asks for it.
//
// Weight gradients run between the backward nodes, where their operands are
// still in the cache, unless they were asked to be apart.

#include "plan/flights.h"
#include "plan/stash.h"

static tt_phase group_phase(const tt__lower *l, int32_t n)
{
    return l->runs_in[n] == TT_WEIGHT_GRAD && !l->split_weight_grad
               ? TT_BACKWARD
               : l->runs_in[n];
}

// Groups in running order: gradients go through the stages backwards.
static int32_t group_of(tt_phase phase, int32_t stage, int32_t n_stages)
{
    const bool is_reverse = phase == TT_BACKWARD || phase == TT_WEIGHT_GRAD;
    return (int32_t)phase * n_stages +
           (is_reverse ? n_stages - 1 - stage : stage);
}

static tt_status check_order(const tt__lower *l)
{
    for (int32_t p = 0; p < l->n_at; p++) {
        const tt_node *node = &l->g->node[l->node_at[p]];
        for (int i = 0; i < node->n_in && l->is_here[l->node_at[p]]; i++) {
            if (!tt_is(node->in[i]))
                continue;
            const tt_value *v = tt_graph_value(l->g, node->in[i]);
            if (v->node >= 0 && l->is_here[v->node] && l->at[v->node] >= p)
                return tt_fail(
                    TT_ERR_STATE,
                    "%s: %s (%s, stage %d) reads %s, which is computed later",
                    node->origin, node->op->name, tt_phase_name(node->phase),
                    l->stage[l->node_at[p]], v->name);
        }
    }
    return TT_OK;
}

static tt_status place_nodes(tt__lower *l, int32_t n_stages, int32_t *start)
{
    const tt_graph *g = l->g;
    const int32_t n_groups = TT_N_PHASES * n_stages;
    int32_t *order =
        tt_arena_alloc(l->arena, (g->n_nodes + 1) * (int64_t)sizeof(*order));
    if (order == NULL)
        return TT_ERR_NOMEM;
    tt__order_nodes(g, order);
    for (int32_t n = 0; n < g->n_nodes; n++)
        l->runs_in[n] = g->node[n].phase;
    TT_TRY(tt__early_find(l, order));
    for (int32_t n = 0; n < g->n_nodes; n++)
        start[1 + group_of(group_phase(l, n), l->stage[n], n_stages)]++;
    for (int32_t i = 0; i < n_groups; i++)
        start[i + 1] += start[i];
    int32_t *next =
        tt_arena_copy(l->arena, start, n_groups * (int64_t)sizeof(*next));
    if (next == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const int32_t n = order[i];
        const int32_t group =
            group_of(group_phase(l, n), l->stage[n], n_stages);
        l->at[n] = next[group]++;
        l->node_at[l->at[n]] = n;
    }
    l->n_at = g->n_nodes;
    return check_order(l);
}

static tt_status add_segments(tt__lower *l, int32_t n_stages,
                              const int32_t *start)
{
    tt_plan *plan = l->plan;
    const int32_t n_groups = TT_N_PHASES * n_stages;
    plan->segment =
        tt_arena_alloc(plan->arena, n_groups * (int64_t)sizeof(*plan->segment));
    if (plan->segment == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n_groups; i++) {
        if (start[i] == start[i + 1])
            continue;
        const tt_phase phase = group_phase(l, l->node_at[start[i]]);
        const int32_t stage = l->stage[l->node_at[start[i]]];
        const char *name =
            tt_arena_printf(plan->arena, "%s.%d", tt_phase_name(phase), stage);
        if (name == NULL)
            return TT_ERR_NOMEM;
        plan->segment[plan->n_segments++] =
            (tt_segment){.name = name,
                         .phase = phase,
                         .stage = stage,
                         .first = start[i],
                         .n = start[i + 1] - start[i]};
    }
    return TT_OK;
}

// Every micro-batch forward then backward.
static void add_usual(tt_plan *plan)
{
    for (int32_t m = 0; m < plan->n_micro; m++)
        for (int32_t s = 0; s < plan->n_segments; s++)
            if (plan->segment[s].phase < TT_UPDATE)
                plan->order[plan->n_order++] =
                    (tt_order){.segment = s, .micro = m};
}

static int32_t find_segment(const tt_plan *plan, tt_phase phase, int32_t stage)
{
    for (int32_t s = 0; s < plan->n_segments; s++)
        if (plan->segment[s].phase == phase && plan->segment[s].stage == stage)
            return s;
    return -1;
}

static int64_t all_micro(const tt_plan *plan)
{
    return (int64_t)plan->n_micro * plan->n_updates;
}

static bool is_update(const tt_plan *plan, int32_t row)
{
    return plan->segment[plan->order[row].segment].phase == TT_UPDATE;
}

// A micro-batch takes the first free slot with its first row and frees it with its last.
static tt_status assign_slots(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int64_t n = all_micro(plan);
    int32_t *left = tt_arena_alloc(l->arena, n * (int64_t)sizeof(*left));
    int32_t *slot = tt_arena_alloc(l->arena, n * (int64_t)sizeof(*slot));
    bool *is_taken = tt_arena_alloc(l->arena, n);
    if (left == NULL || slot == NULL || is_taken == NULL)
        return TT_ERR_NOMEM;
    for (int64_t m = 0; m < n; m++)
        slot[m] = -1;
    for (int32_t i = 0; i < plan->n_order; i++)
        left[plan->order[i].micro] += is_update(plan, i) ? 0 : 1;
    for (int32_t i = 0; i < plan->n_order; i++) {
        const int32_t m = plan->order[i].micro;
        int32_t free = 0;
        if (is_update(plan, i)) // in no slot: it reads the first's scalars
            continue;
        while (slot[m] < 0 && is_taken[free])
            free++;
        slot[m] = slot[m] < 0 ? free : slot[m];
        plan->order[i].slot = slot[m];
        is_taken[slot[m]] = --left[m] > 0;
        if (slot[m] >= plan->n_slots)
            plan->n_slots = slot[m] + 1;
    }
    if (plan->bound > plan->n_slots)
        plan->n_slots =
            plan->bound < plan->n_micro ? plan->bound : plan->n_micro;
    return TT_OK;
}

// On a rank of a pipeline all of the update is one segment.
static int32_t segment_for(const tt__lower *l, const tt_lower_row *row)
{
    const bool is_whole =
        row->phase == TT_UPDATE && tt_mesh_pipe(&l->g->mesh) >= 0;
    return find_segment(l->plan, row->phase, is_whole ? 0 : row->stage);
}

bool tt__is_row(const tt__lower *l, const tt_lower_row *row, int32_t at)
{
    const tt_order *order = &l->plan->order[at];
    return order->micro == row->micro && order->segment == segment_for(l, row);
}

// Of this rank: its update is the last of a step.
static int32_t first_stage(const tt__lower *l)
{
    int32_t first = INT32_MAX;
    for (int32_t i = 0; i < l->n_rows; i++)
        if (l->row[i].stage < first)
            first = l->row[i].stage;
    return first;
}

// The order of a schedule. A stage may have no nodes in a phase.
static tt_status add_rows(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int32_t first = first_stage(l);
    for (int32_t i = 0; i < l->n_rows; i++) {
        const tt_lower_row *row = &l->row[i];
        const int32_t s = segment_for(l, row);
        if (row->micro < 0 || row->micro >= all_micro(plan))
            return tt_fail(TT_ERR_ARG,
                           "row %d of the schedule: there is no micro-batch %d",
                           i, row->micro);
        if (s >= 0)
            plan->order[plan->n_order++] = (tt_order){.segment = s,
                                                      .micro = row->micro,
                                                      .ahead = row->ahead,
                                                      .rate = row->rate};
        if (plan->n_order > 0 && row->phase == TT_UPDATE &&
            row->stage == first) // a stage may have nothing to update
            plan->order[plan->n_order - 1].ends_step = true;
    }
    return assign_slots(l);
}

// `before` if it is a row of the same step as row i; else -1.
static int32_t same_step(const tt_plan *plan, int32_t before, int32_t i)
{
    return before >= 0 && plan->order[before].micro / plan->n_micro ==
                              plan->order[i].micro / plan->n_micro
               ? before
               : -1;
}

// One pass over the rows: `last` has the last row of each segment so far, `micro` that
// of each micro-batch; -1: none.
static tt_status mark_ends(tt__lower *l)
{
    tt_plan *plan = l->plan;
    int32_t *last =
        tt_arena_alloc(l->arena, plan->n_segments * (int64_t)sizeof(*last));
    int32_t *micro =
        tt_arena_alloc(l->arena, all_micro(plan) * (int64_t)sizeof(*micro));
    if (last == NULL || micro == NULL)
        return TT_ERR_NOMEM;
    for (int32_t s = 0; s < plan->n_segments; s++)
        last[s] = -1;
    for (int64_t m = 0; m < all_micro(plan); m++)
        micro[m] = -1;
    for (int32_t i = 0; i < plan->n_order; i++) {
        tt_order *order = &plan->order[i];
        const int32_t before = same_step(plan, last[order->segment], i);
        const bool is_free = is_update(plan, i); // of micro-batches
        const int32_t same = is_free ? -1 : micro[order->micro];
        if (same >= 0 && plan->order[same].segment > order->segment)
            return tt_fail(TT_ERR_ARG,
                           "row %d of rank %d: micro-batch %d comes to %s "
                           "after %s, and memory is planned for the other "
                           "order; let all weight gradients follow the input "
                           "gradients",
                           i, plan->rank, order->micro,
                           plan->segment[order->segment].name,
                           plan->segment[plan->order[same].segment].name);
        order->is_first = before < 0;
        order->is_last = true;
        order->is_new = same < 0 && !is_free;
        if (before >= 0)
            plan->order[before].is_last = false;
        last[order->segment] = i;
        if (!is_free)
            micro[order->micro] = i;
    }
    return TT_OK;
}

// The update comes last, if the rows do not say when.
static tt_status add_order(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int64_t n = (int64_t)plan->n_segments * (plan->n_micro + 1);
    plan->order = tt_arena_alloc(
        plan->arena, (n + l->n_rows) * (int64_t)sizeof(*plan->order));
    if (plan->order == NULL)
        return TT_ERR_NOMEM;
    if (l->row != NULL)
        TT_TRY(add_rows(l));
    else
        add_usual(plan);
    for (int32_t s = 0; s < plan->n_segments && !l->is_endless; s++)
        if (plan->segment[s].phase == TT_UPDATE)
            plan->order[plan->n_order++] =
                (tt_order){.segment = s, .micro = plan->n_micro - 1};
    if (!l->is_endless && plan->n_order > 0)
        plan->order[plan->n_order - 1].ends_step = true;
    for (int32_t s = 0; s < plan->n_segments; s++)
        if (tt_phase_is_aside(plan->segment[s].phase))
            plan->order[plan->n_order + plan->n_aside++] =
                (tt_order){.segment = s, .is_first = true, .is_last = true};
    return mark_ends(l);
}

tt_status tt__segments_make(tt__lower *l)
{
    int32_t n_stages = 1;
    for (int32_t n = 0; n < l->g->n_nodes; n++)
        if (l->stage[n] >= n_stages)
            n_stages = l->stage[n] + 1;
    int32_t *start =
        tt_arena_alloc(l->arena, (TT_N_PHASES * (int64_t)n_stages + 1) *
                                     (int64_t)sizeof(*start));
    if (start == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(place_nodes(l, n_stages, start));
    TT_TRY(add_segments(l, n_stages, start));
    return add_order(l);
}

int32_t tt__landing_of(const tt_plan *plan, int32_t s)
{
    const tt_segment *segment = &plan->segment[s];
    const int32_t land = segment->phase == TT_AGREE
                             ? find_segment(plan, TT_LAND, segment->stage)
                             : -1;
    return land >= 0 ? land : s;
}

const tt_segment *tt__segment_of(const tt_plan *plan, int32_t step)
{
    const tt_segment *segment = plan->segment;
    while (step >= segment->first + segment->n)
        segment++;
    return segment;
}
