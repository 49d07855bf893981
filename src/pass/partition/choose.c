// choose - which of an operator's signatures moves the fewest bytes, given where
// its inputs are.
//
// The problem. An operator can run on parts in several ways. A product y = x w, with
// x split along rows, or w along columns, or both along the inner dimension:
//
//   x [rows, k]   w [k, columns]      y                    to be sent
//   split rows    replicated          split rows           w, if it is split
//   replicated    split columns       split columns        x, if it is split
//   split k       split k             partial              nothing now, the sum later
//
// Which is best depends on where x and w lie, and on what is done with y.
//
// The idea. Each signature has a price: the bytes that a rank sends so that all
// inputs are as the signature wants them (placement.c), plus what its expand sends.
// The least wins, and of equals the one with fewer conversions (`little`).
//
// A node is chosen once, without looking at later nodes. That alone would go wrong
// in two ways, so two prices look ahead:
//
//   weights stay   where activations are smaller than weights, gathering the weight
//                  would be cheaper: once. But its gradient and its update would have
//                  to follow. So a split weight that moves costs a million times its
//                  bytes (`weight_price`), and activations come to it (stay.c)
//   debt           terms of a sum cost nothing to leave and would be carried along a
//                  residual stream, unsummed, on every rank in full size. Whoever leaves
//                  terms that will be scattered pays for the scatter now
//
// What is no question of price is decided before (`is_legal`, `may_split`): values
// are cut only along dimensions that the layout gives to this axis, or as ZeRO
// wants; offers of ZeRO 2 and 3 are split; a ring is refused where all-to-alls were
// asked for. Zigzag is a property of the whole signature (`bend`).
//
//   cost    at most TT_MAX_SIGS signatures per node, each with its inputs' versions

#include "ops/comm/comm.h"
#include "pass/partition/cut.h"
#include "pass/partition/placement.h"

#include <string.h>

// Whether a signature may cut a value this way: only along dimensions that the layout
// gives to this axis, or as ZeRO wants it.
static bool may_split(const tt__cut *c, const tt_node *node, int32_t old,
                      const tt_place *want)
{
    const tt_shape *shape = &c->old->value[old].type.shape;
    return want->kind != TT_SPLIT || want->window.out != 0 ||
           tt__cuts_node(c, node, shape->factor[want->factor].name) ||
           tt__zero_allows(c, node, old, want);
}

// Whether a split is replaced by another because the user asked for all-to-alls.
static bool is_exchange(const tt__cut *c, const tt_sig *sig, int32_t v)
{
    return c->params->way == TT_WAY_EXCHANGE && sig->way == TT_WAY_EXCHANGE &&
           tt__place_of(c, c->versions[v].val)->kind == TT_SPLIT;
}

// Whether a value of which only the shape is read has the wanted shape: terms of
// a sum are as large as the sum.
static bool has_shape(const tt__cut *c, int32_t old, const tt_place *want)
{
    const tt_place *place = tt__place_of(c, tt__version_shaped(c, old, want));
    if (place->kind == TT_PARTIAL || want->kind == TT_PARTIAL)
        return place->kind != TT_SPLIT && want->kind != TT_SPLIT;
    return tt_place_equal(place, want);
}

// A byte of a weight that should stay costs as much as this many of an activation.
static const double weight_price = 1e6;

// Bytes that each conversion costs in addition, and each input of which only the shape
// is read and that is placed otherwise: so that fewer of them win among equals.
static const double little = 1e-2;

// The price of a shape-only input that is placed otherwise than the result: where it is
// a weight that stays, its gradient must be moved to it.
static double misplaced(const tt__cut *c, const tt_node *node, int32_t old)
{
    const double bytes = tt_type_bytes(&c->old->value[old].type);
    return tt__stays(c, node, old) ? weight_price * bytes : little;
}

// The price of leaving terms unsummed that will be scattered along a dimension which the
// layout gives to this axis. So a residual stream is split like other activations and is
// not carried on as terms.
static double debt(const tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    const double p = c->size;
    double bytes = 0;
    for (int i = 0; i < node->n_out && node->phase != TT_UPDATE; i++) {
        const tt_type *type = &c->old->value[node->out[i].id].type;
        if (sig->out[i].kind != TT_PARTIAL || sig->out[i].reduce != TT_SUM)
            continue;
        bool is_scattered = false;
        for (int f = 0; f < type->shape.n_factors; f++)
            is_scattered |=
                tt__cuts_node(c, node, type->shape.factor[f].name) &&
                tt_can_split(type, f, c->size);
        if (is_scattered)
            bytes += (p - 1) / p * tt_type_bytes(type) + 1;
    }
    return bytes;
}

// Whether what a node makes in parts out of whole operands (an expert's slots, of all
// tokens) may be in parts: they would be gathered for whoever reads them.
static bool may_make(const tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]) && tt__sig_in(sig, i)->kind != TT_REPLICATE)
            return true;
    for (int i = 0; i < node->n_out; i++)
        if (!may_split(c, node, node->out[i].id, &sig->out[i]))
            return false;
    return true;
}

// Bytes moved to satisfy a signature; negative: impossible.
static double sig_cost(const tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    double cost = debt(c, node, sig) + sig->sent_bytes;
    for (int i = 0; i < node->n_in; i++) {
        const tt_place *want = tt__sig_in(sig, i);
        const int32_t old = node->in[i].id;
        double bytes = 0;
        if (!tt_is(node->in[i]))
            continue;
        if (tt__is_shape_only(node, i)) {
            cost += has_shape(c, old, want) ? 0 : misplaced(c, node, old);
            continue;
        }
        if (tt__zero_uses(c, node, old)) { // gathered in any case
            if (want->kind != TT_REPLICATE)
                return -1;
            continue;
        }
        const int32_t v = tt__version_best(c, old, want, &bytes);
        if (v < 0)
            return -1;
        if (tt_place_equal(tt__place_of(c, c->versions[v].val), want))
            continue;
        if (!may_split(c, node, old, want) && !is_exchange(c, sig, v))
            return -1;
        cost += (tt__stays(c, node, old) ? weight_price : 1) * bytes + little;
    }
    return cost;
}

// A collective along another axis moves whatever part this axis has; but it does
// not find its blocks in what this axis cuts along the same factor.
static void pass_through(tt__cut *c, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    const tt_val val = tt__version_newest(c, node->in[0].id);
    const tt_place *place = tt__place_of(c, val);
    tt_sig *sig = tt_sigs_add(&c->sigs);
    if (tt__is_wide(c, node->in[0].id, val))
        return; // replicated
    if (place->kind == TT_SPLIT) {
        const char *name =
            c->b.graph->value[val.id].type.shape.factor[place->factor].name;
        if ((p->factor != NULL && strcmp(p->factor, name) == 0) ||
            (p->to != NULL && strcmp(p->to, name) == 0))
            return; // replicated
    }
    sig->in[0] = *place;
    sig->out[0] = *place;
}

// A signature that splits a dimension which goes zigzag along this axis does so in
// all of its operands, whatever they call it; false: it cannot.
static bool bend(const tt__cut *c, const tt_op_io *io, tt_sig *sig)
{
    static const char seq[] = "seq";
    return !tt__goes_zigzag(c, seq) || !tt_sig_splits(io, sig, seq) ||
           tt_sig_bend(io, sig);
}

static bool is_legal(const tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    if (sig->way == TT_WAY_RING && c->params->way == TT_WAY_EXCHANGE)
        return false;
    if (!tt__zero_splits(c, node))
        return !tt__must_finish(c, node) || sig->out[0].kind != TT_PARTIAL;
    return sig->out[0].kind == TT_SPLIT &&
           sig->out[0].factor == c->shard[node->out[0].id];
}

const tt_sig *tt__choose(tt__cut *c, const tt_node *node)
{
    tt_type out[TT_MAX_OUT];
    tt_op_io io;
    double least = -1;
    const tt_sig *best = NULL;
    const bool is_collective = (node->op->flags & TT_OP_COLLECTIVE) != 0;
    tt_node_io(c->old, node, c->in, out, &io);
    c->sigs.n = 0;
    if (is_collective)
        pass_through(c, node);
    else if (node->op->shard != NULL)
        node->op->shard(&io, c->size, &c->sigs);
    if (!is_collective)
        (void)tt_sigs_add(&c->sigs); // all replicated
    for (int s = 0; s < c->sigs.n; s++) {
        tt_sig *sig = &c->sigs.sig[s];
        const bool can =
            is_legal(c, node, sig) &&
            (is_collective || (may_make(c, node, sig) && bend(c, &io, sig)));
        const double cost = can ? sig_cost(c, node, sig) : -1;
        if (cost >= 0 && (best == NULL || cost < least)) {
            best = sig;
            least = cost;
        }
    }
    return best;
}
