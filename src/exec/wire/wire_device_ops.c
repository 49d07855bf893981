// wire_device_ops - communication operators by links between devices: the same as in
// wire_ops, told to the device in the wire's queue.
//
//   all_reduce, move            one call; of a move: a send or a receive
//   all_gather, reduce_scatter  one call where blocks are equal and begin with the
//                               first member's; else a broadcast or a reduction for
//                               each. Blocks of inner factors are packed and unpacked
//   all_to_all, shift, halos    packed, sent to all and received from all as one
//
// Packing and unpacking are strided copies that the device does itself, in the same
// queue, so the host touches no data. Sends and receives of one operator are given to
// the library as one group: one after another they could wait for each other in a
// circle.

#include "traffic/site.h"
#include "ops/ops.h"

// ---- by collectives ------------------------------------------------------

static tt_device_coll call_of(const tt__wire_site *x, tt_device_coll_kind kind,
                              int64_t count)
{
    return (tt_device_coll){.kind = kind,
                            .in = x->in,
                            .out = x->out,
                            .count = count,
                            .dtype = (tt_dtype)x->fold.type,
                            .is_max = x->p->reduce != TT_SUM};
}

static tt_status move(const tt__carrier *c, const tt_region *part,
                      tt_region_end to, tt_region_end from,
                      const tt__wire_site *x)
{
    tt_backend *backend = c->links.backend;
    const tt_move m = tt_region_move(part, to, from, (tt_dtype)x->fold.type);
    return backend->def->queue->move(backend, TT_QUEUE_WIRE, &m);
}

// Between the whole and its blocks in a row.
static tt_status move_blocks(const tt__carrier *c, const tt__wire_site *x,
                             const tt__wire_blocks *b, bool is_packing)
{
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt__wire_block_of(x, b, i);
        const tt_common both = tt_part_common(&block, &b->whole);
        char *room = c->links.room + tt__wire_site_bytes(x, c->bound[i]);
        for (int32_t k = 0; k < both.n; k++) {
            const tt_region_end row = {&block.home[both.a[k]], room};
            const tt_region_end whole = {&b->whole.home[both.b[k]],
                                         is_packing ? (void *)(uintptr_t)x->in
                                                    : x->out};
            TT_TRY(move(c, &both.box[k], is_packing ? row : whole,
                        is_packing ? whole : row, x));
        }
    }
    return TT_OK;
}

static bool has_equal_blocks(const tt__carrier *c, const tt__wire_site *x)
{
    for (int32_t i = 1; i < x->size; i++)
        if (c->bound[i + 1] - c->bound[i] != c->bound[1])
            return false;
    return true;
}

// Block after block, each from or to the one who has it; `row` has them all.
static int each_block(const tt__carrier *c, const tt__wire_site *x,
                      const tt__wire_blocks *b, char *row, tt_device_coll *call)
{
    const bool is_gather = x->op == &tt_op_all_gather;
    int n = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t count = c->bound[i + 1] - c->bound[i];
        const int32_t owner = (b->first + i) % x->size;
        char *at = row + tt__wire_site_bytes(x, c->bound[i]);
        if (count == 0)
            continue;
        tt_device_coll *k = &call[n++];
        *k = call_of(
            x, is_gather ? TT_DEVICE_COLL_BROADCAST : TT_DEVICE_COLL_REDUCE,
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

static tt_status by_blocks(tt__carrier *c, const tt__wire_site *x)
{
    const bool is_gather = x->op == &tt_op_all_gather;
    const tt__wire_blocks b = tt__wire_blocks_of(c, x, is_gather);
    TT_TRY(tt__wire_blocks_check(c, x, &b));
    char *row = b.is_in_row ? (is_gather ? x->out : (char *)(uintptr_t)x->in)
                            : c->links.room;
    if (!b.is_in_row && !is_gather)
        TT_TRY(move_blocks(c, x, &b, true));
    if (b.first == 0 && has_equal_blocks(c, x)) {
        tt_device_coll call = call_of(x,
                                      is_gather ? TT_DEVICE_COLL_ALL_GATHER
                                                : TT_DEVICE_COLL_REDUCE_SCATTER,
                                      c->bound[1]);
        if (is_gather)
            call.out = row;
        else
            call.in = row;
        TT_TRY(tt__device_groups_run(c, x, &call, c->bound[1] > 0 ? 1 : 0));
    } else {
        TT_TRY(tt__device_groups_run(c, x, c->call,
                                     each_block(c, x, &b, row, c->call)));
    }
    return !b.is_in_row && is_gather ? move_blocks(c, x, &b, false) : TT_OK;
}

// ---- from box to box -----------------------------------------------------

// What goes to a coordinate, box after box.
static tt_status pack(const tt__carrier *c, const tt__wire_site *x,
                      const tt__boxes *b, const tt_common *sent, char *room)
{
    int64_t at = 0;
    for (int32_t k = 0; k < sent->n; k++) {
        const tt_region_end to = {&sent->box[k],
                                  room + tt__wire_site_bytes(x, at)};
        const tt_region_end from = {&b->in.home[sent->a[k]],
                                    (void *)(uintptr_t)x->in};
        TT_TRY(move(c, &sent->box[k], to, from, x));
        at += tt_region_count(&sent->box[k]);
    }
    return TT_OK;
}

// What came from coordinate `i`, or lies here already.
static tt_status unpack(const tt__carrier *c, const tt__wire_site *x,
                        const tt__boxes *b, int32_t i, char **arrived)
{
    tt_backend *backend = c->links.backend;
    const tt_common got = tt__got_from(x, b, i);
    for (int32_t k = 0; k < got.n; k++) {
        const tt_region_end own = {&b->in.home[got.a[k]],
                                   (void *)(uintptr_t)x->in};
        const tt_region_end other = {&got.box[k], *arrived};
        tt_move m = tt_region_move(
            &got.box[k], (tt_region_end){&b->out.home[got.b[k]], x->out},
            i == x->coord ? own : other, (tt_dtype)x->fold.type);
        m.adds = b->is_sum;
        TT_TRY(backend->def->queue->move(backend, TT_QUEUE_WIRE, &m));
        *arrived += tt__wire_site_bytes(x, tt_region_count(&got.box[k]));
    }
    return TT_OK;
}

static tt_status exchange(tt__carrier *c, const tt__wire_site *x,
                          const tt__boxes *b)
{
    char *room = c->links.room;
    int n = 0;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t count = tt__got_from(x, b, i).count;
        if (i != x->coord && count > 0) {
            c->call[n] = call_of(x, TT_DEVICE_COLL_RECEIVE, count);
            c->call[n].out = room;
            c->call[n++].peer = i;
        }
        room += tt__wire_site_bytes(x, count);
    }
    for (int32_t i = 0; i < x->size; i++) {
        const tt_common sent = tt__sent_to(x, b, i);
        if (i == x->coord || sent.count == 0)
            continue;
        TT_TRY(pack(c, x, b, &sent, room));
        c->call[n] = call_of(x, TT_DEVICE_COLL_SEND, sent.count);
        c->call[n].in = room;
        c->call[n++].peer = i;
        room += tt__wire_site_bytes(x, sent.count);
    }
    return tt__device_groups_run(c, x, c->call, n);
}

static tt_status by_boxes(tt__carrier *c, const tt__wire_site *x)
{
    tt_backend *backend = c->links.backend;
    const tt__boxes b = tt__boxes_of(x);
    char *arrived = c->links.room;
    TT_TRY(tt__boxes_check(x, &b));
    TT_TRY(exchange(c, x, &b));
    if (b.is_sum)
        TT_TRY(backend->def->queue->fill(backend, TT_QUEUE_WIRE, x->out, 0,
                                         x->out_bytes));
    for (int32_t i = 0; i < x->size; i++)
        TT_TRY(unpack(c, x, &b, i, &arrived));
    return TT_OK;
}

// ---- one message ---------------------------------------------------------

static tt_status move_value(tt__carrier *c, const tt__wire_site *x)
{
    tt_backend *backend = c->links.backend;
    const bool sends = tt__move_sends(x);
    tt_device_coll call = call_of(
        x, sends ? TT_DEVICE_COLL_SEND : TT_DEVICE_COLL_RECEIVE, x->count);
    call.peer = (int32_t)(sends ? x->p->to_coord : x->p->from_coord);
    const bool takes_part = sends || tt__move_receives(x);
    TT_TRY(
        tt__device_groups_run(c, x, &call, takes_part && x->count > 0 ? 1 : 0));
    return takes_part || x->out_bytes == 0
               ? TT_OK
               : backend->def->queue->copy(backend, TT_QUEUE_WIRE, x->out,
                                           x->in, x->out_bytes);
}

tt_status tt__device_carry(tt__carrier *c, const tt__wire_site *x)
{
    if (x->op == &tt_op_all_gather || x->op == &tt_op_reduce_scatter)
        return by_blocks(c, x);
    if (x->op == &tt_op_move)
        return move_value(c, x);
    if (x->op != &tt_op_all_reduce)
        return by_boxes(c, x);
    const tt_device_coll call = call_of(x, TT_DEVICE_COLL_ALL_REDUCE, x->count);
    return tt__device_groups_run(c, x, &call, x->count > 0 ? 1 : 0);
}
