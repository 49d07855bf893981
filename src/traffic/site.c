// site - see the header. From a step of the plan to numbers: types give shapes and
// placements, the mesh gives the ranks along the axis, and the plan's rank gives this
// rank's coordinate. Without arguments (addresses) it serves to compute sizes and
// costs.

#include "traffic/site.h"

#include "ops/ops.h"

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
    return (int32_t)(1 + (node * INT64_C(97) + piece) % (TT__TAGS - 1));
}

tt__wire_site tt__wire_site_of(const tt_plan *plan, int32_t s,
                               const tt_args *args)
{
    const tt_graph *g = plan->graph;
    const tt_step *step = &plan->step[s];
    const tt_node *node = &g->node[step->node];
    tt__wire_site x = {.op = step->op,
                       .p = step->params,
                       .mesh = &g->mesh,
                       .in_type = &g->value[node->in[0].id].type,
                       .out_type = &g->value[node->out[0].id].type,
                       .rank = plan->rank,
                       .is_in_place =
                           step->in[0].buffer == step->out[0].buffer};
    x.axis = (int32_t)x.p->axis;
    x.size = g->mesh.axis[x.axis].size;
    x.coord = tt_mesh_coord(x.mesh, x.rank, x.axis);
    x.fold.type = num_of(x.in_type->dtype);
    x.count = step->moved_bytes / tt_num_bytes(x.fold.type);
    x.in_bytes = step->moved_bytes;
    x.out_bytes = tt_target_bytes(plan->target, &step->out[0].operand);
    x.tag = tag_of(step->node, 0);
    if (x.op == &tt_op_move) { // operands of others are not touched
        x.in_bytes = x.coord == x.p->from_coord ? x.in_bytes : 0;
        x.out_bytes = x.coord == x.p->to_coord ? x.out_bytes : 0;
    }
    if (args != NULL) {
        x.in = args[s].in[0];
        x.out = args[s].out[0];
    }
    return x;
}

static int64_t offset_of(const tt_plan *plan, int32_t s)
{
    const tt_ref *in = &plan->step[s].in[0];
    return plan->buffer[in->buffer].offset + in->offset;
}

tt__wire_site tt__joined_site(const tt_plan *plan, const tt_flight *flight,
                              const tt_args *args)
{
    const int32_t *member = &plan->member[flight->first];
    const int32_t last = member[flight->n - 1];
    tt__wire_site x = tt__wire_site_of(plan, member[0], args);
    const int64_t row = offset_of(plan, last) - offset_of(plan, member[0]) +
                        plan->step[last].moved_bytes;
    const bool is_piece = flight->to > 0;
    x.in_bytes = x.out_bytes = is_piece ? flight->to - flight->from : row;
    x.count = x.in_bytes / tt_num_bytes(x.fold.type);
    x.tag = tag_of(plan->step[member[0]].node, flight->piece);
    if (is_piece && args != NULL) {
        x.in += flight->from;
        x.out += flight->from;
    }
    return x;
}

int tt__wire_site_rank(const tt__wire_site *x, int32_t coord)
{
    return tt_mesh_rank_at(x->mesh, x->rank, x->axis, coord);
}

bool tt__move_sends(const tt__wire_site *x)
{
    return x->coord == x->p->from_coord && x->coord != x->p->to_coord;
}

bool tt__move_receives(const tt__wire_site *x)
{
    return x->coord == x->p->to_coord && x->coord != x->p->from_coord;
}

static tt_fold combining(const tt__wire_site *x, bool is_sum)
{
    return (tt_fold){is_sum ? TT_FOLD_SUM : TT_FOLD_MAX, x->fold.type};
}

// Member i of the group holds block i: the group starts at coordinate `first`.
static void set_group(const tt__carrier *c, const tt__wire_site *x,
                      int32_t first, tt_coll_call *call)
{
    for (int32_t i = 0; i < x->size; i++) {
        c->member[i] = tt__wire_site_rank(x, (first + i) % x->size);
        if (c->host != NULL)
            c->member_host[i] = c->host[c->member[i]];
    }
    call->group = (tt_group){.n = x->size,
                             .me = (x->coord - first + x->size) % x->size,
                             .rank = c->member,
                             .host = c->host != NULL ? c->member_host : NULL};
    call->tag = c->tag;
    call->rounds_each = c->is_exact;
}

tt_coll_call tt__reduce_call(const tt__carrier *c, const tt__wire_site *x)
{
    tt_coll_call call = {.kind = TT_ALL_REDUCE,
                         .fold = combining(x, x->p->reduce == TT_SUM),
                         .count = x->count};
    set_group(c, x, 0, &call);
    return call;
}

tt_part tt__wire_block_of(const tt__wire_site *x, const tt__wire_blocks *b,
                          int32_t i)
{
    return tt_part_of(b->split, x->mesh,
                      tt__wire_site_rank(x, (b->first + i) % x->size));
}

tt__wire_blocks tt__wire_blocks_of(const tt__carrier *c, const tt__wire_site *x,
                                   bool is_gather)
{
    const tt_type *whole = is_gather ? x->out_type : x->in_type;
    tt__wire_blocks b = {.split = is_gather ? x->in_type : x->out_type};
    b.whole = tt_part_of(whole, x->mesh, x->rank);
    b.first = b.split->place[x->axis].rotate;
    b.is_in_row = b.whole.n == 1;
    c->bound[0] = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt__wire_block_of(x, &b, i);
        int64_t at = 0;
        if (block.n > 1 ||
            !tt_region_is_run(&block.box[0], &b.whole.home[0], &at) ||
            at != c->bound[i])
            b.is_in_row = false;
        c->bound[i + 1] = c->bound[i] + tt_part_count(&block);
    }
    return b;
}

tt_coll_call tt__wire_block_call(const tt__carrier *c, const tt__wire_site *x,
                                 const tt__wire_blocks *b, tt_coll_kind kind)
{
    tt_coll_call call = {.kind = kind,
                         .fold = combining(x, x->p->reduce == TT_SUM),
                         .count = c->bound[x->size],
                         .bound = c->bound};
    set_group(c, x, b->first, &call);
    return call;
}

tt_coll_call tt__joined_call(const tt__carrier *c, const tt_plan *plan,
                             const tt_flight *flight)
{
    const tt__wire_site x = tt__joined_site(plan, flight, NULL);
    return tt__reduce_call(c, &x);
}

tt__boxes tt__boxes_of(const tt__wire_site *x)
{
    return (tt__boxes){.in = tt_part_of(x->in_type, x->mesh, x->rank),
                       .out = tt_part_of(x->out_type, x->mesh, x->rank),
                       .is_sum = x->op == &tt_op_halo_add};
}

tt_common tt__sent_to(const tt__wire_site *x, const tt__boxes *b, int32_t coord)
{
    const tt_part out =
        tt_part_of(x->out_type, x->mesh, tt__wire_site_rank(x, coord));
    return tt_part_common(&b->in, &out);
}

tt_common tt__got_from(const tt__wire_site *x, const tt__boxes *b,
                       int32_t coord)
{
    const tt_part in =
        tt_part_of(x->in_type, x->mesh, tt__wire_site_rank(x, coord));
    return tt_part_common(&in, &b->out);
}
