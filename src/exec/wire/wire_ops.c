// wire_ops - every communication operator over a transport, on dense local parts.
//
//   all_reduce       on the operand itself, in whatever layout
//   all_gather       blocks of the outermost factor lie one after the other, so
//   reduce_scatter   the collective works on the operand; blocks of another factor
//                    go through scratch memory
//   all_to_all, shift, halo, halo_add
//                    what two parts have in common goes from rank to rank
//   take, keep_first nothing is sent
//   move             one message, straight into the operand
//
// A group is the ranks along the operator's axis. Which bytes a rank holds follows
// from types, mesh and rank alone, so nothing is negotiated.
//
// There are four ways to carry an operator out, and a table at the end says which
// operator goes which way:
//
//   collective   a call of comm/coll, by the algorithm that was chosen
//   boxes        every pair of ranks computes what the sender's box and the receiver's
//                box have in common. An all-to-all, a ring shift and a halo are then
//                the same loop: they differ only in the boxes
//   move         one message, from one rank to another
//   local        a copy within this rank
//
// For each way there is a second function that says how much scratch memory it needs.
// It is asked when a plan is bound, so carrying out allocates nothing.

#include "base/alloc.h"
#include "traffic/site.h"
#include "ops/ops.h"

#include <string.h>

// ---- by collectives --------------------------------------------------------

static tt_status run_call(const tt__carrier *c, tt_coll_call *call, char *room)
{
    const tt_coll_def *def = tt__carrier_choose(c, call);
    call->scratch = tt_coll_scratch_bytes(def, call) > 0 ? room : NULL;
    return tt_coll_run(def, c->comm, call);
}

static tt_status all_reduce(const tt__carrier *c, const tt__wire_site *x)
{
    tt_coll_call call = tt__reduce_call(c, x);
    call.in = x->in;
    call.out = x->out;
    return run_call(c, &call, c->scratch);
}

tt_status tt__wire_blocks_check(const tt__carrier *c, const tt__wire_site *x,
                                const tt__wire_blocks *b)
{
    return c->bound[x->size] == tt_part_count(&b->whole)
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "%s: the ranks along %s do not hold the whole value",
                         x->op->name, x->mesh->axis[x->axis].name);
}

// Copies between the whole and its blocks side by side.
static void move_blocks(const tt__carrier *c, const tt__wire_site *x,
                        const tt__wire_blocks *b, bool is_packing)
{
    const tt_fold copy = {TT_FOLD_COPY, x->fold.type};
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt__wire_block_of(x, b, i);
        const tt_common both = tt_part_common(&block, &b->whole);
        char *room = c->scratch + tt__wire_site_bytes(x, c->bound[i]);
        for (int32_t k = 0; k < both.n; k++) {
            const tt_region_end row = {&block.home[both.a[k]], room};
            const tt_region_end whole = {&b->whole.home[both.b[k]],
                                         is_packing ? (void *)(uintptr_t)x->in
                                                    : x->out};
            tt_region_fold(&both.box[k], copy, is_packing ? row : whole,
                           is_packing ? whole : row);
        }
    }
}

// Bytes of scratch for a scatter in place whose algorithm cannot work in place; else 0.
static int64_t apart_bytes(const tt__carrier *c, const tt__wire_site *x,
                           const tt_coll_call *call)
{
    enum { ALIGN = 64 };
    const bool is_native = tt__carrier_choose(c, call)->is_native;
    if (call->kind != TT_REDUCE_SCATTER || !x->is_in_place ||
        (is_native && c->comm->def->scatters_in_place))
        return 0;
    const int64_t mine = tt_coll_block(call, call->group.me).n;
    return (tt__wire_site_bytes(x, mine) + ALIGN - 1) / ALIGN * ALIGN;
}

// Scratch memory holds, in this order: the result where it must not overlap the input;
// the packed blocks where they do not lie in a row; and the algorithm's own scratch.
static tt_status by_blocks(const tt__carrier *c, const tt__wire_site *x)
{
    const bool is_gather = x->op == &tt_op_all_gather;
    const tt__wire_blocks b = tt__wire_blocks_of(c, x, is_gather);
    TT_TRY(tt__wire_blocks_check(c, x, &b));
    tt_coll_call call = tt__wire_block_call(
        c, x, &b, is_gather ? TT_ALL_GATHER : TT_REDUCE_SCATTER);
    const int64_t apart = apart_bytes(c, x, &call);
    char *room = c->scratch + apart;
    call.in = x->in;
    call.out = apart > 0 ? c->scratch : x->out;
    if (!b.is_in_row) {
        room += tt__wire_site_bytes(x, call.count);
        if (is_gather) {
            call.out = c->scratch;
        } else {
            call.in = c->scratch;
            move_blocks(c, x, &b, true);
        }
    }
    TT_TRY(run_call(c, &call, room));
    if (is_gather && !b.is_in_row)
        move_blocks(c, x, &b, false);
    if (apart > 0)
        tt_coll_copy(&call, x->out, c->scratch,
                     tt_coll_block(&call, call.group.me).n);
    return TT_OK;
}

// ---- from box to box -------------------------------------------------------

// Elements that arrive, and the most that are sent at once.
static void count_boxes(const tt__wire_site *x, const tt__boxes *b,
                        int64_t *arriving_out, int64_t *largest_out)
{
    *arriving_out = *largest_out = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t n = tt__sent_to(x, b, i).count;
        *arriving_out += tt__got_from(x, b, i).count;
        *largest_out = n > *largest_out ? n : *largest_out;
    }
}

// Boxes of this rank's input, side by side: copied into `room`, unless they lie so
// already.
static void *pack(const tt__wire_site *x, const tt__boxes *b,
                  const tt_common *sent, char *room)
{
    const tt_fold copy = {TT_FOLD_COPY, x->fold.type};
    char *in = (char *)(uintptr_t)x->in;
    int64_t at = 0;
    if (sent->n == 1 &&
        tt_region_is_run(&sent->box[0], &b->in.home[sent->a[0]], &at))
        return in + tt__wire_site_bytes(x, at);
    at = 0;
    for (int32_t k = 0; k < sent->n; k++) {
        const tt_region_end to = {&sent->box[k],
                                  room + tt__wire_site_bytes(x, at)};
        tt_region_fold(&sent->box[k], copy, to,
                       (tt_region_end){&b->in.home[sent->a[k]], in});
        at += tt_region_count(&sent->box[k]);
    }
    return room;
}

// Sends to the rank `step` further and receives from the one `step` before. `arrived`
// has room for what comes from coordinates 0, 1, ..., in this order.
static tt_status swap_boxes(const tt__carrier *c, const tt__wire_site *x,
                            const tt__boxes *b, int32_t step)
{
    const int32_t to = (x->coord + step) % x->size;
    const int32_t from = (x->coord - step + x->size) % x->size;
    const tt_common sent = tt__sent_to(x, b, to),
                    got = tt__got_from(x, b, from);
    int64_t skip = 0, arriving = 0, largest = 0;
    count_boxes(x, b, &arriving, &largest);
    for (int32_t i = 0; i < from; i++)
        skip += tt__got_from(x, b, i).count;
    char *room = c->scratch + tt__wire_site_bytes(x, arriving);
    tt_msg out = {.peer = tt__wire_site_rank(x, to),
                  .tag = c->tag,
                  .data = pack(x, b, &sent, room),
                  .bytes = tt__wire_site_bytes(x, sent.count)};
    tt_msg in = {.peer = tt__wire_site_rank(x, from),
                 .tag = c->tag,
                 .data = c->scratch + tt__wire_site_bytes(x, skip),
                 .bytes = tt__wire_site_bytes(x, got.count)};
    return tt_comm_swap(c->comm, out.bytes > 0 ? &out : NULL,
                        in.bytes > 0 ? &in : NULL);
}

// Stores what arrived, in the order of ranks, so that sums always have the same bits.
static void unpack(const tt__carrier *c, const tt__wire_site *x,
                   const tt__boxes *b)
{
    char *arrived = c->scratch;
    const tt_fold fold = {b->is_sum ? TT_FOLD_SUM : TT_FOLD_COPY, x->fold.type};
    if (b->is_sum)
        memset(x->out, 0,
               (size_t)tt__wire_site_bytes(x, tt_part_count(&b->out)));
    for (int32_t i = 0; i < x->size; i++) {
        const tt_common got = tt__got_from(x, b, i);
        for (int32_t k = 0; k < got.n; k++) {
            const tt_region_end own = {&b->in.home[got.a[k]],
                                       (void *)(uintptr_t)x->in};
            const tt_region_end other = {&got.box[k], arrived};
            tt_region_fold(&got.box[k], fold,
                           (tt_region_end){&b->out.home[got.b[k]], x->out},
                           i == x->coord ? own : other);
            arrived += tt__wire_site_bytes(x, tt_region_count(&got.box[k]));
        }
    }
}

tt_status tt__boxes_check(const tt__wire_site *x, const tt__boxes *b)
{
    int64_t arriving = 0, largest = 0;
    count_boxes(x, b, &arriving, &largest);
    if (!b->is_sum && arriving != tt_part_count(&b->out))
        return tt_fail(TT_ERR_ARG,
                       "%s: rank %d needs elements that no rank along %s holds",
                       x->op->name, x->rank, x->mesh->axis[x->axis].name);
    return TT_OK;
}

// In round `step` each rank sends to the one `step` further and receives from the one
// `step` before, so no rank gets two messages at a time. What arrives waits in scratch
// memory until all is there, because sums are made in the order of ranks.
static tt_status by_boxes(const tt__carrier *c, const tt__wire_site *x)
{
    const tt__boxes b = tt__boxes_of(x);
    TT_TRY(tt__boxes_check(x, &b));
    for (int32_t step = 1; step < x->size; step++)
        TT_TRY(swap_boxes(c, x, &b, step));
    unpack(c, x, &b);
    return TT_OK;
}

// ---- one message -----------------------------------------------------------

// One graph for all ranks: those that neither send nor receive have nothing to do.
static tt_status move(const tt__carrier *c, const tt__wire_site *x)
{
    tt_msg out = {.peer = tt__wire_site_rank(x, (int32_t)x->p->to_coord),
                  .tag = c->tag,
                  .data = (void *)(uintptr_t)x->in,
                  .bytes = x->in_bytes};
    tt_msg in = {.peer = tt__wire_site_rank(x, (int32_t)x->p->from_coord),
                 .tag = c->tag,
                 .data = x->out,
                 .bytes = x->out_bytes};
    if (tt__move_sends(x))
        return tt_comm_swap(c->comm, &out, NULL);
    if (tt__move_receives(x))
        return tt_comm_swap(c->comm, NULL, &in);
    if (x->out_bytes > 0) // from here to here
        memcpy(x->out, x->in, (size_t)x->out_bytes);
    return TT_OK;
}

// ---- nothing is sent -------------------------------------------------------

static tt_status take(const tt__carrier *c, const tt__wire_site *x)
{
    (void)c;
    const tt_fold copy = {TT_FOLD_COPY, x->fold.type};
    const tt__boxes b = tt__boxes_of(x);
    const tt_common kept = tt_part_common(&b.in, &b.out);
    for (int32_t k = 0; k < kept.n; k++)
        tt_region_fold(
            &kept.box[k], copy, (tt_region_end){&b.out.home[kept.b[k]], x->out},
            (tt_region_end){&b.in.home[kept.a[k]], (void *)(uintptr_t)x->in});
    return TT_OK;
}

static tt_status keep_first(const tt__carrier *c, const tt__wire_site *x)
{
    (void)c;
    if (x->coord > 0)
        memset(x->out, 0, (size_t)tt__wire_site_bytes(x, x->count));
    else if (x->out != x->in)
        memcpy(x->out, x->in, (size_t)tt__wire_site_bytes(x, x->count));
    return TT_OK;
}

// ---- the table -------------------------------------------------------------

typedef tt_status way_fn(const tt__carrier *c, const tt__wire_site *x);

static const struct {
    const tt_op_def *op;
    way_fn *run;
} ways[] = {
    {&tt_op_all_reduce, all_reduce},
    {&tt_op_all_gather, by_blocks},
    {&tt_op_reduce_scatter, by_blocks},
    {&tt_op_all_to_all, by_boxes},
    {&tt_op_shift, by_boxes},
    {&tt_op_halo, by_boxes},
    {&tt_op_halo_add, by_boxes},
    {&tt_op_move, move},
    {&tt_op_take, take},
    {&tt_op_keep_first, keep_first},
};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

_Static_assert((int)N_WAYS < (int)TT__KINDS, "each kind is counted");

int tt__carry_kind(const tt_op_def *op)
{
    int i = 0;
    while (i < N_WAYS && ways[i].op != op)
        i++;
    return i;
}

static way_fn *way_of(const tt_op_def *op)
{
    const int kind = tt__carry_kind(op);
    return kind < N_WAYS ? ways[kind].run : NULL;
}

tt_status tt__carry_site(tt__carrier *c, const tt__wire_site *x)
{
    if (c != NULL)
        c->tag = x->tag;
    return way_of(x->op)(c, x);
}

// ---- scratch memory --------------------------------------------------------

static int64_t call_room(const tt__carrier *c, const tt_coll_call *call)
{
    return tt_coll_scratch_bytes(tt__carrier_choose(c, call), call);
}

static int64_t blocks_room(const tt__carrier *c, const tt__wire_site *x)
{
    const bool is_gather = x->op == &tt_op_all_gather;
    const tt__wire_blocks b = tt__wire_blocks_of(c, x, is_gather);
    const tt_coll_call call = tt__wire_block_call(
        c, x, &b, is_gather ? TT_ALL_GATHER : TT_REDUCE_SCATTER);
    return call_room(c, &call) + apart_bytes(c, x, &call) +
           (b.is_in_row ? 0 : tt__wire_site_bytes(x, call.count));
}

static int64_t boxes_room(const tt__wire_site *x)
{
    const tt__boxes b = tt__boxes_of(x);
    int64_t arriving = 0, largest = 0;
    count_boxes(x, &b, &arriving, &largest);
    return tt__wire_site_bytes(x, arriving + largest);
}

static int64_t step_room(const tt__carrier *c, const tt_plan *plan, int32_t s)
{
    const tt__wire_site x = tt__wire_site_of(plan, s, NULL);
    way_fn *const way = way_of(x.op);
    if (way == by_blocks)
        return blocks_room(c, &x);
    if (way == by_boxes)
        return boxes_room(&x);
    if (way == all_reduce) {
        const tt_coll_call call = tt__reduce_call(c, &x);
        return call_room(c, &call);
    }
    return 0;
}

static int64_t flight_room(const tt__carrier *c, const tt_plan *plan,
                           const tt_flight *flight)
{
    const int32_t *member = &plan->member[flight->first];
    int64_t most = 0;
    if (flight->is_joined) {
        const tt_coll_call call = tt__joined_call(c, plan, flight);
        return call_room(c, &call);
    }
    for (int32_t i = 0; i < flight->n; i++) {
        const int64_t bytes = step_room(c, plan, member[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

tt_status tt__carrier_bind(tt__carrier *c, const tt_plan *plan)
{
    int64_t most = 0;
    if (plan->n_flights > 0 &&
        tt_mesh_ranks(&plan->graph->mesh) != c->comm->size)
        return tt_fail(TT_ERR_ARG, "the plan is for %d ranks, but there are %d",
                       tt_mesh_ranks(&plan->graph->mesh), c->comm->size);
    for (int32_t i = 0; i < plan->n_members; i++)
        if (way_of(plan->step[plan->member[i]].op) == NULL)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: no transport can carry it out",
                           plan->step[plan->member[i]].name);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const int64_t bytes = flight_room(c, plan, &plan->flight[f]);
        most = bytes > most ? bytes : most;
    }
    return tt__carrier_room(c, most);
}
