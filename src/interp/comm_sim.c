// comm_sim - see the header. Cost: a double and a flag per element of the whole value,
// once per group of ranks.

#include "interp/comm_sim.h"

#include "base/alloc.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// The ranks along one axis that communicate with each other: a line through the mesh.
typedef struct group {
    const tt_comm_site *site;
    int axis, first, size; // the line through rank `first` along the axis
    double *value;         // of the whole tensor
    uint8_t *is_known;
    double *term; // one per rank of the group, for a sum
} group;

static int rank_of(const group *g, int coord)
{
    return tt_mesh_rank_at(g->site->mesh, g->first, g->axis, coord);
}

// Adds one rank's element to the whole value. Replicas simply overwrite nothing: the
// first one counts.
static void combine(group *g, int64_t at, double x)
{
    const tt_place *place = &g->site->in_type->place[g->axis];
    if (!g->is_known[at])
        g->value[at] = x;
    else if (g->site->op == &tt_op_halo_add)
        g->value[at] += x;
    else if (place->kind == TT_PARTIAL)
        g->value[at] = fmax(g->value[at], x);
    g->is_known[at] = 1;
}

// The value as its type would store it, so that sums round as the real ones do.
static double rounded(const group *g, double x)
{
    double room;
    tt_dtype_store(g->site->in_type->dtype, &room, 0, x);
    return tt_dtype_load(g->site->in_type->dtype, &room, 0);
}

// The sum of n terms in pairs: the left half is the largest power of two below n.
static double sum_pairs(const group *g, const double *term, int n)
{
    if (n == 1)
        return term[0];
    int half = 1;
    while (2 * half < n)
        half *= 2;
    return rounded(g, sum_pairs(g, term, half) +
                          sum_pairs(g, term + half, n - half));
}

// A Partial sum: every rank has a term of every element, so all terms of an element
// are collected before they are added in the fixed order.
static void assemble_sum(group *g, const void *const *in)
{
    const tt_type *type = g->site->in_type;
    tt_local local; // of any rank of the group: terms have the same shape
    tt_local_of(type, g->site->mesh, g->first, &local);
    const int64_t n = tt_shape_count(&local.shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tt_local_to_global(&local, i);
        int n_terms = 0;
        for (int c = 0; c < g->size; c++)
            if (tt_place_holds(&type->place[g->axis], c))
                g->term[n_terms++] =
                    tt_dtype_load(type->dtype, in[rank_of(g, c)], i);
        g->value[at] = sum_pairs(g, g->term, n_terms);
        g->is_known[at] = 1;
    }
}

static void assemble(group *g, const void *const *in)
{
    const tt_type *type = g->site->in_type;
    const tt_place *place = &type->place[g->axis];
    if (place->kind == TT_PARTIAL && place->reduce == TT_SUM) {
        assemble_sum(g, in);
        return;
    }
    for (int c = 0; c < g->size; c++) {
        const int rank = rank_of(g, c);
        tt_local local;
        tt_local_of(type, g->site->mesh, rank, &local);
        const int64_t n = local.is_absent ? 0 : tt_shape_count(&local.shape);
        for (int64_t i = 0; i < n; i++)
            combine(g, tt_local_to_global(&local, i),
                    tt_dtype_load(type->dtype, in[rank], i));
    }
}

// The coordinate whose copy of the input counts, where copies become terms of a sum.
static int first_holder(const group *g)
{
    int c = 0;
    while (!tt_place_holds(&g->site->in_type->place[g->axis], c))
        c++;
    return c;
}

static tt_status cut(const group *g, void *const *out)
{
    const tt_type *type = g->site->out_type;
    for (int c = 0; c < g->size; c++) {
        const int rank = rank_of(g, c);
        tt_local local;
        tt_local_of(type, g->site->mesh, rank, &local);
        const int64_t n = local.is_absent ? 0 : tt_shape_count(&local.shape);
        const bool is_zero =
            g->site->op == &tt_op_keep_first && c != first_holder(g);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = tt_local_to_global(&local, i);
            // What no window reads has no terms: its sum is zero.
            if (!g->is_known[at] && g->site->op != &tt_op_halo_add)
                return tt_fail(TT_ERR_ARG,
                               "%s: rank %d needs element %lld, which no rank "
                               "of its group holds",
                               g->site->op->name, rank, (long long)at);
            tt_dtype_store(type->dtype, out[rank], i,
                           is_zero || !g->is_known[at] ? 0 : g->value[at]);
        }
    }
    return TT_OK;
}

// The part travels as it is, so there is no whole value to assemble. Only the
// coordinate where it arrives has a result.
static tt_status move(const group *g, const void *const *in, void *const *out)
{
    const tt_comm_params *p = g->site->params;
    const tt_type *type = g->site->in_type;
    if (p->from_coord < 0 || p->from_coord >= g->size || p->to_coord < 0 ||
        p->to_coord >= g->size)
        return tt_fail(TT_ERR_ARG,
                       "%s: from coordinate %lld to %lld on an axis of %d",
                       g->site->op->name, (long long)p->from_coord,
                       (long long)p->to_coord, g->size);
    const int from = rank_of(g, (int)p->from_coord);
    tt_local local;
    tt_local_of(type, g->site->mesh, from, &local);
    const int64_t n = tt_shape_count(&local.shape);
    memcpy(out[rank_of(g, (int)p->to_coord)], in[from],
           (size_t)(n * tt_dtype_bytes(type->dtype)));
    return TT_OK;
}

// Coordinates to which a shift brings nothing have what they had.
static void keep_own(const group *g, const void *const *in, void *const *out)
{
    const tt_type *type = g->site->in_type;
    for (int c = 0; c < g->size; c++) {
        const int rank = rank_of(g, c);
        tt_local local;
        if (g->site->op != &tt_op_shift || tt_comm_hears(g->site->params, c))
            continue;
        tt_local_of(type, g->site->mesh, rank, &local);
        memcpy(out[rank], in[rank],
               (size_t)(tt_shape_count(&local.shape) *
                        tt_dtype_bytes(type->dtype)));
    }
}

// Whether this line of ranks takes part: not where an earlier axis keeps the value
// elsewhere.
static bool is_here(const group *g)
{
    const tt_mesh *mesh = g->site->mesh;
    for (int a = 0; a < mesh->n_axes; a++)
        if (a != g->axis && !tt_place_holds(&g->site->in_type->place[a],
                                            tt_mesh_coord(mesh, g->first, a)))
            return false;
    return true;
}

static tt_status run_group(group *g, const void *const *in, void *const *out)
{
    if (!is_here(g))
        return TT_OK;
    if (g->site->op == &tt_op_move)
        return move(g, in, out);
    const int64_t n = tt_shape_count(&g->site->in_type->shape);
    memset(g->is_known, 0, (size_t)n);
    assemble(g, in);
    TT_TRY(cut(g, out));
    keep_own(g, in, out);
    return TT_OK;
}

tt_status tt_comm_simulate(const tt_comm_site *site, const void *const *in,
                           void *const *out)
{
    const tt_comm_params *p = site->params;
    if ((site->op->flags & TT_OP_COLLECTIVE) == 0)
        return tt_fail(TT_ERR_ARG, "%s is not communication", site->op->name);
    if (p->axis < 0 || p->axis >= site->mesh->n_axes)
        return tt_fail(TT_ERR_ARG, "%s: the mesh has no axis %lld",
                       site->op->name, (long long)p->axis);
    const int64_t n = tt_shape_count(&site->in_type->shape);
    group g = {.site = site,
               .axis = (int)p->axis,
               .size = site->mesh->axis[p->axis].size,
               .value = tt_alloc(n * (int64_t)sizeof(double)),
               .is_known = tt_alloc(n)};
    tt_status status = TT_OK;
    g.term = tt_alloc(g.size * (int64_t)sizeof(double));
    if (g.value == NULL || g.is_known == NULL || g.term == NULL)
        status =
            tt_fail(TT_ERR_NOMEM, "%s: no memory to simulate", site->op->name);
    const int n_ranks = tt_mesh_ranks(site->mesh);
    for (int r = 0; r < n_ranks && status == TT_OK; r++) {
        g.first = r;
        if (tt_mesh_coord(site->mesh, r, g.axis) == 0)
            status = run_group(&g, in, out);
    }
    tt_free(g.term);
    tt_free(g.is_known);
    tt_free(g.value);
    return status;
}
