// lower - a graph to a plan for one rank.
//
// The problem. A graph says what is computed. To run it fast, somebody must choose
// kernels, find memory, avoid copies, and send gradients while others are still being
// computed. Done while it runs, this costs time in every step, and running out of
// memory is noticed late.
//
// The idea. All of it is decided once, here, and the result is a flat list of steps
// with addresses. The executor only runs it.
//
//   nodes                       in running order                 segments, wait
//     -> uses                   who reads a value, until when, where it should lie
//     -> node by node           ask the target for a kernel      node
//          views                no step: strides into another buffer
//          concat               inputs are written where they belong in the output
//          accumulate           terms are added to the sum by the kernel that makes them
//          convert              a step, where a kernel wants another layout
//     -> flights                which collectives travel together, from when to when
//     -> lifetimes -> offsets   lifetime, pack
//
// The target answers questions about one machine (target.h): which kernel, in which
// layouts, with how much scratch memory. This folder sees no backend. Operands are
// offered as they lie. What the kernel asks for instead costs a conversion, except
// for weights: a weight gets its layout from its first reader, and keeps it.
//
// Ranks. Everything here is for one rank. But all ranks must begin the same
// collectives in the same order, so what decides about flights is the order of nodes
// and sizes of whole values, never this rank's part.
//
//   cost    one kernel is prepared per step; on a GPU that may measure algorithms, and
//           backend/choices.h keeps what was measured
//   left    layouts of activations chosen for several nodes at once: each kernel says
//           what it wants, given how its inputs lie
//
// lower.h says what each file does.

#include "plan/flights.h"
#include "plan/stash.h"

static tt_status make_plan(const tt_graph *g, tt_target *target,
                           const tt_lower_options *options, tt_plan **plan_out)
{
    if (options->n_micro < 0)
        return tt_fail(TT_ERR_ARG, "a step has %d micro-batches; at least 1",
                       options->n_micro);
    if (options->rank < 0 || options->rank >= tt_mesh_ranks(&g->mesh))
        return tt_fail(TT_ERR_ARG, "rank %d is not among the mesh's %d",
                       options->rank, tt_mesh_ranks(&g->mesh));
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a plan");
    tt_plan *plan = tt_arena_alloc(arena, sizeof(*plan));
    if (plan == NULL) {
        tt_arena_destroy(arena);
        return TT_ERR_NOMEM;
    }
    plan->arena = arena;
    plan->graph = g;
    plan->target = target;
    plan->rank = options->rank;
    plan->n_micro = options->n_micro > 0 ? options->n_micro : 1;
    plan->n_slots = 1;
    plan->bound = options->bound;
    plan->n_updates = options->n_updates > 0 ? options->n_updates : 1;
    plan->n_places = 1;
    plan->flight_order = options->order;
    *plan_out = plan;
    return TT_OK;
}

static const int64_t usual_bucket_bytes = (int64_t)25 << 20;

// So large that sums of buffers cannot overflow, and larger than any machine.
static const int64_t most_elements = (int64_t)1 << 45;

static tt_status too_large(const tt_graph *g, const tt_value *value, int64_t n)
{
    const bool is_leaf = value->node < 0;
    const tt_node *node = is_leaf ? NULL : &g->node[value->node];
    return tt_fail(
        TT_ERR_NOMEM, "%s%s%s would have %lld elements: no machine holds that",
        is_leaf ? value->name : node->origin, is_leaf ? "" : ": the result of ",
        is_leaf ? "" : node->op->name, (long long)n);
}

// Whether all ranks hold as much of a value.
static bool is_even(const tt_type *type, const tt_mesh *mesh)
{
    int64_t blocks[TT_MAX_FACTORS];
    for (int f = 0; f < type->shape.n_factors; f++)
        blocks[f] = 1;
    for (int a = 0; a < mesh->n_axes; a++) {
        const tt_place *place = &type->place[a];
        if (place->kind != TT_SPLIT)
            continue;
        blocks[place->factor] *=
            (int64_t)mesh->axis[a].size * (place->parts > 0 ? place->parts : 1);
        if (place->window.out != 0 ||
            type->shape.factor[place->factor].size % blocks[place->factor] != 0)
            return false;
    }
    return true;
}

static tt_status bind_values(tt__lower *l)
{
    l->is_even = true;
    for (int32_t v = 0; v < l->g->n_values; v++) {
        const tt_value *value = &l->g->value[v];
        tt_operand *o = &l->info[v].operand;
        o->dtype = value->type.dtype;
        tt_local_of(&value->type, &l->g->mesh, l->plan->rank, &o->local);
        tt_operand_set_dense(o);
        l->plan->home[v].buffer = -1;
        l->is_even &= is_even(&value->type, &l->g->mesh);
        if (tt_operand_count(o) > most_elements)
            return too_large(l->g, value, tt_operand_count(o));
    }
    return tt__own_shapes(l);
}

static tt_status setup(tt__lower *l)
{
    const tt_graph *g = l->g;
    int64_t widest = 1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (widest < g->node[n].n_in)
            widest = g->node[n].n_in;
    widest += TT_MAX_OUT;
    const int64_t values = g->n_values, nodes = g->n_nodes;
    l->plan->home = tt_arena_alloc(l->plan->arena,
                                   values * (int64_t)sizeof(*l->plan->home));
    l->info = tt_arena_alloc(l->arena, values * (int64_t)sizeof(*l->info));
    l->is_live = tt_arena_alloc(l->arena, nodes);
    l->is_here = tt_arena_alloc(l->arena, nodes);
    l->stage = tt_arena_alloc(l->arena, nodes * (int64_t)sizeof(*l->stage));
    l->is_early = tt_arena_alloc(l->arena, nodes);
    l->runs_in = tt_arena_alloc(l->arena, nodes * (int64_t)sizeof(*l->runs_in));
    l->at = tt_arena_alloc(l->arena, nodes * (int64_t)sizeof(*l->at));
    l->node_at = tt_arena_alloc(l->arena, nodes * (int64_t)sizeof(*l->at));
    l->operand =
        tt_arena_alloc(l->arena, widest * (int64_t)sizeof(*l->operand));
    l->view_operand =
        tt_arena_alloc(l->arena, widest * (int64_t)sizeof(*l->operand));
    l->ref = tt_arena_alloc(l->arena, widest * (int64_t)sizeof(*l->ref));
    l->type = tt_arena_alloc(l->arena, widest * (int64_t)sizeof(*l->type));
    l->plan->is_kept = tt_arena_alloc(l->plan->arena, values);
    if (l->plan->home == NULL || l->plan->is_kept == NULL || l->info == NULL ||
        l->is_live == NULL || l->is_here == NULL || l->stage == NULL ||
        l->is_early == NULL || l->runs_in == NULL || l->at == NULL ||
        l->node_at == NULL || l->operand == NULL || l->view_operand == NULL ||
        l->ref == NULL || l->type == NULL)
        return TT_ERR_NOMEM;
    return bind_values(l);
}

static tt_status lower_any(tt__lower *l, const tt_node *node)
{
    const uint32_t flags = node->op->flags;
    bool is_done = false;
    if ((flags & TT_OP_ALIAS) != 0)
        return TT_OK; // its root is placed
    if ((flags & TT_OP_ACCUMULATE) != 0)
        return tt__lower_accumulate(l, node);
    if ((flags & TT_OP_VIEW) != 0)
        TT_TRY(tt__lower_view(l, node, &is_done));
    if ((flags & TT_OP_CONCAT) != 0)
        TT_TRY(tt__lower_concat(l, node, &is_done));
    return is_done ? TT_OK : tt__lower_node(l, node);
}

// New versions of states that were not written in place.
static tt_status copy_updates(tt__lower *l, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_val state = tt_graph_value(l->g, node->out[i])->updates;
        const tt__info *from = &l->info[l->info[node->out[i].id].root];
        if (!tt_is(state) ||
            (from->dest == TT__DEST_STATE && from->dest_of == state.id))
            continue;
        tt_ref new, old;
        TT_TRY(tt__home_read(l, node->out[i], &new));
        TT_TRY(tt__home_read(l, state, &old));
        old.operand.local = new.operand.local; // factors may have other names
        if (new.buffer != old.buffer)
            TT_TRY(tt__convert_into(l, &new, &old));
    }
    return TT_OK;
}

static void add_depth(tt__lower *l, const tt_node *node, int32_t first_step)
{
    double depth = 0;
    for (int i = 0; i < node->n_in; i++)
        if (tt__is_read(node, i) && depth < l->info[node->in[i].id].depth)
            depth = l->info[node->in[i].id].depth;
    for (int32_t s = first_step; s < l->plan->n_steps; s++)
        if (l->plan->step[s].node >= 0)
            depth += l->plan->step[s].cost.depth;
    for (int i = 0; i < node->n_out; i++)
        l->info[node->out[i].id].depth = depth;
    if (l->plan->cost.depth < depth)
        l->plan->cost.depth = depth;
}

static tt_status lower_segment(tt__lower *l, int32_t s)
{
    tt_segment *segment = &l->plan->segment[s];
    const int32_t first = segment->first, end = first + segment->n;
    l->segment = s;
    segment->first = l->plan->n_steps;
    for (int32_t p = first; p < end; p++) {
        const tt_node *node = &l->g->node[l->node_at[p]];
        if (!l->is_live[l->node_at[p]])
            continue;
        l->position = p;
        l->phase = node->phase;
        l->origin = node->origin;
        const int32_t first_step = l->plan->n_steps;
        TT_TRY(lower_any(l, node));
        TT_TRY(copy_updates(l, node));
        add_depth(l, node, first_step);
    }
    segment->n = l->plan->n_steps - segment->first;
    return TT_OK;
}

static void sum_cost(tt_plan *plan)
{
    tt_cost *sum = &plan->cost;
    for (int32_t o = 0; o < plan->n_order; o++) {
        const tt_segment *segment = &plan->segment[plan->order[o].segment];
        for (int32_t s = segment->first; s < segment->first + segment->n; s++) {
            const tt_cost *c = &plan->step[s].cost;
            if (!tt_step_runs(&plan->order[o], &plan->step[s]))
                continue;
            sum->flops += c->flops;
            sum->bytes += c->bytes;
            sum->work += c->work;
            sum->wire_bytes += c->wire_bytes;
            sum->messages += c->messages;
        }
    }
    sum->flops /= plan->n_updates;
    sum->bytes /= plan->n_updates;
    sum->work /= plan->n_updates;
    sum->wire_bytes /= plan->n_updates;
    sum->messages /= plan->n_updates;
}

static bool is_in_order(const tt_plan *plan, int32_t segment)
{
    for (int32_t i = 0; i < plan->n_order + plan->n_aside; i++)
        if (plan->order[i].segment == segment)
            return true;
    return false;
}

// Steps that no row of the schedule runs would be left out without a word.
static tt_status check_order(const tt_plan *plan)
{
    for (int32_t s = 0; s < plan->n_segments; s++)
        if (plan->segment[s].n > 0 && !is_in_order(plan, s))
            return tt_fail(TT_ERR_STATE,
                           "rank %d: no row of the schedule runs %s, which has "
                           "%d steps",
                           plan->rank, plan->segment[s].name,
                           plan->segment[s].n);
    return TT_OK;
}

static tt_status lower(tt__lower *l)
{
    TT_TRY(setup(l));
    TT_TRY(tt__here_find(l));
    TT_TRY(tt__segments_make(l));
    tt__uses_find(l);
    for (int32_t s = 0; s < l->plan->n_segments; s++)
        TT_TRY(lower_segment(l, s));
    TT_TRY(check_order(l->plan));
    TT_TRY(tt__homes_finish(l));
    TT_TRY(tt__stash_make(l));
    TT_TRY(tt__flights_make(l));
    TT_TRY(tt__driven_mark(l));
    tt__beside_find(l);
    TT_TRY(tt__lifetimes_find(l));
    TT_TRY(tt__pack(l));
    TT_TRY(tt__memory_sum(l));
    sum_cost(l->plan);
    return TT_OK;
}

tt_status tt_plan_lower(const tt_graph *g, tt_target *target,
                        const tt_lower_options *options, tt_plan **plan_out)
{
    tt_plan *plan = NULL;
    TT_TRY(make_plan(g, target, options, &plan));
    tt__lower l = {.g = g,
                   .target = target,
                   .plan = plan,
                   .arena = tt_arena_create(),
                   .split_weight_grad = options->split_weight_grad,
                   .in_order = options->in_order,
                   .row = options->row,
                   .n_rows = options->n_rows,
                   .is_endless = options->n_updates > 0,
                   .n_versions = options->n_versions,
                   .bucket_bytes = options->bucket_bytes > 0
                                       ? options->bucket_bytes
                                       : usual_bucket_bytes};
    const tt_status status = l.arena == NULL
                                 ? tt_fail(TT_ERR_NOMEM, "no memory for a plan")
                                 : lower(&l);
    tt_arena_destroy(l.arena);
    if (status != TT_OK)
        tt_plan_destroy(plan);
    else
        *plan_out = plan;
    return status;
}

void tt_plan_destroy(tt_plan *plan)
{
    if (plan == NULL)
        return;
    for (int32_t s = 0; s < plan->n_steps; s++)
        plan->target->release(plan->target, plan->step[s].choice.kernel);
    tt_arena_destroy(plan->arena);
}
