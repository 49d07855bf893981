// attention_exchange - all-to-all attention (Ulysses) with fewer key-value heads than
// ranks.
//
// Ulysses exchanges a split of the sequence for a split of the heads. With grouped
// heads there may be 2 key-value heads on 4 ranks, which cannot be split. Gathering all
// heads on every rank would work, but send and hold kv times as much. Instead each
// head is repeated once for every rank whose query heads read it. Now there are as many
// heads as ranks, and the all-to-all gives each rank one head of all positions.
//
//
//   k [batch, seq, kv, head], split along seq
//     -> repeated, [batch, seq, kv . copy, head] -> all-to-all: one head each
//   dk comes back the same way, and its copies are added
//
//   wire     forward 2 (p-1)/p of a head's keys per rank, backward twice that; a
//            gather of all heads sends kv times as much
//   needs    as many ranks as copies of all heads, and queries that divide evenly. A
//            single head is everybody's: then it is gathered
//   source   Jacobs et al. 2023 (Ulysses), for grouped heads

#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/attention.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/relabel.h"

#include <string.h>

enum { Q, K, V, O, LSE, DO };           // inputs of the gradient; forward: 3
enum { BATCH, SEQ, HEADS, HEAD, NDIM }; // dims of q, k, v, o
enum { MOST_COPIES = TT_MAX_OUT };      // as split has outputs

static int factors_of(const tt_shape *s, int dim)
{
    return s->first[dim + 1] - s->first[dim];
}

// How many copies of each key-value head are needed. 0: none are (there are enough
// heads), there is one head only, or the numbers do not divide.
static int64_t copies_of(const tt_op_io *io, const tt_type *k, int axis_size)
{
    const int64_t n = tt_io_extent(io, k, k->shape.first[HEADS]);
    return n < 2 || n >= axis_size || axis_size % n != 0 ? 0 : axis_size / n;
}

// Whether heads can be copied and distributed. Other axes must have split the heads of
// queries and keys in the same way.
static bool can_copy(const tt_op_io *io, int axis_size)
{
    const tt_type *q = &io->in[Q], *k = &io->in[K];
    const int fq = q->shape.first[HEADS], fk = k->shape.first[HEADS];
    const int64_t nq = tt_io_extent(io, q, fq), nk = tt_io_extent(io, k, fk);
    const int64_t n = copies_of(io, k, axis_size);
    return factors_of(&q->shape, HEADS) == 1 &&
           factors_of(&k->shape, HEADS) == 1 &&
           factors_of(&k->shape, SEQ) == 1 && n > 0 && n <= MOST_COPIES &&
           nq * tt_shape_dim(&k->shape, HEADS) ==
               nk * tt_shape_dim(&q->shape, HEADS) &&
           nq % axis_size == 0 &&
           tt_can_split(k, k->shape.first[SEQ], axis_size);
}

// What the functions below share.
typedef struct walk {
    tt_builder *b;
    int axis;
    int n; // copies
} walk;

static tt_val as(const walk *w, tt_val x, tt_val like)
{
    tt_place_as(w->b, x, w->axis, tt_type_of(w->b, like)->place[w->axis], like);
    return x;
}

// Copies beside each head; `joined_out`: with a factor of their own.
static tt_val repeat(const walk *w, tt_val k, tt_val *joined_out)
{
    const tt_shape *shape = &tt_type_of(w->b, k)->shape;
    tt_val copy[MOST_COPIES];
    char name[TT_NAME_BYTES];
    memcpy(name, shape->factor[shape->first[HEADS]].name, sizeof name);
    for (int i = 0; i < w->n; i++)
        copy[i] = k;
    const tt_join_params join = {.factor = "copy", .dim = HEADS, .pos = 1};
    *joined_out = as(w, tt_join(w->b, copy, w->n, &join), k);
    return as(w, tt_relabel(w->b, *joined_out, HEADS, name), k);
}

// From a part of the positions with all heads to one head with all positions.
static tt_val scatter(const walk *w, tt_val k, tt_val *joined_out)
{
    const tt_val all = repeat(w, k, joined_out);
    if (tt_builder_status(w->b) != TT_OK)
        return TT_NONE;
    const int f = tt_type_of(w->b, all)->shape.first[HEADS];
    return tt_place_convert(w->b, all, w->axis, tt_place_split(f));
}

// The way back: to positions, then copies are added.
static tt_val collect(const walk *w, tt_val dk, tt_val k, tt_val joined)
{
    tt_builder *b = w->b;
    const tt_dtype dtype = tt_type_of(b, dk)->dtype;
    const tt_place home = tt_type_of(b, k)->place[w->axis];
    tt_val x = tt_place_convert(b, dk, w->axis, home);
    x = as(w, tt_match(b, x, joined), joined);
    if (tt_builder_status(b) != TT_OK)
        return TT_NONE;
    const tt_shape *shape = &tt_type_of(b, x)->shape;
    const int64_t apart[] = {factors_of(shape, BATCH), factors_of(shape, SEQ),
                             1, 1, factors_of(shape, HEAD)};
    x = as(w, tt_cast(b, x, tt_dtype_master(dtype)), joined);
    x = as(w, tt_reshape(b, x, apart, NDIM + 1), joined);
    x = as(w, tt_reduce_dims(b, x, TT_REDUCE_SUM, (int64_t[]){HEAD}, 1), k);
    return as(w, tt_cast(b, x, dtype), k);
}

static walk walk_of(tt_builder *b, int axis, tt_val k)
{
    const tt_op_io io = {.mesh = &b->graph->mesh};
    return (walk){
        b, axis,
        (int)copies_of(&io, tt_type_of(b, k), b->graph->mesh.axis[axis].size)};
}

static tt_status expand(tt_builder *b, const tt_node *node, const tt_sig *sig,
                        int axis, const tt_val *in, tt_val *out)
{
    tt_attention_params params = *(const tt_attention_params *)node->params;
    tt_val joined;
    const walk w = walk_of(b, axis, in[K]);
    params.wide = false; // it is no term
    const tt_val k = scatter(&w, in[K], &joined);
    const tt_val v = scatter(&w, in[V], &joined);
    tt_call(b, &tt_op_attention, &params, (tt_val[]){in[Q], k, v}, 3, out);
    for (int i = 0; i < 2; i++)
        tt_place_as(b, out[i], axis, sig->out[i], in[Q]);
    return tt_builder_status(b);
}

static tt_status expand_grad(tt_builder *b, const tt_node *node,
                             const tt_sig *sig, int axis, const tt_val *in,
                             tt_val *out)
{
    const walk w = walk_of(b, axis, in[K]);
    tt_val joined[2], kv[2], made[TT_MAX_OUT];
    (void)sig;
    for (int i = 0; i < 2; i++)
        kv[i] = scatter(&w, in[K + i], &joined[i]);
    tt_call(b, &tt_op_attention_grad, node->params,
            (tt_val[]){in[Q], kv[0], kv[1], in[O], in[LSE], in[DO]}, 6, made);
    TT_TRY(tt_builder_status(b));
    out[0] = as(&w, made[0], in[Q]);
    for (int i = 0; i < 2; i++)
        out[1 + i] =
            collect(&w, as(&w, made[1 + i], kv[i]), in[K + i], joined[i]);
    return tt_builder_status(b);
}

void tt__attention_shard_copies(const tt_op_io *io, int axis_size, bool is_grad,
                                tt_sigs *sigs)
{
    const tt_shape *q = &io->in[Q].shape, *k = &io->in[K].shape;
    const int64_t n = copies_of(io, &io->in[K], axis_size);
    tt_sig *sig = can_copy(io, axis_size) ? tt_sigs_add(sigs) : NULL;
    if (sig == NULL)
        return;
    const tt_place heads = tt_place_split(q->first[HEADS]);
    const tt_place seq = tt_place_split(k->first[SEQ]);
    const double part = (axis_size - 1.0) / axis_size;
    sig->way = TT_WAY_EXCHANGE;
    sig->expand = is_grad ? expand_grad : expand;
    sig->sent_bytes = (is_grad ? 4 : 2) * part * (double)n / axis_size *
                      tt_cost_bytes(&io->in[K]);
    sig->in[Q] = sig->out[0] = heads;
    sig->in[K] = sig->in[V] = seq;
    sig->out[1] = tt_place_split(q->first[1] - q->first[0]);
    if (is_grad) {
        sig->in[O] = sig->in[DO] = heads;
        sig->in[LSE] = sig->out[1];
        sig->out[1] = sig->out[2] = seq;
    }
}
