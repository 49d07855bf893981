// comm - helpers that emit communication and keep placements right.
//
// tt_place_convert is the heart: it finds the operators that bring a value from one
// placement to another along a mesh axis.
//
//   from \ to    Replicate         Split                        Partial
//   Replicate    -                 take                         keep_first
//   Split        all_gather        shift, halo, all_to_all      all_gather, keep_first
//   Partial      all_reduce        reduce_scatter               -
//
// A split may be rotated, windowed (with a halo) or in a zigzag. Such a value is
// brought to the plain split first, or from it last, one operator at a time; the
// function calls itself until nothing is left to do.

#include "ops/comm/comm.h"

#include "ops/comm/comm_def.h"
#include "ops/ops.h"

#include <string.h>

// Whether x is a value and `axis` an axis of the mesh; then the placement.
static bool place_of(tt_builder *b, tt_val x, int axis, tt_place *place_out)
{
    if (b->status != TT_OK || !tt_is(x))
        return false;
    if (axis < 0 || axis >= b->graph->mesh.n_axes) {
        tt_builder_fail(b, tt_fail(TT_ERR_ARG,
                                   "communication: the mesh has no axis %d",
                                   axis));
        return false;
    }
    *place_out = tt_type_of(b, x)->place[axis];
    return true;
}

static tt_val refuse(tt_builder *b, const tt_op_def *op, const char *what)
{
    return tt_builder_fail(b, tt_fail(TT_ERR_ARG, "%s: %s", op->name, what));
}

static const char *factor_name(const tt_builder *b, tt_val x, int factor)
{
    return tt_type_of(b, x)->shape.factor[factor].name;
}

static tt_val emit(tt_builder *b, const tt_op_def *op,
                   const tt_comm_params *params, tt_val x, tt_place after)
{
    if (b->status != TT_OK)
        return TT_NONE;
    tt_val out[TT_MAX_OUT];
    const tt_val y = tt_call(b, op, params, &x, 1, out);
    if (!tt_is(y))
        return y;
    tt_place_as(b, y, (int)params->axis, after, x);
    return y;
}

static tt_val all_reduce(tt_builder *b, tt_val x, int axis, tt_reduce reduce,
                         bool rounds_each)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_PARTIAL || place.reduce != reduce)
        return refuse(b, &tt_op_all_reduce, "the input is not partial");
    const tt_comm_params p = {
        .axis = axis, .reduce = (int)reduce, .rounds_each = rounds_each};
    return emit(b, &tt_op_all_reduce, &p, x, tt_place_at(place.at));
}

tt_val tt_all_reduce(tt_builder *b, tt_val x, int axis, tt_reduce reduce)
{
    return all_reduce(b, x, axis, reduce, false);
}

tt_val tt_all_reduce_each(tt_builder *b, tt_val x, int axis)
{
    return all_reduce(b, x, axis, TT_SUM, true);
}

tt_val tt_all_reduce_everywhere(tt_builder *b, tt_val x, int axis)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind == TT_REPLICATE && (place.at & (place.at - 1)) != 0)
        x = tt_keep_first(b, x, axis);
    const tt_comm_params p = {.axis = axis, .reduce = TT_SUM};
    return emit(b, &tt_op_all_reduce, &p, x, tt_place_replicate());
}

tt_val tt_all_gather_packets(tt_builder *b, tt_val x, int axis,
                             const tt_comm_params *like)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_SPLIT || place.window.out != 0)
        return refuse(b, &tt_op_all_gather, "the input is not split");
    const tt_comm_params p = {.axis = axis,
                              .packets = like->packets,
                              .merge = like->merge,
                              .value_bytes = like->value_bytes,
                              .factor = factor_name(b, x, place.factor)};
    return emit(b, &tt_op_all_gather, &p, x, tt_place_replicate());
}

tt_val tt_all_gather(tt_builder *b, tt_val x, int axis)
{
    return tt_all_gather_packets(b, x, axis, &(tt_comm_params){0});
}

static tt_val scatter_as(tt_builder *b, tt_val x, int axis, tt_place to)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_PARTIAL)
        return refuse(b, &tt_op_reduce_scatter, "the input is not partial");
    const tt_comm_params p = {.axis = axis,
                              .reduce = (int)place.reduce,
                              .factor = factor_name(b, x, to.factor)};
    return emit(b, &tt_op_reduce_scatter, &p, x, to);
}

tt_val tt_reduce_scatter(tt_builder *b, tt_val x, int axis, const char *factor)
{
    const int f = tt_shape_find(&tt_type_of(b, x)->shape, factor);
    if (f < 0 && tt_is(x))
        return refuse(b, &tt_op_reduce_scatter, "the input has no such factor");
    return scatter_as(b, x, axis, tt_place_split(f));
}

static tt_val exchange_as(tt_builder *b, tt_val x, int axis, tt_place to)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_SPLIT || place.rotate != 0 || place.window.out != 0)
        return refuse(b, &tt_op_all_to_all, "the input is not plainly split");
    const tt_comm_params p = {.axis = axis,
                              .factor = factor_name(b, x, place.factor),
                              .to = factor_name(b, x, to.factor)};
    return emit(b, &tt_op_all_to_all, &p, x, to);
}

tt_val tt_all_to_all(tt_builder *b, tt_val x, int axis, const char *to)
{
    const int f = tt_shape_find(&tt_type_of(b, x)->shape, to);
    if (f < 0 && tt_is(x))
        return refuse(b, &tt_op_all_to_all, "the input has no such factor");
    return exchange_as(b, x, axis, tt_place_split(f));
}

tt_val tt_shift(tt_builder *b, tt_val x, int axis, int by)
{
    return tt_shift_only(b, x, axis, by, NULL);
}

tt_val tt_shift_only(tt_builder *b, tt_val x, int axis, int by,
                     const char *only)
{
    return tt_shift_like(b, x, axis, by, &(tt_comm_params){.only = only});
}

tt_val tt_shift_like(tt_builder *b, tt_val x, int axis, int by,
                     const tt_comm_params *like)
{
    const char *only = like->only;
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_SPLIT || place.window.out != 0)
        return refuse(b, &tt_op_shift, "the input is not split");
    // A block that is one of several counts blocks.
    const int parts = place.parts > 0 ? place.parts : 1;
    const int size = b->graph->mesh.axis[axis].size * parts;
    place.rotate = ((place.rotate + by * parts) % size + size) % size;
    const int64_t extent = tt_type_of(b, x)->shape.factor[place.factor].size;
    if (only != NULL &&
        ((int64_t)strlen(only) != b->graph->mesh.axis[axis].size ||
         extent % size != 0))
        return refuse(b, &tt_op_shift,
                      "only does not name all coordinates, or their blocks "
                      "are not of one size");
    const tt_comm_params p = {
        .axis = axis, .by = by, .only = only, .packets = like->packets};
    return emit(b, &tt_op_shift, &p, x, place);
}

static tt_comm_params window_params(tt_builder *b, tt_val x, int axis,
                                    const tt_window *w)
{
    const int f = tt_type_of(b, x)->place[axis].factor;
    return (tt_comm_params){.axis = axis,
                            .factor = factor_name(b, x, f),
                            .kernel = w->kernel,
                            .stride = w->stride,
                            .pad = w->pad,
                            .dilation = w->dilation};
}

tt_val tt_halo(tt_builder *b, tt_val x, int axis, const tt_window *window)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_SPLIT || place.rotate != 0 || place.window.out != 0)
        return refuse(b, &tt_op_halo, "the input is not plainly split");
    const tt_comm_params p = window_params(b, x, axis, window);
    place.window = *window;
    return emit(b, &tt_op_halo, &p, x, place);
}

tt_val tt_halo_add(tt_builder *b, tt_val x, int axis)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_SPLIT || place.window.out == 0)
        return refuse(b, &tt_op_halo_add, "the input has no window");
    const tt_comm_params p = window_params(b, x, axis, &place.window);
    return emit(b, &tt_op_halo_add, &p, x, tt_place_split(place.factor));
}

tt_val tt_move_value(tt_builder *b, tt_val x, int axis, int from, int to)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    const int size = b->graph->mesh.axis[axis].size;
    if (place.kind != TT_REPLICATE)
        return refuse(b, &tt_op_move, "the input is not whole on each rank");
    if (from < 0 || from >= size || to < 0 || to >= size || size > TT_MAX_AT)
        return refuse(b, &tt_op_move, "the axis has no such coordinate");
    if (!tt_place_holds(&place, from))
        return refuse(b, &tt_op_move, "the sender does not hold the input");
    const tt_comm_params p = {.axis = axis, .from_coord = from, .to_coord = to};
    return emit(b, &tt_op_move, &p, x, tt_place_at((uint64_t)1 << to));
}

static tt_val take_as(tt_builder *b, tt_val x, int axis, tt_place to)
{
    const tt_comm_params p = {.axis = axis,
                              .factor = factor_name(b, x, to.factor)};
    return emit(b, &tt_op_take, &p, x, to);
}

tt_val tt_take(tt_builder *b, tt_val x, int axis, const char *factor)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_REPLICATE)
        return refuse(b, &tt_op_take, "the input is not replicated");
    const int f = tt_shape_find(&tt_type_of(b, x)->shape, factor);
    if (f < 0)
        return refuse(b, &tt_op_take, "the input has no such factor");
    return take_as(b, x, axis, tt_place_split(f));
}

tt_val tt_keep_first(tt_builder *b, tt_val x, int axis)
{
    tt_place place;
    if (!place_of(b, x, axis, &place))
        return TT_NONE;
    if (place.kind != TT_REPLICATE)
        return refuse(b, &tt_op_keep_first, "the input is not replicated");
    const tt_comm_params p = {.axis = axis};
    tt_place terms = tt_place_partial(TT_SUM);
    terms.at = place.at;
    return emit(b, &tt_op_keep_first, &p, x, terms);
}

// The plain form of a split: not rotated and without a window.
static tt_place plain(tt_place place)
{
    return (tt_place){
        .kind = TT_SPLIT, .factor = place.factor, .zigzag = place.zigzag};
}

// Split to Split. A value with a window that is wanted without it comes from a gradient
// that was computed on the window. So its overlaps are terms of a sum, and halo_add
// adds them.
static tt_val convert_split(tt_builder *b, tt_val x, int axis, tt_place to)
{
    const tt_place from = tt_type_of(b, x)->place[axis];
    const bool is_same = from.factor == to.factor && from.zigzag == to.zigzag;
    if (from.window.out != 0)
        return tt_place_convert(b, tt_halo_add(b, x, axis), axis, to);
    if (is_same && to.window.out == 0)
        return tt_shift(b, x, axis, to.rotate - from.rotate);
    if (from.rotate != 0)
        return tt_place_convert(b, tt_shift(b, x, axis, -from.rotate), axis,
                                to);
    if (is_same)
        return tt_halo(b, x, axis, &to.window);
    return tt_place_convert(b, exchange_as(b, x, axis, plain(to)), axis, to);
}

tt_val tt_place_convert(tt_builder *b, tt_val x, int axis, tt_place to)
{
    tt_place from;
    if (!place_of(b, x, axis, &from))
        return TT_NONE;
    if (tt_place_equal(&from, &to))
        return x;
    if (from.kind == TT_SPLIT && to.kind == TT_SPLIT)
        return convert_split(b, x, axis, to);
    if (from.kind == TT_SPLIT) {
        if (from.window.out != 0)
            x = tt_halo_add(b, x, axis);
        return tt_place_convert(b, tt_all_gather(b, x, axis), axis, to);
    }
    if (from.kind == TT_PARTIAL && to.kind == TT_SPLIT)
        return tt_place_convert(b, scatter_as(b, x, axis, plain(to)), axis, to);
    if (from.kind == TT_PARTIAL)
        return tt_place_convert(b, tt_all_reduce(b, x, axis, from.reduce), axis,
                                to);
    if (to.kind == TT_SPLIT)
        return take_as(b, x, axis, to);
    if (to.reduce != TT_SUM)
        return refuse(b, &tt_op_keep_first, "cannot make a partial maximum");
    return tt_keep_first(b, x, axis);
}

void tt_place_as(tt_builder *b, tt_val v, int axis, tt_place place, tt_val like)
{
    tt_place_like(b, v, like, axis);
    tt_place_set(b, v, axis, place);
}

void tt_place_like(tt_builder *b, tt_val dst, tt_val src, int axis)
{
    if (b->status != TT_OK || !tt_is(dst) || !tt_is(src))
        return;
    for (int a = 0; a < b->graph->mesh.n_axes; a++) {
        tt_place place = tt_type_of(b, src)->place[a];
        if (a == axis)
            continue;
        if (place.kind == TT_SPLIT) {
            const tt_shape *from = &tt_type_of(b, src)->shape;
            const tt_shape *to = &tt_type_of(b, dst)->shape;
            const int f = tt_shape_find(to, from->factor[place.factor].name);
            if (f >= 0)
                place.factor = f;
            else
                place = tt_place_partial(TT_SUM);
        }
        tt_place_set(b, dst, a, place);
    }
}

tt_status tt__infer_comm(tt_op_io *io)
{
    if (io->n_in != 1)
        return tt_fail(TT_ERR_ARG, "%s: takes one input, not %d", io->op->name,
                       io->n_in);
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[0].shape;
    return TT_OK;
}

tt_status tt__check_comm_factor(const tt_op_io *io, const char *factor)
{
    if (factor == NULL || tt_shape_find(&io->in[0].shape, factor) < 0)
        return tt_fail(TT_ERR_ARG, "%s: the input has no factor '%s'",
                       io->op->name, factor == NULL ? "" : factor);
    return TT_OK;
}

tt_status tt__infer_comm_factor(tt_op_io *io)
{
    const tt_comm_params *p = io->params;
    TT_TRY(tt__infer_comm(io));
    return tt__check_comm_factor(io, p->factor);
}

// Where the gradient of a value with this placement belongs. Every term of a partial
// sum has the whole gradient, since d(a + b)/da = 1. Other placements are their own
// dual.
static tt_place dual(tt_place place)
{
    return place.kind == TT_PARTIAL ? tt_place_replicate() : place;
}

tt_status tt__comm_grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                        const bool *need, tt_val *din)
{
    const tt_comm_params *p = node->params;
    const int axis = (int)p->axis;
    if (!need[0] || !tt_is(dout[0]))
        return TT_OK;
    const tt_val x = node->in[0];
    const tt_val y = node->out[0];
    tt_place from, to, dy;
    if (!place_of(b, x, axis, &from) || !place_of(b, y, axis, &to) ||
        !place_of(b, dout[0], axis, &dy))
        return tt_builder_status(b);
    if (dy.kind == TT_REPLICATE)
        tt_place_set(b, dout[0], axis, dual(to));
    din[0] = tt_place_convert(b, dout[0], axis, dual(from));
    return tt_builder_status(b);
}
