// wire_device_ops - communication operators by links between devices: the same as in
// wire_ops, told to the device in the wire's queue.
//
//   all_reduce                  one call
//   all_gather, reduce_scatter  one call where blocks are equal and begin with the
//                               first member's; else a broadcast or a reduction for
//                               each. Blocks of inner factors are packed and unpacked
//   all_to_all, shift, halos    packed, sent to all and received from all as one
//
// Packing and unpacking are strided copies that the device does itself, in the same
// queue, so the host touches no data. Sends and receives of one operator are given to
// the library as one group: one after another they could wait for each other in a
// circle.

#include "exec/wire/wire_plan.h"

_Static_assert((int)TT_MAX_FACTORS <= (int)TT_MOVE_DIMS, "factors are dims");

tt_move tt__region_move(const tt_region *part, tt_region_end to,
                        tt_region_end from, tt_dtype dtype)
{
    const int64_t bytes = tt_dtype_bytes(dtype);
    tt_move m = {.ndim = part->n,
                 .dtype = dtype,
                 .to = (char *)to.data + tt_region_first(part, to.box) * bytes,
                 .from = (char *)from.data +
                         tt_region_first(part, from.box) * bytes};
    for (int f = 0; f < part->n; f++)
        m.dim[f] = part->size[f];
    tt_region_strides(to.box, m.to_stride);
    tt_region_strides(from.box, m.from_stride);
    return m;
}

// ---- by collectives ------------------------------------------------------

static tt_device_coll call_of(const tt__wire_leg *leg, tt_device_coll_kind kind,
                              int64_t count)
{
    return (tt_device_coll){.kind = kind,
                            .in = leg->in,
                            .out = leg->out,
                            .count = count,
                            .dtype = (tt_dtype)leg->x.fold.type,
                            .is_max = leg->x.p->reduce != TT_SUM};
}

tt_status tt__link_reduce(tt__carrier *c, const tt__wire_leg *leg)
{
    tt_backend *backend = c->links.backend;
    const int64_t count = leg->x.count;
    tt_device_coll call = call_of(leg, TT_DEVICE_COLL_ALL_REDUCE, count);
    if (leg->in == NULL) { // this rank has no term
        TT_TRY(backend->def->queue->fill(backend, TT_QUEUE_WIRE, leg->out, 0,
                                         leg->x.out_bytes));
        call.in = leg->out;
    }
    return tt__device_groups_run(c, leg, &call, count > 0 ? 1 : 0);
}

static tt_status move(const tt__carrier *c, const tt__wire_leg *leg,
                      const tt_region *part, tt_region_end to,
                      tt_region_end from)
{
    tt_backend *backend = c->links.backend;
    const tt_move m =
        tt__region_move(part, to, from, (tt_dtype)leg->x.fold.type);
    return backend->def->queue->move(backend, TT_QUEUE_WIRE, &m);
}

// Between the whole and its blocks in a row.
static tt_status move_blocks(const tt__carrier *c, const tt__wire_leg *leg,
                             bool is_packing)
{
    const tt_traffic_site *x = &leg->x;
    const tt_traffic_blocks *b = &leg->blocks;
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt_traffic_block_of(x, b, i);
        const tt_common both = tt_part_common(&block, &b->whole);
        char *room =
            c->links.room + tt_traffic_site_bytes(x, leg->group.bound[i]);
        for (int32_t k = 0; k < both.n; k++) {
            const tt_region_end row = {&block.home[both.a[k]], room};
            const tt_region_end whole = {&b->whole.home[both.b[k]],
                                         is_packing ? (void *)(uintptr_t)leg->in
                                                    : leg->out};
            TT_TRY(move(c, leg, &both.box[k], is_packing ? row : whole,
                        is_packing ? whole : row));
        }
    }
    return TT_OK;
}

static bool has_equal_blocks(const tt__wire_leg *leg)
{
    const int64_t *bound = leg->group.bound;
    for (int32_t i = 1; i < leg->x.size; i++)
        if (bound[i + 1] - bound[i] != bound[1])
            return false;
    return true;
}

// Block after block, each from or to the one who has it; `row` has them all.
static int each_block(const tt__wire_leg *leg, char *row, tt_device_coll *call)
{
    const tt_traffic_site *x = &leg->x;
    const int64_t *bound = leg->group.bound;
    const bool is_gather = x->kind->coll == TT_ALL_GATHER;
    int n = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t count = bound[i + 1] - bound[i];
        const int32_t owner = (leg->blocks.first + i) % x->size;
        char *at = row + tt_traffic_site_bytes(x, bound[i]);
        if (count == 0)
            continue;
        tt_device_coll *k = &call[n++];
        *k = call_of(
            leg, is_gather ? TT_DEVICE_COLL_BROADCAST : TT_DEVICE_COLL_REDUCE,
            count);
        k->peer = owner;
        if (is_gather)
            k->out = at;
        else
            k->in = at;
        if (owner != x->coord) {
            k->in = is_gather ? at : k->in; // not read
            k->out = is_gather ? k->out : at;
        }
    }
    return n;
}

// All blocks are as long as the first.
static tt_status equal_blocks(tt__carrier *c, const tt__wire_leg *leg,
                              char *row)
{
    const bool is_gather = leg->x.kind->coll == TT_ALL_GATHER;
    const int64_t count = leg->group.bound[1];
    tt_device_coll call = call_of(leg,
                                  is_gather ? TT_DEVICE_COLL_ALL_GATHER
                                            : TT_DEVICE_COLL_REDUCE_SCATTER,
                                  count);
    if (is_gather)
        call.out = row;
    else
        call.in = row;
    return tt__device_groups_run(c, leg, &call, count > 0 ? 1 : 0);
}

tt_status tt__link_blocks(tt__carrier *c, const tt__wire_leg *leg)
{
    const bool is_gather = leg->x.kind->coll == TT_ALL_GATHER;
    const bool is_packed = !leg->blocks.is_in_row;
    char *row = is_packed   ? c->links.room
                : is_gather ? leg->out
                            : (char *)(uintptr_t)leg->in;
    if (is_packed && !is_gather)
        TT_TRY(move_blocks(c, leg, true));
    TT_TRY(leg->blocks.first == 0 && has_equal_blocks(leg)
               ? equal_blocks(c, leg, row)
               : tt__device_groups_run(c, leg, c->call,
                                       each_block(leg, row, c->call)));
    return is_packed && is_gather ? move_blocks(c, leg, false) : TT_OK;
}

// The library wants blocks one after another. A value that is cut along an inner
// dimension is packed into the device's room before and unpacked after.
int64_t tt__link_blocks_bytes(const tt_traffic_site *x,
                              const tt_traffic_group *group)
{
    const tt_traffic_blocks b = tt_traffic_blocks_of(x, group);
    return b.is_in_row ? 0 : tt_traffic_site_bytes(x, group->bound[x->size]);
}

// ---- from box to box -----------------------------------------------------

// What goes to a coordinate, box after box.
static tt_status pack(const tt__carrier *c, const tt__wire_leg *leg,
                      const tt_common *sent, char *room)
{
    int64_t at = 0;
    for (int32_t k = 0; k < sent->n; k++) {
        const tt_region_end to = {&sent->box[k],
                                  room + tt_traffic_site_bytes(&leg->x, at)};
        const tt_region_end from = {&leg->boxes.in.home[sent->a[k]],
                                    (void *)(uintptr_t)leg->in};
        TT_TRY(move(c, leg, &sent->box[k], to, from));
        at += tt_region_count(&sent->box[k]);
    }
    return TT_OK;
}

// What came from coordinate `i`, or lies here already.
static tt_status unpack(const tt__carrier *c, const tt__wire_leg *leg,
                        int32_t i, char **arrived)
{
    tt_backend *backend = c->links.backend;
    const tt_traffic_site *x = &leg->x;
    const tt_traffic_boxes *b = &leg->boxes;
    const tt_common got = tt_traffic_got_from(x, b, i);
    for (int32_t k = 0; k < got.n; k++) {
        const tt_region_end own = {&b->in.home[got.a[k]],
                                   (void *)(uintptr_t)leg->in};
        const tt_region_end other = {&got.box[k], *arrived};
        tt_move m = tt__region_move(
            &got.box[k], (tt_region_end){&b->out.home[got.b[k]], leg->out},
            i == x->coord ? own : other, (tt_dtype)x->fold.type);
        m.adds = x->kind->is_sum;
        TT_TRY(backend->def->queue->move(backend, TT_QUEUE_WIRE, &m));
        *arrived += tt_traffic_site_bytes(x, tt_region_count(&got.box[k]));
    }
    return TT_OK;
}

static tt_status exchange(tt__carrier *c, const tt__wire_leg *leg)
{
    const tt_traffic_site *x = &leg->x;
    char *room = c->links.room;
    int n = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t count = tt_traffic_got_from(x, &leg->boxes, i).count;
        if (i != x->coord && count > 0) {
            c->call[n] = call_of(leg, TT_DEVICE_COLL_RECEIVE, count);
            c->call[n].out = room;
            c->call[n++].peer = i;
        }
        room += tt_traffic_site_bytes(x, count);
    }
    for (int32_t i = 0; i < x->size; i++) {
        const tt_common sent = tt_traffic_sent_to(x, &leg->boxes, i);
        if (i == x->coord || sent.count == 0)
            continue;
        TT_TRY(pack(c, leg, &sent, room));
        c->call[n] = call_of(leg, TT_DEVICE_COLL_SEND, sent.count);
        c->call[n].in = room;
        c->call[n++].peer = i;
        room += tt_traffic_site_bytes(x, sent.count);
    }
    return tt__device_groups_run(c, leg, c->call, n);
}

tt_status tt__link_boxes(tt__carrier *c, const tt__wire_leg *leg)
{
    tt_backend *backend = c->links.backend;
    char *arrived = c->links.room;
    TT_TRY(exchange(c, leg));
    if (tt_traffic_boxes_keep(&leg->x) && leg->out != leg->in)
        TT_TRY(backend->def->queue->copy(backend, TT_QUEUE_WIRE, leg->out,
                                         leg->in, leg->x.out_bytes));
    if (leg->x.kind->is_sum)
        TT_TRY(backend->def->queue->fill(backend, TT_QUEUE_WIRE, leg->out, 0,
                                         leg->x.out_bytes));
    for (int32_t i = 0; i < leg->x.size; i++)
        TT_TRY(unpack(c, leg, i, &arrived));
    return TT_OK;
}

int64_t tt__link_boxes_bytes(const tt_traffic_site *x,
                             const tt_traffic_group *group)
{
    const tt_traffic_boxes b = tt_traffic_boxes_of(x);
    int64_t n = 0;
    (void)group;
    for (int32_t i = 0; i < x->size; i++)
        n += tt_traffic_sent_to(x, &b, i).count +
             tt_traffic_got_from(x, &b, i).count;
    return tt_traffic_site_bytes(x, n);
}

// ---- one message ---------------------------------------------------------

// Moves are open messages (wire_device_moves.c), and a plan gives them flights of their
// own.
tt_status tt__link_move(tt__carrier *c, const tt__wire_leg *leg)
{
    (void)c;
    return tt_fail(TT_ERR_STATE,
                   "%s: a move is in one flight with other collectives",
                   leg->where);
}

// ---- without peers -------------------------------------------------------

// This rank keeps a part of what it has as a whole: copies of boxes, on the device.
tt_status tt__alone_take(tt_backend *backend, tt_queue queue,
                         const tt__wire_leg *leg)
{
    const tt_traffic_boxes *b = &leg->boxes;
    const tt_common kept = tt_part_common(&b->in, &b->out);
    for (int32_t k = 0; k < kept.n; k++) {
        const tt_move m = tt__region_move(
            &kept.box[k], (tt_region_end){&b->out.home[kept.b[k]], leg->out},
            (tt_region_end){&b->in.home[kept.a[k]], (void *)(uintptr_t)leg->in},
            leg->x.in_type->dtype);
        TT_TRY(backend->def->queue->move(backend, queue, &m));
    }
    return TT_OK;
}

// The only term is the sum.
tt_status tt__alone_reduce(tt_backend *backend, tt_queue queue,
                           const tt__wire_leg *leg)
{
    const tt_queue_def *def = backend->def->queue;
    if (leg->in == NULL)
        return def->fill(backend, queue, leg->out, 0, leg->x.out_bytes);
    return leg->in == leg->out
               ? TT_OK
               : def->copy(backend, queue, leg->out, leg->in, leg->x.out_bytes);
}

tt_status tt__alone_keep(tt_backend *backend, tt_queue queue,
                         const tt__wire_leg *leg)
{
    const tt_queue_def *def = backend->def->queue;
    if (!tt__keeps(&leg->x))
        return def->fill(backend, queue, leg->out, 0, leg->x.in_bytes);
    return leg->in == leg->out
               ? TT_OK
               : def->copy(backend, queue, leg->out, leg->in, leg->x.in_bytes);
}
