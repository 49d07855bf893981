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
// There are six ways (traffic/site.h), each a row of the table at the end: what is worked
// out when a plan is bound, how it is carried out in the host's memory, by links between
// devices, and by a device alone. All that is looked up, chosen or counted is done in
// bind, so carrying out allocates nothing and compares no names.

#include "exec/wire/wire_plan.h"
#include "ops/codec/packet.h"

#include <string.h>

// ---- by collectives --------------------------------------------------------

static tt_status bind_reduce(const tt__carrier *c, tt__wire_leg *leg)
{
    leg->call = tt_traffic_reduce_call(&leg->x, &c->rules, &leg->group);
    leg->def = tt_traffic_choose(&c->rules, &leg->call);
    leg->scratch_bytes = tt_coll_scratch_bytes(leg->def, &leg->call);
    return TT_OK;
}

static tt_status reduce(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                        char *out)
{
    tt_coll_call call = leg->call;
    call.in = in != NULL ? in : out;
    call.out = out;
    call.scratch = leg->scratch_bytes > 0 ? c->scratch : NULL;
    if (in == NULL) // this rank has no term
        memset(out, 0, (size_t)leg->x.out_bytes);
    return tt_coll_run(leg->def, c->comm, &call);
}

// Copies between the whole and its blocks side by side.
static void move_blocks(const tt__wire_leg *leg, char *row, char *whole,
                        bool is_packing)
{
    const tt_traffic_site *x = &leg->x;
    const tt_traffic_blocks *b = &leg->blocks;
    const tt_fold copy = {TT_FOLD_COPY, x->fold.type};
    for (int32_t i = 0; i < x->size; i++) {
        const tt_part block = tt_traffic_block_of(x, b, i);
        const tt_common both = tt_part_common(&block, &b->whole);
        char *at = row + tt_traffic_site_bytes(x, leg->group.bound[i]);
        for (int32_t k = 0; k < both.n; k++) {
            const tt_region_end one = {&block.home[both.a[k]], at};
            const tt_region_end all = {&b->whole.home[both.b[k]], whole};
            tt_region_fold(&both.box[k], copy, is_packing ? one : all,
                           is_packing ? all : one);
        }
    }
}

// Bytes of scratch for a scatter in place whose algorithm cannot work in place; else 0.
static int64_t apart_bytes(const tt__carrier *c, const tt__wire_leg *leg)
{
    enum { ALIGN = 64 };
    const tt_coll_call *call = &leg->call;
    if (call->kind != TT_REDUCE_SCATTER || !leg->x.is_in_place ||
        (leg->def->is_native && c->comm->def->scatters_in_place))
        return 0;
    const int64_t mine = tt_coll_block(call, call->group.me).n;
    return (tt_traffic_site_bytes(&leg->x, mine) + ALIGN - 1) / ALIGN * ALIGN;
}

// Bytes of the blocks side by side, where they do not lie so.
static int64_t packed_bytes(const tt__wire_leg *leg)
{
    return leg->blocks.is_in_row
               ? 0
               : tt_traffic_site_bytes(&leg->x, leg->call.count);
}

static tt_status bind_blocks(const tt__carrier *c, tt__wire_leg *leg)
{
    leg->blocks = tt_traffic_blocks_of(&leg->x, &leg->group);
    TT_TRY(tt_traffic_blocks_check(&leg->x, &leg->group, &leg->blocks));
    leg->call =
        tt_traffic_blocks_call(&leg->x, &c->rules, &leg->group, &leg->blocks);
    leg->def = tt_traffic_choose(&c->rules, &leg->call);
    leg->apart = apart_bytes(c, leg);
    leg->scratch_bytes = leg->apart + packed_bytes(leg) +
                         tt_coll_scratch_bytes(leg->def, &leg->call);
    return TT_OK;
}

// Scratch memory holds, in this order: the result where it must not overlap the input;
// the packed blocks where they do not lie in a row; and the algorithm's own scratch.
static tt_status blocks(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                        char *out)
{
    const bool is_gather = leg->call.kind == TT_ALL_GATHER;
    const bool is_packed = !leg->blocks.is_in_row;
    tt_coll_call call = leg->call;
    char *row = c->scratch + leg->apart;
    char *room = row + packed_bytes(leg);
    call.in = is_packed && !is_gather ? row : in;
    call.out = leg->apart > 0 ? c->scratch : is_packed && is_gather ? row : out;
    call.scratch = tt_coll_scratch_bytes(leg->def, &call) > 0 ? room : NULL;
    if (is_packed && !is_gather)
        move_blocks(leg, row, (char *)(uintptr_t)in, true);
    TT_TRY(tt_coll_run(leg->def, c->comm, &call));
    if (is_packed && is_gather)
        move_blocks(leg, row, out, false);
    if (leg->apart > 0)
        tt_coll_copy(&call, out, c->scratch,
                     tt_coll_block(&call, call.group.me).n);
    return TT_OK;
}

// ---- from box to box -------------------------------------------------------

static tt_status bind_boxes(const tt__carrier *c, tt__wire_leg *leg)
{
    (void)c;
    leg->boxes = tt_traffic_boxes_of(&leg->x);
    leg->scratch_bytes = tt_traffic_site_bytes(&leg->x, leg->boxes.arriving +
                                                            leg->boxes.largest);
    return tt_traffic_boxes_check(&leg->x, &leg->boxes);
}

// Boxes of this rank's input, side by side: copied into `room`, unless they lie so
// already.
static void *pack(const tt__wire_leg *leg, const tt_common *sent, char *in,
                  char *room)
{
    const tt_traffic_site *x = &leg->x;
    const tt_part *part = &leg->boxes.in;
    const tt_fold copy = {TT_FOLD_COPY, x->fold.type};
    int64_t at = 0;
    if (sent->n == 1 &&
        tt_region_is_run(&sent->box[0], &part->home[sent->a[0]], &at))
        return in + tt_traffic_site_bytes(x, at);
    at = 0;
    for (int32_t k = 0; k < sent->n; k++) {
        const tt_region_end to = {&sent->box[k],
                                  room + tt_traffic_site_bytes(x, at)};
        tt_region_fold(&sent->box[k], copy, to,
                       (tt_region_end){&part->home[sent->a[k]], in});
        at += tt_region_count(&sent->box[k]);
    }
    return room;
}

// The bytes of a packet after its header: whole words of 8.
static int64_t rest_of(const void *packet)
{
    return (tt_packet_used(packet) + 7) / 8 * 8 - TT_PACKET_HEADER;
}

// A packet each way: the header says how long the rest is.
static tt_status swap_packets(tt__carrier *c, const tt__wire_leg *leg,
                              tt_msg *out, tt_msg *in)
{
    const int64_t most[2] = {out->bytes, in->bytes};
    out->bytes = in->bytes = TT_PACKET_HEADER;
    TT_TRY(tt_comm_swap(c->comm, most[0] > 0 ? out : NULL,
                        most[1] > 0 ? in : NULL));
    const int64_t sent = most[0] > 0 ? rest_of(out->data) : 0;
    const int64_t got = most[1] > 0 ? rest_of(in->data) : 0;
    if (got < 0 || got > (most[1] > 0 ? most[1] - TT_PACKET_HEADER : 0))
        return tt_fail(TT_ERR_PEER,
                       "%s: rank %d says that a code has %lld bytes, and "
                       "there can be %lld",
                       leg->where, in->peer, (long long)got + TT_PACKET_HEADER,
                       (long long)most[1]);
    c->packet_bytes += most[0] > 0 ? sent + TT_PACKET_HEADER : 0;
    tt_msg out_rest = {.peer = out->peer,
                       .tag = out->tag,
                       .data = (char *)out->data + TT_PACKET_HEADER,
                       .bytes = sent};
    tt_msg in_rest = {.peer = in->peer,
                      .tag = in->tag,
                      .data = (char *)in->data + TT_PACKET_HEADER,
                      .bytes = got};
    return tt_comm_swap(c->comm, sent > 0 ? &out_rest : NULL,
                        got > 0 ? &in_rest : NULL);
}

// Sends to the rank `step` further and receives from the one `step` before. Scratch
// memory has room for what comes from coordinates 0, 1, ..., in this order.
static tt_status swap_boxes(tt__carrier *c, const tt__wire_leg *leg,
                            const char *in, int32_t step)
{
    const tt_traffic_site *x = &leg->x;
    const tt_traffic_boxes *b = &leg->boxes;
    const int32_t to = (x->coord + step) % x->size;
    const int32_t from = (x->coord - step + x->size) % x->size;
    const tt_common sent = tt_traffic_sent_to(x, b, to),
                    got = tt_traffic_got_from(x, b, from);
    int64_t skip = 0;
    for (int32_t i = 0; i < from; i++)
        skip += tt_traffic_got_from(x, b, i).count;
    char *room = c->scratch + tt_traffic_site_bytes(x, b->arriving);
    tt_msg out = {.peer = tt_traffic_site_rank(x, to),
                  .tag = x->tag,
                  .data = pack(leg, &sent, (char *)(uintptr_t)in, room),
                  .bytes = tt_traffic_site_bytes(x, sent.count)};
    tt_msg arriving = {.peer = tt_traffic_site_rank(x, from),
                       .tag = x->tag,
                       .data = c->scratch + tt_traffic_site_bytes(x, skip),
                       .bytes = tt_traffic_site_bytes(x, got.count)};
    if (x->p->packets)
        return swap_packets(c, leg, &out, &arriving);
    return tt_comm_swap(c->comm, out.bytes > 0 ? &out : NULL,
                        arriving.bytes > 0 ? &arriving : NULL);
}

// Stores what arrived, in the order of ranks, so that sums always have the same bits.
static void unpack(const tt__carrier *c, const tt__wire_leg *leg,
                   const char *in, char *out)
{
    const tt_traffic_site *x = &leg->x;
    const tt_traffic_boxes *b = &leg->boxes;
    const bool is_sum = x->kind->is_sum;
    const tt_fold fold = {is_sum ? TT_FOLD_SUM : TT_FOLD_COPY, x->fold.type};
    char *arrived = c->scratch;
    if (tt_traffic_boxes_keep(x) && out != in)
        memcpy(out, in, (size_t)x->out_bytes);
    if (is_sum)
        memset(out, 0,
               (size_t)tt_traffic_site_bytes(x, tt_part_count(&b->out)));
    for (int32_t i = 0; i < x->size; i++) {
        const tt_common got = tt_traffic_got_from(x, b, i);
        for (int32_t k = 0; k < got.n; k++) {
            const tt_region_end own = {&b->in.home[got.a[k]],
                                       (void *)(uintptr_t)in};
            const tt_region_end other = {&got.box[k], arrived};
            tt_region_fold(&got.box[k], fold,
                           (tt_region_end){&b->out.home[got.b[k]], out},
                           i == x->coord ? own : other);
            arrived += tt_traffic_site_bytes(x, tt_region_count(&got.box[k]));
        }
    }
}

// In round `step` each rank sends to the one `step` further and receives from the one
// `step` before, so no rank gets two messages at a time. What arrives waits in scratch
// memory until all is there, because sums are made in the order of ranks.
static tt_status boxes(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                       char *out)
{
    for (int32_t step = 1; step < leg->x.size; step++)
        TT_TRY(swap_boxes(c, leg, in, step));
    unpack(c, leg, in, out);
    return TT_OK;
}

// ---- one message -----------------------------------------------------------

static tt_status bind_nothing(const tt__carrier *c, tt__wire_leg *leg)
{
    (void)c;
    (void)leg;
    return TT_OK;
}

// One graph for all ranks: those that neither send nor receive have nothing to do.
static tt_status move(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                      char *out)
{
    const tt_traffic_site *x = &leg->x;
    tt_msg sent = {.peer = tt_traffic_site_rank(x, (int32_t)x->p->to_coord),
                   .tag = x->tag,
                   .data = (void *)(uintptr_t)in,
                   .bytes = x->in_bytes};
    tt_msg got = {.peer = tt_traffic_site_rank(x, (int32_t)x->p->from_coord),
                  .tag = x->tag,
                  .data = out,
                  .bytes = x->out_bytes};
    if (tt_traffic_site_sends(x))
        return tt_comm_swap(c->comm, &sent, NULL);
    if (tt_traffic_site_receives(x))
        return tt_comm_swap(c->comm, NULL, &got);
    if (x->out_bytes > 0) // from here to here
        memcpy(out, in, (size_t)x->out_bytes);
    return TT_OK;
}

// ---- nothing is sent -------------------------------------------------------

static tt_status bind_take(const tt__carrier *c, tt__wire_leg *leg)
{
    (void)c;
    leg->boxes = tt_traffic_boxes_of(&leg->x);
    return TT_OK;
}

static tt_status take(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                      char *out)
{
    const tt_traffic_boxes *b = &leg->boxes;
    const tt_fold copy = {TT_FOLD_COPY, leg->x.fold.type};
    const tt_common kept = tt_part_common(&b->in, &b->out);
    (void)c;
    for (int32_t k = 0; k < kept.n; k++)
        tt_region_fold(
            &kept.box[k], copy, (tt_region_end){&b->out.home[kept.b[k]], out},
            (tt_region_end){&b->in.home[kept.a[k]], (void *)(uintptr_t)in});
    return TT_OK;
}

bool tt__keeps(const tt_traffic_site *x)
{
    const uint64_t at = x->in_type->place[x->axis].at;
    return x->coord == 0 ||
           (at != 0 && (at & (((uint64_t)1 << x->coord) - 1)) == 0);
}

static tt_status keep(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                      char *out)
{
    const size_t bytes = (size_t)leg->x.in_bytes;
    (void)c;
    if (!tt__keeps(&leg->x))
        memset(out, 0, bytes);
    else if (out != in)
        memcpy(out, in, bytes);
    return TT_OK;
}

// ---- the table -------------------------------------------------------------

static const tt__wire_way ways[TT_TRAFFIC_WAYS] = {
    [TT_TRAFFIC_REDUCE] = {bind_reduce, reduce, .link = tt__link_reduce},
    [TT_TRAFFIC_BLOCKS] = {bind_blocks, blocks, .link = tt__link_blocks,
                           .link_bytes = tt__link_blocks_bytes},
    [TT_TRAFFIC_BOXES] = {bind_boxes, boxes, .link = tt__link_boxes,
                          .link_bytes = tt__link_boxes_bytes},
    [TT_TRAFFIC_MOVE] = {bind_nothing, move, .link = tt__link_move},
    [TT_TRAFFIC_TAKE] = {bind_take, take, .alone = tt__alone_take},
    [TT_TRAFFIC_KEEP] = {bind_nothing, keep, .alone = tt__alone_keep},
};

const tt__wire_way *tt__wire_way_of(const tt_traffic_site *x)
{
    return x->kind != NULL ? &ways[x->kind->way] : NULL;
}
