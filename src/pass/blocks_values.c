// blocks_values - one value as a whole and in blocks, and what collectives along the
// axis become.

#include "ops/arith.h"
#include "ops/blocks.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "pass/blocks.h"

// Along an axis of one rank that rank has everything.
void tt__blocks_put(tt__blocks *w, tt_val v, int32_t old, int part)
{
    for (int a = 0; a < w->r.old->mesh.n_axes; a++) {
        tt_place place = w->r.old->value[old].type.place[a];
        if (a == w->axis && part >= 0 && place.kind == TT_SPLIT) {
            place.part = part;
            place.parts = w->parts;
        } else if (a == w->axis && w->ranks == 1) {
            place = tt_place_replicate();
        }
        tt_place_set(&w->r.b, v, a, place);
    }
}

static tt_status missing(const tt__blocks *w, int32_t old)
{
    const int32_t n = w->r.old->value[old].node;
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s (%s): the terms of its blocks are not summed before "
                   "they are read",
                   n < 0 ? w->r.old->value[old].name : w->r.old->node[n].origin,
                   n < 0 ? "leaf" : w->r.old->node[n].op->name);
}

// If a later axis cuts the blocks again, a rank's blocks are not one run of entries.
static tt_status check_cut(const tt__blocks *w, int32_t old)
{
    const tt_type *type = &w->r.old->value[old].type;
    for (int a = w->axis + 1; a < w->r.old->mesh.n_axes; a++)
        if (type->place[a].kind == TT_SPLIT &&
            type->place[a].factor == type->place[w->axis].factor)
            return tt_fail(
                TT_ERR_UNSUPPORTED,
                "%s cuts what %s cuts, so a rank has no blocks of it "
                "in a row; as many blocks as ranks would do",
                w->r.old->mesh.axis[a].name, w->r.old->mesh.axis[w->axis].name);
    return TT_OK;
}

// ---- sums ----------------------------------------------------------------

static tt_val add(tt__blocks *w, int32_t old, tt_val left, tt_val right)
{
    const tt_val sum = tt_add(&w->r.b, left, right);
    tt__blocks_put(w, sum, old, -1);
    return sum;
}

tt_val tt__pile_add(tt__blocks *w, int32_t old, tt__pile *pile, int j,
                    tt_val term)
{
    int level = 0;
    for (; (j >> level & 1) != 0; level++)
        term = add(w, old, pile->part[level], term);
    pile->part[level] = term;
    if (j + 1 < w->parts)
        return term;
    for (level++; (j + 1) >> level != 0; level++)
        if (((j + 1) >> level & 1) != 0)
            term = add(w, old, pile->part[level], term);
    return term;
}

// The sum of what the rank has.
static tt_status sum_up(tt__blocks *w, int32_t old, tt_val *val_out)
{
    tt__pile pile;
    *val_out = w->r.kept[old];
    if (tt_is(*val_out))
        return TT_OK;
    if (tt__blocks_place(w, old)->reduce != TT_SUM)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: blocks have no maximum over ranks", w->r.b.origin);
    for (int j = 0; j < w->parts; j++) {
        const tt_val term = tt__blocks_copies(w, old)[j];
        if (!tt_is(term))
            return missing(w, old);
        *val_out = tt__pile_add(w, old, &pile, j, term);
    }
    w->r.kept[old] = *val_out;
    return w->r.b.status;
}

// ---- whole and in blocks -------------------------------------------------

tt_status tt__blocks_whole(tt__blocks *w, int32_t old, tt_val *val_out)
{
    const tt_place *place = tt__blocks_place(w, old);
    tt_val *whole = &w->r.kept[old];
    if (tt_is(*whole) && w->is_term[old] && w->r.b.phase == TT_UPDATE) {
        *whole = tt_all_reduce(&w->r.b, *whole, w->axis, TT_SUM);
        w->is_term[old] = false;
    } else if (!tt_is(*whole) && tt_is(w->source[old])) {
        const tt_shape *shape = &w->r.old->value[old].type.shape;
        *whole = tt_take(&w->r.b, w->source[old], w->axis,
                         shape->factor[place->factor].name);
    } else if (!tt_is(*whole)) {
        if (place->kind != TT_SPLIT)
            return missing(w, old);
        TT_TRY(check_cut(w, old));
        *whole = tt_unblock(&w->r.b, tt__blocks_copies(w, old), w->parts);
        tt__blocks_put(w, *whole, old, -1);
    }
    *val_out = *whole;
    return w->r.b.status;
}

tt_status tt__blocks_copy(tt__blocks *w, int32_t old, int j, tt_val *val_out)
{
    const tt_place *place = tt__blocks_place(w, old);
    tt_val *copy = &tt__blocks_copies(w, old)[j];
    if (place->kind == TT_REPLICATE)
        return tt__blocks_whole(w, old, val_out);
    if (!tt_is(*copy)) {
        const tt_val from =
            tt_is(w->source[old]) ? w->source[old] : w->r.kept[old];
        if (place->kind != TT_SPLIT)
            return missing(w, old);
        TT_TRY(check_cut(w, old));
        *copy = tt_block_make(&w->r.b, from);
        tt__blocks_put(w, *copy, old, j);
    }
    *val_out = *copy;
    return w->r.b.status;
}

// ---- collectives ---------------------------------------------------------

// A value on the first block of all, zero in the others.
static tt_status keep_first(tt__blocks *w, const tt_node *node, tt_val x)
{
    const int32_t out = node->out[0].id;
    const tt_val first = w->ranks > 1 ? tt_keep_first(&w->r.b, x, w->axis) : x;
    if (node->phase == TT_UPDATE || w->parts == 1) {
        w->r.kept[out] = first;
        return w->r.b.status;
    }
    for (int j = 0; j < w->parts; j++) {
        tt_val *copy = &tt__blocks_copies(w, out)[j];
        *copy = j == 0 ? first : tt_fill(&w->r.b, x, 0);
        if (j > 0)
            tt__blocks_put(w, *copy, out, j);
    }
    return w->r.b.status;
}

static tt_status reduce(tt__blocks *w, const tt_node *node)
{
    const int32_t in = node->in[0].id, out = node->out[0].id;
    const tt_comm_params *p = node->params;
    tt_val sum;
    TT_TRY(sum_up(w, in, &sum));
    w->r.kept[out] = sum;
    if (w->ranks == 1)
        return TT_OK;
    if (node->op == &tt_op_reduce_scatter)
        w->r.kept[out] = tt_reduce_scatter(&w->r.b, sum, w->axis, p->factor);
    else if (w->at_once && w->is_last[out] && node->phase != TT_UPDATE)
        w->is_term[out] = true;
    else if (p->rounds_each)
        w->r.kept[out] = tt_all_reduce_each(&w->r.b, sum, w->axis);
    else
        w->r.kept[out] =
            tt_all_reduce(&w->r.b, sum, w->axis, (tt_reduce)p->reduce);
    return w->r.b.status;
}

// Block j of rank r is the one that is `by` blocks before it: another block of a rank
// that is the same number of ranks away for all r.
//
//   by = 1, 2 blocks each      0 1 | 2 3 | 4 5      block 0: block 1 of the rank before
//                              5 0 | 1 2 | 3 4      block 1: block 0 of the same rank
// Where only some blocks get something, only their ranks do. Others have some block, and
// nobody reads it.
static tt_status shift(tt__blocks *w, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    const bool is_all = p->only == NULL || p->only[0] == '\0';
    char *only = is_all ? NULL : tt__rewrite_array(&w->r, w->ranks + 1, 1);
    TT_TRY(w->r.b.status);
    const int32_t in = node->in[0].id, out = node->out[0].id;
    const int64_t all = (int64_t)w->ranks * w->parts;
    for (int j = 0; j < w->parts; j++) {
        const int64_t from = ((j - p->by) % all + all) % all;
        const int ranks = (int)(from / w->parts);
        tt_val x;
        TT_TRY(tt__blocks_copy(w, in, (int)(from % w->parts), &x));
        for (int r = 0; r < w->ranks && !is_all; r++)
            only[r] = p->only[r * w->parts + j];
        tt__blocks_copies(w, out)[j] =
            ranks == 0
                ? x
                : tt_shift_like(
                      &w->r.b, x, w->axis, w->ranks - ranks,
                      &(tt_comm_params){.only = only, .packets = p->packets});
    }
    return w->r.b.status;
}

tt_status tt__blocks_collective(tt__blocks *w, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    const int32_t out = node->out[0].id;
    const bool is_one = w->ranks == 1;
    tt_val x;
    if (node->op == &tt_op_all_reduce || node->op == &tt_op_reduce_scatter)
        return reduce(w, node);
    if (node->op == &tt_op_shift)
        return shift(w, node);
    TT_TRY(tt__blocks_whole(w, node->in[0].id, &x));
    if (node->op == &tt_op_keep_first)
        return keep_first(w, node, x);
    if (node->op == &tt_op_all_gather)
        w->r.kept[out] =
            is_one ? x : tt_all_gather_packets(&w->r.b, x, w->axis, p);
    else if (node->op == &tt_op_all_to_all)
        w->r.kept[out] = is_one ? x : tt_all_to_all(&w->r.b, x, w->axis, p->to);
    else if (node->op == &tt_op_take)
        *(is_one ? &w->r.kept[out] : &w->source[out]) = x;
    else
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: blocks of one rank cannot do a %s along %s",
                       node->origin, node->op->name,
                       w->r.old->mesh.axis[w->axis].name);
    return w->r.b.status;
}
