// survey - the tables of `tutti plan`: placements, bytes sent, memory of every
// rank.
//
// Everything here is counted from plans, not estimated. A collective's bytes come
// from the algorithm that the wire will use for it (tt_traffic_costs), and are shown
// beside the textbook formula, so that a difference can be seen.
//
// A mesh may have thousands of ranks, and lowering a plan for each would take
// minutes. Two facts make it cheap. Ranks whose parts have the same extents have
// the same plan, so ranks are put into classes by a hash of these extents, and each
// class is planned once. And the smallest and largest parts are found at the
// corners and in the middle of the mesh, so large meshes are only looked at there.

#include "job/survey.h"

#include "base/alloc.h"
#include "job/replicas/job_cycle.h"
#include "job/same_order.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "traffic/cost.h"

#include <assert.h>
#include <string.h>

// ---- values --------------------------------------------------------------

static const char *kind_of(const tt_graph *g, const tt_value *value)
{
    switch (value->role) {
    case TT_ROLE_INPUT:
        return "input";
    case TT_ROLE_PARAM:
        return "weight";
    case TT_ROLE_WORK:
    case TT_ROLE_BUFFER:
    case TT_ROLE_OPTIM:
    case TT_ROLE_EMA:
        return "state";
    case TT_ROLE_NODE:
        break;
    default:
        return NULL;
    }
    assert(g->node != NULL);
    const tt_phase phase = g->node[value->node].phase;
    return phase == TT_FORWARD  ? "activation"
           : phase == TT_UPDATE ? NULL
                                : "gradient";
}

// The weight that a node reads, possibly through views and collectives; -1: none.
static int32_t weight_of(const tt_graph *g, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i].id;
        while (v >= 0 && g->value[v].node >= 0 &&
               (g->node[g->value[v].node].op->flags &
                (TT_OP_ALIAS | TT_OP_COLLECTIVE)) != 0)
            v = g->node[g->value[v].node].in[0].id;
        if (v >= 0 && (g->value[v].role == TT_ROLE_PARAM ||
                       g->value[v].role == TT_ROLE_WORK))
            return v;
    }
    return -1;
}

// The layer's name where a model has no scopes: the name of its weight without the
// last part.
static const char *named_by_weight(const tt_survey *s, const tt_node *node)
{
    const int32_t v = weight_of(s->graph, node);
    if (v < 0)
        return NULL;
    char *name = tt_arena_strdup(s->arena, s->graph->value[v].name);
    char *dot = name == NULL ? NULL : strrchr(name, '.');
    if (dot != NULL)
        *dot = '\0';
    return name;
}

// The corners of the mesh: together these ranks have the smallest and the largest
// parts of every value.
static tt_status list_corners(const tt_mesh *mesh, tt_arena *arena,
                              int32_t **rank_out, int32_t *n_out)
{
    const int32_t n = tt_mesh_ranks(mesh);
    *rank_out = tt_arena_alloc(arena, n * (int64_t)sizeof **rank_out);
    if (*rank_out == NULL)
        return TT_ERR_NOMEM;
    *n_out = 0;
    for (int32_t r = 0; r < n; r++)
        if (tt__is_corner(mesh, r))
            (*rank_out)[(*n_out)++] = r;
    return TT_OK;
}

static void find_range(const tt_mesh *mesh, const int32_t *rank, int32_t n,
                       tt_survey_value *row)
{
    row->least = row->most = row->local.shape;
    for (int32_t i = 0; i < n; i++) {
        tt_local local;
        tt_local_of(row->type, mesh, rank[i], &local);
        for (int f = 0; f < local.shape.n_factors; f++) {
            const int64_t size = local.shape.factor[f].size;
            if (size < row->least.factor[f].size)
                row->least.factor[f].size = size;
            if (size > row->most.factor[f].size)
                row->most.factor[f].size = size;
        }
    }
}

static tt_status list_values(const tt_job *job, tt_arena *arena, tt_survey *s)
{
    const tt_graph *g = job->graph;
    s->value = tt_arena_alloc(arena, (int64_t)sizeof(*s->value) * g->n_values);
    int32_t *rank = NULL, n_ranks = 0;
    if (s->value == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(list_corners(&g->mesh, arena, &rank, &n_ranks));
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        const tt_node *node = value->node < 0 ? NULL : &g->node[value->node];
        tt_survey_value row = {.name =
                                   node != NULL ? node->op->name : value->name,
                               .layer = node != NULL ? node->origin : "",
                               .kind = kind_of(g, value),
                               .type = &value->type};
        if (row.kind == NULL)
            continue;
        const char *layer = node != NULL && node->origin[0] == '\0'
                                ? named_by_weight(s, node)
                                : NULL;
        row.layer = layer != NULL ? layer : row.layer;
        tt_local_of(row.type, &g->mesh, job->peers.rank, &row.local);
        row.bytes =
            tt_shape_count(&row.local.shape) * tt_dtype_bytes(row.type->dtype);
        find_range(&g->mesh, rank, n_ranks, &row);
        row.is_view =
            node != NULL && (node->op->flags & (TT_OP_VIEW | TT_OP_ALIAS)) != 0;
        s->value[s->n_values++] = row;
    }
    return TT_OK;
}

void tt_survey_split(const tt_type *type, const tt_mesh *mesh, tt_str *out)
{
    const int64_t before = out->n;
    for (int a = 0; a < mesh->n_axes; a++) {
        const tt_place *place = &type->place[a];
        if (place->kind == TT_REPLICATE || mesh->axis[a].size == 1)
            continue;
        tt_str_add(out, out->n > before ? " " : "");
        if (place->kind == TT_OWN)
            tt_str_add(out, "own");
        else if (place->kind == TT_PARTIAL)
            tt_str_add(out, place->reduce == TT_SUM ? "sum" : "max");
        else
            tt_str_addf(out, "%s%s", type->shape.factor[place->factor].name,
                        place->window.out != 0 ? "+halo" : "");
        tt_str_addf(out, ":%s", mesh->axis[a].name);
    }
    if (out->n == before)
        tt_str_add(out, "whole");
}

// ---- what is sent --------------------------------------------------------

static const char *direction_of(tt_phase phase)
{
    return phase == TT_FORWARD                     ? "forward"
           : phase == TT_UPDATE                    ? "update"
           : phase == TT_AGREE || phase == TT_LAND ? "agreement"
                                                   : "backward";
}

static void add_up(tt_survey_sent *to, const tt_survey_sent *from)
{
    to->count += from->count;
    to->messages += from->messages;
    to->bytes += from->bytes;
    to->formula += from->formula;
}

static void add_sent(tt_survey *s, const tt_survey_sent *row)
{
    for (int64_t i = s->n_sent - 1; i >= 0; i--) {
        tt_survey_sent *old = &s->sent[i];
        if (old->axis == row->axis && strcmp(old->layer, row->layer) == 0 &&
            strcmp(old->direction, row->direction) == 0 &&
            strcmp(old->kind, row->kind) == 0) {
            add_up(old, row);
            return;
        }
    }
    s->sent[s->n_sent++] = *row;
}

static const char *fetched_by(const tt_graph *g, int32_t weight)
{
    assert(g->node != NULL);
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == &tt_op_fetch && g->node[n].in[0].id == weight)
            return g->node[n].origin;
    return NULL;
}

static const tt_node *reader_of(const tt_graph *g, tt_val v)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i].id == v.id)
                return &g->node[n];
    return NULL;
}

// The layer that a collective is counted for. For activations and gradients it is
// the layer that made what is sent; for weights the layer that reads them.
static const char *layer_of(const tt_survey *s, const tt_node *node)
{
    const tt_graph *g = s->graph;
    const int32_t from = g->value[node->in[0].id].node;
    const tt_node *maker = from < 0 ? NULL : &g->node[from];
    const bool is_weight =
        maker == NULL || (maker->op->flags & TT_OP_ALIAS) != 0;
    const char *name = is_weight ? node->origin : maker->origin;
    // Nodes of the optimiser are named after their weight.
    const tt_val weight = tt_graph_find(g, name);
    const char *layer = tt_is(weight) ? fetched_by(g, weight.id) : NULL;
    if (layer == NULL || layer[0] == '\0')
        layer = name;
    if (layer[0] != '\0')
        return layer;
    const char *found = maker == NULL ? NULL : named_by_weight(s, maker);
    const tt_node *reader = reader_of(g, node->out[0]);
    if (found == NULL && reader != NULL)
        found = named_by_weight(s, reader);
    return found != NULL ? found : layer;
}

// How often agreement steps run in `steps` steps; those that make the model are no part of
// them.
static int64_t times_aside(const tt_job *job, const tt_plan *plan, int32_t step,
                           int64_t steps)
{
    for (int32_t s = 0; s < plan->n_segments; s++) {
        const tt_segment *g = &plan->segment[s];
        if (step >= g->first && step < g->first + g->n)
            return g->phase == TT_AGREE || g->phase == TT_LAND
                       ? tt__job_cycle_runs(job, steps, g->stage)
                       : 0;
    }
    return 0;
}

static int64_t times(const tt_job *job, const tt_plan *plan, int32_t step,
                     int64_t steps)
{
    const tt_phase phase = plan->step[step].phase;
    if (tt_phase_is_aside(phase))
        return times_aside(job, plan, step, steps);
    return steps * (phase == TT_UPDATE ? 1 : plan->n_micro);
}

static tt_survey_sent sent_by(const tt_survey *s, const tt_plan *plan,
                              const tt_step *step, tt_coll_cost cost, int64_t n)
{
    const tt_comm_params *params = step->params;
    // The formula for a halo would need the windows' positions, not only sizes; so
    // the exact number stands for it.
    const bool is_halo = step->op == &tt_op_halo || step->op == &tt_op_halo_add;
    const double formula = is_halo ? (double)cost.bytes : step->cost.wire_bytes;
    return (tt_survey_sent){.layer =
                                layer_of(s, &plan->graph->node[step->node]),
                            .direction = direction_of(step->phase),
                            .kind = step->op->name,
                            .axis = (int32_t)params->axis,
                            .count = n,
                            .messages = n * cost.messages,
                            .bytes = n * cost.bytes,
                            .formula = (double)n * formula};
}

static bool sends(const tt_step *step)
{
    return tt_op_is_collective(step->op) &&
           (step->op->flags & TT_OP_SILENT) == 0;
}

// Gradients in one bucket are padded, and the padding is summed too. It is shown as
// a row of its own. All buckets that are padded lie along one axis.
static void add_gaps(const tt_plan *plan, tt_coll_cost cost, tt_survey *s)
{
    for (int32_t f = 0; f < plan->n_flights && cost.bytes != 0; f++) {
        const tt_flight *flight = &plan->flight[f];
        const tt_comm_params *params =
            plan->step[plan->member[flight->first]].params;
        const tt_survey_sent row = {.layer = "(gaps)",
                                    .direction = "update",
                                    .kind = "all_reduce",
                                    .axis = (int32_t)params->axis,
                                    .bytes = s->steps * cost.bytes};
        if (flight->is_joined) {
            add_sent(s, &row);
            return;
        }
    }
}

// The one collective of a step that is not in the graph: the wish to stop (job.c).
static tt_survey_sent host_sends(const tt_job *job, int32_t rank)
{
    tt_coll_call call = tt_job_stop_call;
    const int32_t n = job->peers.size;
    if (!tt_job_asks(job))
        return (tt_survey_sent){0};
    call.group = (tt_group){.n = n, .me = rank};
    const tt_coll_cost cost =
        tt_traffic_call_cost(&call, job->distribution.collective);
    return (tt_survey_sent){.count = 1,
                            .messages = cost.messages,
                            .bytes = cost.bytes,
                            .formula = 2.0 * (n - 1) / n * sizeof(int32_t)};
}

static tt_status list_sent(const tt_job *job, tt_arena *arena, tt_survey *s)
{
    const tt_plan *plan = job->plan;
    tt_coll_cost *cost = tt_arena_alloc(
        arena, (int64_t)sizeof(*cost) * (plan->n_steps + INT64_C(1)));
    s->sent = tt_arena_alloc(arena, (int64_t)sizeof(*s->sent) *
                                        (plan->n_members + INT64_C(2)));
    if (cost == NULL || s->sent == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_traffic_costs(plan, job->distribution.collective, cost));
    static const char *const direction[] = {"forward", "backward", "update",
                                            "agreement"};
    for (int d = 0; d < 4; d++)
        for (int32_t i = 0; i < plan->n_steps; i++) {
            const int64_t n =
                sends(&plan->step[i]) ? times(job, plan, i, s->steps) : 0;
            if (n == 0)
                continue;
            const tt_survey_sent row =
                sent_by(s, plan, &plan->step[i], cost[i], n);
            if (strcmp(row.direction, direction[d]) == 0)
                add_sent(s, &row);
        }
    add_gaps(plan, cost[plan->n_steps], s);
    for (int64_t i = 0; i < s->n_sent; i++) {
        s->axis[s->sent[i].axis].axis = s->sent[i].axis;
        add_up(&s->axis[s->sent[i].axis], &s->sent[i]);
        add_up(&s->total, &s->sent[i]);
    }
    s->host = host_sends(job, job->peers.rank);
    for (int64_t i = 0; i < s->steps; i++)
        add_up(&s->total, &s->host);
    return TT_OK;
}

// ---- every rank ----------------------------------------------------------

enum { ALL_RANKS = 1024, CLASSES = 64 };

static bool is_looked_at(const tt_mesh *mesh, int rank)
{
    return tt_mesh_ranks(mesh) <= ALL_RANKS || tt__is_corner(mesh, rank);
}

static void widen(tt_survey_range *range, int64_t bytes, int32_t rank)
{
    if (bytes < range->least || range->least < 0) {
        range->least = bytes;
        range->least_rank = rank;
    }
    if (bytes > range->most) {
        range->most = bytes;
        range->most_rank = rank;
    }
}

tt_status tt_survey_sent_bytes(const tt_job *job, const tt_plan *like,
                               int32_t rank, int64_t *bytes_out)
{
    tt_plan plan = *like; // the same steps, other neighbours
    tt_coll_cost *room =
        tt_alloc((int64_t)sizeof(*room) * (plan.n_steps + INT64_C(1)));
    if (room == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a survey");
    plan.rank = rank;
    const tt_status status =
        tt_traffic_costs(&plan, job->distribution.collective, room);
    if (status == TT_OK) {
        const int64_t steps = tt__job_cycle(job);
        int64_t sum = 0;
        for (int32_t i = 0; i < plan.n_steps; i++)
            if (room[i].bytes > 0)
                sum += times(job, &plan, i, steps) * room[i].bytes;
        *bytes_out = room[plan.n_steps].bytes + host_sends(job, rank).bytes +
                     sum / steps;
    }
    tt_free(room);
    return status;
}

// Plans of ranks that are alike; see the top of this file.
typedef struct classes {
    int n;
    uint64_t hash[CLASSES];
    tt_plan *plan[CLASSES];
} classes;

static tt_status plan_of(const tt_job *job, classes *c, int32_t rank,
                         const tt_plan **plan_out)
{
    const uint64_t hash = tt__extents_hash(job->graph, rank);
    int i = 0;
    while (i < c->n && c->hash[i] != hash)
        i++;
    if (i == CLASSES)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "the mesh has ranks of more than %d kinds", CLASSES);
    if (i == c->n) {
        TT_TRY(tt_job_plan_rank(job, rank, &c->plan[i]));
        c->hash[i] = hash;
        c->n++;
    }
    *plan_out = c->plan[i];
    return TT_OK;
}

static tt_status look_at_ranks(const tt_job *job, tt_survey *s)
{
    const tt_mesh *mesh = &job->graph->mesh;
    classes c = {0};
    tt_status status = TT_OK;
    s->memory = s->sends = (tt_survey_range){.least = -1, .most = -1};
    for (int32_t r = 0; r < tt_mesh_ranks(mesh) && status == TT_OK; r++) {
        const tt_plan *plan = NULL;
        int64_t bytes = 0;
        if (!is_looked_at(mesh, r))
            continue;
        status = plan_of(job, &c, r, &plan);
        if (status != TT_OK)
            break;
        status = tt_survey_sent_bytes(job, plan, r, &bytes);
        widen(&s->memory, plan->peak_bytes, r);
        widen(&s->sends, bytes, r);
    }
    for (int i = 0; i < c.n; i++)
        tt_plan_destroy(c.plan[i]);
    return status;
}

tt_status tt_survey_make(const tt_job *job, tt_arena *arena,
                         tt_survey *survey_out)
{
    tt_survey s = {
        .arena = arena, .graph = job->graph, .steps = tt__job_cycle(job)};
    TT_TRY(list_values(job, arena, &s));
    TT_TRY(list_sent(job, arena, &s));
    TT_TRY(look_at_ranks(job, &s));
    *survey_out = s;
    return TT_OK;
}

tt_status tt_survey_take_largest(tt_job *job, tt_survey_range *memory_out)
{
    tt_survey s = {0};
    tt_plan *plan = NULL;
    TT_TRY(look_at_ranks(job, &s));
    *memory_out = s.memory;
    if (s.memory.least == s.memory.most)
        return TT_OK;
    TT_TRY(tt_job_plan_rank(job, s.memory.most_rank, &plan));
    tt_plan_destroy(job->plan);
    job->plan = plan;
    job->peers.rank = s.memory.most_rank;
    return TT_OK;
}
