// wire_plan - a plan that is bound: its collectives as legs.
//
// The problem. Which algorithm a collective is done by, who takes part, where blocks
// begin and how much scratch memory that takes depends on the plan and the rank alone.
// None of it changes from step to step.
//
// The idea. It is all worked out once, when an executor is created. A leg is one
// collective, ready to run: the executor's begin() finds its job by the number of the
// flight, and the thread calls leg->way->run with addresses that are known.
//
//   flight      f0 (joined)    f1            f2
//   legs        [ row ]        [ a ] [ b ]   [ c ]      a job says which
//   each leg    site, group, call, algorithm, scratch, addresses
//
// A pipeline has several micro-batches under way. Each lies in a slot of its own, and so a
// flight has a job and legs for each slot: tt__wire_plan_job(flight, slot).
//
//   cost    about 3 KB for each leg, and 12 bytes for each member of its group

#include "exec/wire/wire_plan.h"

#include "base/alloc.h"

static int32_t legs_of(const tt_flight *flight)
{
    return flight->is_joined ? 1 : flight->n;
}

// The ranks along an axis, summed over all legs; and the number of legs.
static int64_t count_ranks(const tt_plan *plan, int32_t *legs_out)
{
    int64_t n = 0;
    *legs_out = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < legs_of(flight); i++) {
            const tt_step *step = &plan->step[plan->member[flight->first + i]];
            const tt_comm_params *p = step->params;
            n += plan->graph->mesh.axis[p->axis].size;
            ++*legs_out;
        }
    }
    return n;
}

static tt_status allocate(const tt_plan *plan, tt__wire_plan *bound)
{
    const int64_t n = plan->n_slots * count_ranks(plan, &bound->n_legs);
    bound->n_legs *= plan->n_slots;
    bound->n_jobs = plan->n_slots * plan->n_flights;
    const int64_t legs = bound->n_legs + INT64_C(1);
    bound->leg = tt_alloc(legs * (int64_t)sizeof(*bound->leg));
    bound->job =
        tt_alloc((bound->n_jobs + INT64_C(1)) * (int64_t)sizeof(*bound->job));
    bound->ranks = tt_alloc((2 * n + 1) * (int64_t)sizeof(*bound->ranks));
    bound->bounds = tt_alloc(3 * (n + legs) * (int64_t)sizeof(*bound->bounds));
    return bound->leg != NULL && bound->job != NULL && bound->ranks != NULL &&
                   bound->bounds != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %d flights",
                         plan->n_flights);
}

// Where a leg's group lies in the arrays of the bound plan.
typedef struct space {
    int32_t *ranks;
    int64_t *bounds;
} space;

// A joined flight is a bucket whose members lie side by side, so it is one message; it
// may be a piece of one. The members of other flights go one after another.
static void describe(const tt_plan *plan, const tt_flight *flight, int32_t s,
                     const tt_args *args, tt__wire_leg *leg)
{
    const tt_node *node = &plan->graph->node[plan->step[s].node];
    const int64_t skip = flight->is_joined && flight->to > 0 ? flight->from : 0;
    leg->x = flight->is_joined ? tt_traffic_site_joined(plan, flight)
                               : tt_traffic_site_of(plan, s);
    leg->way = tt__wire_way_of(&leg->x);
    leg->where = flight->is_joined ? flight->name : node->origin;
    leg->in = args[s].in[0] == NULL ? NULL : (const char *)args[s].in[0] + skip;
    leg->out = args[s].out[0] == NULL ? NULL : (char *)args[s].out[0] + skip;
}

static tt_status make_job(const tt__carrier *c, const tt_args *args,
                          tt__wire_job *job, tt__wire_leg *leg, space *free)
{
    const tt_plan *plan = job->plan->plan;
    const tt_flight *flight = &plan->flight[job->flight];
    job->leg = leg;
    job->n_legs = legs_of(flight);
    job->is_local = job->is_move = true;
    for (int32_t i = 0; i < job->n_legs; i++, leg++) {
        const int32_t s = plan->member[flight->first + i];
        describe(plan, flight, s, args, leg);
        if (leg->way == NULL)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: no transport can carry it out",
                           plan->step[s].name);
        leg->group = (tt_traffic_group){free->ranks, free->ranks + leg->x.size,
                                        free->bounds};
        free->ranks += 2 * (int64_t)leg->x.size;
        free->bounds += leg->x.size + INT64_C(1);
        TT_TRY(leg->way->bind(c, leg));
        job->is_local = job->is_local && leg->way->alone != NULL;
        job->is_move = job->is_move && leg->x.kind->way == TT_TRAFFIC_MOVE;
    }
    if (tt_traffic_packets_of(plan, flight, &job->packets.what)) {
        tt__wire_packets_bind(c, job, free->bounds);
        free->bounds += 2 * (job->packets.what.x.size + INT64_C(1));
    } else {
        job->packets.what.n = 0;
    }
    return TT_OK;
}

static tt_status make(tt__carrier *c, const tt_args *args, tt__wire_plan *bound)
{
    const tt_plan *plan = bound->plan;
    space free = {bound->ranks, bound->bounds};
    tt__wire_leg *leg = bound->leg;
    int64_t most = 0;
    for (int32_t j = 0; j < bound->n_jobs; j++) {
        const int32_t slot = j / plan->n_flights;
        tt__wire_job *job = &bound->job[j];
        *job = (tt__wire_job){.plan = bound, .flight = j % plan->n_flights};
        TT_TRY(
            make_job(c, args + (int64_t)slot * plan->n_steps, job, leg, &free));
        leg += job->n_legs;
    }
    for (int32_t i = 0; i < bound->n_legs; i++)
        if (bound->leg[i].scratch_bytes > most)
            most = bound->leg[i].scratch_bytes;
    for (int32_t j = 0; j < bound->n_jobs; j++)
        if (bound->job[j].packets.scratch_bytes > most)
            most = bound->job[j].packets.scratch_bytes;
    return tt__carrier_room(c, most);
}

tt_status tt__wire_plan_make(tt__carrier *c, const tt_plan *plan,
                             const tt_args *args, tt__wire_plan **out)
{
    if (plan->n_flights > 0 &&
        tt_mesh_ranks(&plan->graph->mesh) != c->comm->size)
        return tt_fail(TT_ERR_ARG, "the plan is for %d ranks, but there are %d",
                       tt_mesh_ranks(&plan->graph->mesh), c->comm->size);
    tt__wire_plan *bound = tt_alloc(sizeof(*bound));
    if (bound == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to bind a plan");
    bound->plan = plan;
    tt_status status = allocate(plan, bound);
    if (status == TT_OK)
        status = make(c, args, bound);
    if (status != TT_OK) {
        tt__wire_plan_free(bound);
        return status;
    }
    *out = bound;
    return TT_OK;
}

void tt__wire_plan_free(tt__wire_plan *plan)
{
    if (plan == NULL)
        return;
    tt_free(plan->bounds);
    tt_free(plan->ranks);
    tt_free(plan->job);
    tt_free(plan->leg);
    tt_free(plan);
}
