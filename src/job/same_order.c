// same_order - see the header.
//
// Each rank hashes the order of its flights. If ranks are there, one all-reduce
// finds out whether all hashes of a stage are equal: the maximum of h and of -h gives
// the largest and the smallest in one call. If nobody is there (tutti plan), plans of
// the ranks whose parts differ are made and compared.

#include "job/same_order.h"

#include "base/rng.h"

uint64_t tt__extents_hash(const tt_graph *g, int rank)
{
    uint64_t hash = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        tt_local local;
        int64_t part[TT_MAX_FACTORS + 1] = {(int64_t)hash};
        tt_local_of(&g->value[v].type, &g->mesh, rank, &local);
        for (int f = 0; f < local.shape.n_factors; f++)
            part[f + 1] = local.is_absent ? -1 : local.shape.factor[f].size;
        hash = tt_hash((const char *)part, sizeof part);
    }
    return hash;
}

static int stage_of(const tt_graph *g, int rank)
{
    const int axis = tt_mesh_pipe(&g->mesh);
    return axis < 0 ? 0 : tt_mesh_coord(&g->mesh, rank, axis);
}

bool tt__is_corner(const tt_mesh *mesh, int rank)
{
    for (int a = 0; a < mesh->n_axes; a++) {
        const int at = tt_mesh_coord(mesh, rank, a), n = mesh->axis[a].size;
        if (a != tt_mesh_pipe(mesh) && at > 1 && at != n - 1 && at != n / 2 &&
            at != n / 2 - 1)
            return false;
    }
    return true;
}

// Of each stage a pair of numbers, h and -h: all hashes of its ranks are equal if the
// largest is the smallest. The shift keeps the hash positive, so that it can be negated.
static tt_status ask_others(const tt_job *job, const tt_plan *plan,
                            bool *alike_out)
{
    const tt_peers *peers = &job->peers;
    const int64_t stages = job->grid.size[TT_AXIS_PIPE];
    int64_t most[2 * TT_MAX_AT];
    for (int64_t i = 0; i < 2 * stages; i++)
        most[i] = INT64_MIN;
    if (plan != NULL) {
        const int64_t hash = (int64_t)(tt_plan_flights_hash(plan) >> 1);
        const int64_t stage = stage_of(plan->graph, plan->rank);
        int64_t *own = &most[2 * stage];
        own[0] = hash;
        own[1] = -hash;
    }
    TT_TRY(tt_peers_meet(peers, "order of collectives"));
    TT_TRY(tt_comm_wire_call(peers->wire, "order of collectives",
                             &(tt_coll_call){.kind = TT_ALL_REDUCE,
                                             .fold = {TT_FOLD_MAX, TT_NUM_I64},
                                             .count = 2 * stages,
                                             .in = most,
                                             .out = most}));
    *alike_out = true;
    for (int64_t i = 0; i < 2 * stages; i += 2)
        *alike_out &= most[i] == INT64_MIN || most[i] == -most[i + 1];
    return TT_OK;
}

// Whether all ranks of one stage have plans alike; `rank` is one of them.
static tt_status look_at_stage(const tt_job *job, const tt__planned *p,
                               int32_t rank, bool *alike_out)
{
    const tt_graph *g = p->graph;
    const uint64_t extents = tt__extents_hash(g, rank);
    uint64_t hash = 0;
    bool is_planned = false;
    for (int32_t r = 0; r < job->peers.size && *alike_out; r++) {
        tt_plan *plan = NULL;
        if (stage_of(g, r) != stage_of(g, rank) ||
            !tt__is_corner(&g->mesh, r) || tt__extents_hash(g, r) == extents)
            continue;
        if (!is_planned) {
            TT_TRY(tt__planned_lower(job, p, rank, &plan));
            hash = tt_plan_flights_hash(plan);
            is_planned = true;
            tt_plan_destroy(plan);
        }
        TT_TRY(tt__planned_lower(job, p, r, &plan));
        *alike_out = tt_plan_flights_hash(plan) == hash;
        tt_plan_destroy(plan);
    }
    return TT_OK;
}

static tt_status look_at_others(const tt_job *job, const tt__planned *p,
                                bool *alike_out)
{
    const int axis = tt_mesh_pipe(&p->graph->mesh);
    const int stages = axis < 0 ? 1 : p->graph->mesh.axis[axis].size;
    for (int s = 0; s < stages; s++)
        TT_TRY(look_at_stage(
            job, p,
            axis < 0 ? p->plan->rank
                     : tt_mesh_rank_at(&p->graph->mesh, p->plan->rank, axis, s),
            alike_out));
    return TT_OK;
}

tt_status tt__plans_alike(const tt_job *job, const tt__planned *p,
                          bool *alike_out)
{
    *alike_out = true;
    if (job->peers.size == 1)
        return TT_OK;
    if (job->peers.wire != NULL)
        return ask_others(job, p != NULL ? p->plan : NULL, alike_out);
    return p == NULL ? TT_OK : look_at_others(job, p, alike_out);
}
