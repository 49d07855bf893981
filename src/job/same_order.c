// same_order - see the header.
//
// Each rank hashes the order of its flights. If ranks are there, one all-reduce
// finds out whether all hashes are equal: the maximum of h and of -h gives the
// largest and the smallest in one call. If nobody is there (tutti plan), plans of
// the ranks whose parts differ are made and compared.

#include "job/same_order.h"

#include "base/rng.h"
#include "job/internal.h"

uint64_t tt__extents_hash(const tt_graph *g, int rank)
{
    uint64_t hash = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        tt_local local;
        int64_t part[TT_MAX_FACTORS + 1] = {(int64_t)hash};
        tt_local_of(&g->value[v].type, &g->mesh, rank, &local);
        for (int f = 0; f < local.shape.n_factors; f++)
            part[f + 1] = local.shape.factor[f].size;
        hash = tt_hash((const char *)part, sizeof part);
    }
    return hash;
}

bool tt__is_corner(const tt_mesh *mesh, int rank)
{
    for (int a = 0; a < mesh->n_axes; a++) {
        const int at = tt_mesh_coord(mesh, rank, a), n = mesh->axis[a].size;
        if (at > 1 && at != n - 1 && at != n / 2 && at != n / 2 - 1)
            return false;
    }
    return true;
}

// All hashes are equal if the largest is the smallest. The shift keeps the hash
// positive, so that it can be negated.
static tt_status ask_others(const tt_peers *peers, const tt_plan *plan,
                            bool *alike_out)
{
    const int64_t hash =
        plan == NULL ? 0 : (int64_t)(tt_plan_flights_hash(plan) >> 1);
    int64_t most[] = {hash, -hash};
    TT_TRY(tt_peers_meet(peers, "order of collectives"));
    TT_TRY(tt_comm_wire_call(peers->wire, "order of collectives",
                             &(tt_coll_call){.kind = TT_ALL_REDUCE,
                                             .fold = {TT_FOLD_MAX, TT_NUM_I64},
                                             .count = 2,
                                             .in = most,
                                             .out = most}));
    *alike_out = most[0] == -most[1];
    return TT_OK;
}

static tt_status look_at_others(const tt_job *job, const tt_graph *graph,
                                const tt_plan *plan, bool *alike_out)
{
    const uint64_t own = tt__extents_hash(graph, plan->rank);
    const uint64_t hash = tt_plan_flights_hash(plan);
    *alike_out = true;
    for (int32_t r = 0; r < job->peers.size && *alike_out; r++) {
        tt_plan *other = NULL;
        if (!tt__is_corner(&graph->mesh, r) ||
            tt__extents_hash(graph, r) == own)
            continue;
        TT_TRY(tt__job_lower(job, graph, r, &other));
        *alike_out = tt_plan_flights_hash(other) == hash;
        tt_plan_destroy(other);
    }
    return TT_OK;
}

tt_status tt__plans_alike(const tt_job *job, const tt_graph *graph,
                          const tt_plan *plan, bool *alike_out)
{
    *alike_out = true;
    if (job->peers.size == 1)
        return TT_OK;
    if (job->peers.wire != NULL)
        return ask_others(&job->peers, plan, alike_out);
    return plan == NULL ? TT_OK : look_at_others(job, graph, plan, alike_out);
}
