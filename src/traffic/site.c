// site - see the header. From a step of the plan to numbers: types give shapes and
// placements, the mesh gives the ranks along the axis, and the plan's rank gives this
// rank's coordinate.

#include "traffic/site.h"

#include "ops/ops.h"
#include "plan/own.h"

// tt_num has the order of tt_dtype; floats of 8 bits are sent, never added.
_Static_assert((int)TT_NUM_F64 == (int)TT_F64 && (int)TT_NUM_U8 == (int)TT_U8 &&
                   (int)TT_N_NUMS == (int)TT_E4M3,
               "element types of graphs and of messages");

static tt_num num_of(tt_dtype dtype)
{
    return dtype > TT_U8 ? TT_NUM_U8 : (tt_num)dtype;
}

// The tag follows from the node and the piece, so it is the same on all ranks that take
// part, whatever else each of them does in between. It only serves to notice mistakes.
static int32_t tag_of(int32_t node, int32_t piece)
{
    return (int32_t)(1 + (node * INT64_C(97) + piece) % (TT_TRAFFIC_TAGS - 1));
}

// Who holds the input or gets the output.
static uint64_t taking_part(uint64_t in, uint64_t out)
{
    return in == 0 || out == 0 ? 0 : in | out;
}

uint64_t tt_traffic_at(const tt_graph *g, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    return taking_part(g->value[node->in[0].id].type.place[p->axis].at,
                       g->value[node->out[0].id].type.place[p->axis].at);
}

tt_traffic_site tt_traffic_site_of(const tt_plan *plan, int32_t s)
{
    const tt_graph *g = plan->graph;
    const tt_step *step = &plan->step[s];
    const tt_node *node = &g->node[step->node];
    tt_traffic_site x = {.kind = tt_traffic_op_find(step->op),
                         .op = step->op,
                         .p = step->params,
                         .mesh = &g->mesh,
                         .in_type = tt_plan_type(plan, node->in[0].id),
                         .out_type = tt_plan_type(plan, node->out[0].id),
                         .rank = plan->rank,
                         .is_in_place =
                             step->in[0].buffer == step->out[0].buffer};
    x.axis = (int32_t)x.p->axis;
    x.size = g->mesh.axis[x.axis].size;
    x.coord = tt_mesh_coord(x.mesh, x.rank, x.axis);
    x.at = tt_traffic_at(g, node);
    x.fold.type = num_of(x.in_type->dtype);
    x.count = step->moved_bytes / tt_num_bytes(x.fold.type);
    x.in_bytes = step->moved_bytes;
    x.out_bytes = step->out[0].buffer >= 0
                      ? tt_target_bytes(plan->target, &step->out[0].operand)
                      : 0;
    x.node = step->node;
    x.tag = tag_of(step->node, 0);
    if (x.op == &tt_op_move) { // operands of others are not touched
        x.in_bytes = x.coord == x.p->from_coord ? x.in_bytes : 0;
        x.out_bytes = x.coord == x.p->to_coord ? x.out_bytes : 0;
    }
    return x;
}

static int64_t offset_of(const tt_plan *plan, int32_t s)
{
    const tt_ref *in = &plan->step[s].in[0];
    return plan->buffer[in->buffer].offset + in->offset;
}

tt_traffic_site tt_traffic_site_joined(const tt_plan *plan,
                                       const tt_flight *flight)
{
    const int32_t *member = &plan->member[flight->first];
    const int32_t last = member[flight->n - 1];
    tt_traffic_site x = tt_traffic_site_of(plan, member[0]);
    const int64_t row = offset_of(plan, last) - offset_of(plan, member[0]) +
                        plan->step[last].moved_bytes;
    x.in_bytes = x.out_bytes = flight->to > 0 ? flight->to - flight->from : row;
    x.count = x.in_bytes / tt_num_bytes(x.fold.type);
    x.tag = tag_of(plan->step[member[0]].node, flight->piece);
    return x;
}

bool tt_traffic_site_has(const tt_traffic_site *x, int32_t coord)
{
    return x->at == 0 || (x->at >> coord & 1) != 0;
}

int tt_traffic_site_rank(const tt_traffic_site *x, int32_t coord)
{
    return tt_mesh_rank_at(x->mesh, x->rank, x->axis, coord);
}

bool tt_traffic_site_sends(const tt_traffic_site *x)
{
    return x->coord == x->p->from_coord && x->coord != x->p->to_coord;
}

bool tt_traffic_site_receives(const tt_traffic_site *x)
{
    return x->coord == x->p->to_coord && x->coord != x->p->from_coord;
}

// ---- calls -----------------------------------------------------------------

// The user's choice comes first. Exact mode then leaves hosts out: a hierarchical sum
// depends on which rank is on which host, and exact sums may not. Without measurements
// usual links are assumed: that may cost time, and never other bits.
const tt_coll_def *tt_traffic_choose(const tt_traffic_rules *rules,
                                     const tt_coll_call *call)
{
    const tt_calibration *links =
        rules->calibration != NULL ? rules->calibration : &tt_calibration_usual;
    tt_group group = call->group;
    if (rules->coll != NULL)
        return rules->coll;
    if (rules->is_exact || call->rounds_each)
        group.host = NULL; // hosts have sums of their own
    return tt_coll_choose(links, call->kind, tt_coll_bytes(call, call->count),
                          &group);
}

// Member i of the group holds block i: the group starts at coordinate `first`.
static tt_coll_call call_of(const tt_traffic_site *x,
                            const tt_traffic_rules *rules,
                            const tt_traffic_group *group, int32_t first)
{
    int32_t n = 0, me = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int32_t coord = (first + i) % x->size;
        if (!tt_traffic_site_has(x, coord))
            continue;
        me = coord == x->coord ? n : me;
        group->member[n] = tt_traffic_site_rank(x, coord);
        if (rules->host != NULL)
            group->member_host[n] = rules->host[group->member[n]];
        n++;
    }
    const tt_group members = {.n = n,
                              .me = me,
                              .rank = group->member,
                              .host = rules->host != NULL ? group->member_host
                                                          : NULL};
    return (tt_coll_call){
        .kind = x->kind->coll,
        .group = members,
        .fold = {x->p->reduce == TT_SUM ? TT_FOLD_SUM : TT_FOLD_MAX,
                 x->fold.type},
        .count = x->count,
        .tag = x->tag,
        .rounds_each = rules->is_exact || x->p->rounds_each};
}

tt_coll_call tt_traffic_reduce_call(const tt_traffic_site *x,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group)
{
    return call_of(x, rules, group, 0);
}

tt_part tt_traffic_block_of(const tt_traffic_site *x,
                            const tt_traffic_blocks *b, int32_t i)
{
    return tt_part_of(b->split, x->mesh,
                      tt_traffic_site_rank(x, (b->first + i) % x->size));
}

tt_traffic_blocks tt_traffic_blocks_of(const tt_traffic_site *x,
                                       const tt_traffic_group *group)
{
    const bool is_gather = x->kind->coll == TT_ALL_GATHER;
    const tt_type *whole = is_gather ? x->out_type : x->in_type;
    int64_t *bound = group->bound;
    tt_traffic_blocks b = {.split = is_gather ? x->in_type : x->out_type};
    b.whole = tt_part_of(whole, x->mesh, x->rank);
    b.first = b.split->place[x->axis].rotate;
    b.is_in_row = b.whole.n == 1;
    bound[0] = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt_traffic_block_of(x, &b, i);
        int64_t at = 0;
        if (block.n > 1 ||
            !tt_region_is_run(&block.box[0], &b.whole.home[0], &at) ||
            at != bound[i])
            b.is_in_row = false;
        bound[i + 1] = bound[i] + tt_part_count(&block);
    }
    return b;
}

tt_coll_call tt_traffic_blocks_call(const tt_traffic_site *x,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group,
                                    const tt_traffic_blocks *b)
{
    tt_coll_call call = call_of(x, rules, group, b->first);
    call.count = group->bound[x->size];
    call.bound = group->bound;
    return call;
}

tt_status tt_traffic_blocks_check(const tt_traffic_site *x,
                                  const tt_traffic_group *group,
                                  const tt_traffic_blocks *b)
{
    return group->bound[x->size] == tt_part_count(&b->whole)
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "%s: the ranks along %s do not hold the whole value",
                         x->op->name, x->mesh->axis[x->axis].name);
}

// ---- from box to box -------------------------------------------------------

tt_traffic_boxes tt_traffic_boxes_of(const tt_traffic_site *x)
{
    tt_traffic_boxes b = {.in = tt_part_of(x->in_type, x->mesh, x->rank),
                          .out = tt_part_of(x->out_type, x->mesh, x->rank)};
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t n = tt_traffic_sent_to(x, &b, i).count;
        b.arriving += tt_traffic_got_from(x, &b, i).count;
        b.largest = n > b.largest ? n : b.largest;
    }
    return b;
}

tt_common tt_traffic_sent_to(const tt_traffic_site *x,
                             const tt_traffic_boxes *b, int32_t coord)
{
    const tt_part out =
        tt_part_of(x->out_type, x->mesh, tt_traffic_site_rank(x, coord));
    return tt_comm_hears(x->p, coord) ? tt_part_common(&b->in, &out)
                                      : (tt_common){0};
}

tt_common tt_traffic_got_from(const tt_traffic_site *x,
                              const tt_traffic_boxes *b, int32_t coord)
{
    const tt_part in =
        tt_part_of(x->in_type, x->mesh, tt_traffic_site_rank(x, coord));
    return tt_comm_hears(x->p, x->coord) ? tt_part_common(&in, &b->out)
                                         : (tt_common){0};
}

bool tt_traffic_boxes_keep(const tt_traffic_site *x)
{
    return !tt_comm_hears(x->p, x->coord);
}

tt_status tt_traffic_boxes_check(const tt_traffic_site *x,
                                 const tt_traffic_boxes *b)
{
    if (!x->kind->is_sum && !tt_traffic_boxes_keep(x) &&
        b->arriving != tt_part_count(&b->out))
        return tt_fail(TT_ERR_ARG,
                       "%s: rank %d needs elements that no rank along %s holds",
                       x->op->name, x->rank, x->mesh->axis[x->axis].name);
    return TT_OK;
}
