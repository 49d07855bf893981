// comm - communication as operators: they change where a value is, never what
// it is. Input and output have the same global type; the output's placement along
// the mesh axis differs.
//
//   all_reduce      Partial   -> Replicate    reduce_scatter  Partial -> Split
//   all_gather      Split     -> Replicate    all_to_all      Split -> Split
//   shift           Split     -> Split, rotated by `by` ranks; with `only` some keep theirs
//   halo            Split     -> Split with a window; halo_add is its adjoint
//   take            Replicate -> Split        keep_first      Replicate -> Partial
//   move            Replicate@from -> Replicate@to
//
// Where a value lies at some coordinates only (`at`, graph/place.h), all_reduce is among
// those that hold its input or its output; who has no term adds zero.
//
// Since a collective changes no value, its gradient is a collective too, and the laws
// can check it: a graph with communication must give the same as one without. The
// helpers read the input's placement from the graph and set the output's on every
// axis. interp/comm_sim.h says exactly what each operator does to bytes.

#ifndef TT_OPS_COMM_COMM_H
#define TT_OPS_COMM_COMM_H

#include "graph/build.h"

// All communication operators share this struct, so that whoever runs one can
// read `axis` without knowing which it is.
typedef struct tt_comm_params {
    int64_t axis; // index into the graph's mesh
    int reduce;   // tt_reduce: all_reduce, reduce_scatter
    // all_reduce: sums of 16-bit floats are rounded after every two terms, and not once at
    // the end. So they do not depend on which ranks hold which terms.
    bool rounds_each;
    // all_gather, shift: blocks are packets (ops/codec/packet.h), of which the bytes that
    // are used are sent.
    bool packets;
    // Of packets: how many numbers their lists are of, which are merged on the way
    // (ops/codec/merge.h), and bytes of a value; 0: they are not merged.
    int64_t merge, value_bytes;
    int64_t by; // shift: rank r's block goes to rank r + by
    // shift: '1' for each coordinate that gets something, '0' for one that keeps its own
    // block; "" or NULL: all do. So a graph of neighbours can be said, distance by distance.
    // Blocks are of one size then.
    const char *only;
    int64_t from_coord, to_coord; // move: coordinates along the axis
    const char *factor; // all_gather, reduce_scatter, all_to_all, halo*, take
    const char *to;     // all_to_all: the factor that is split afterwards
    int64_t kernel, stride, pad, dilation; // halo, halo_add
} tt_comm_params;

// Whether a coordinate gets something of a shift.
static inline bool tt_comm_hears(const tt_comm_params *p, int64_t coord)
{
    return p->only == NULL || p->only[0] == '\0' || p->only[coord] == '1';
}

tt_val tt_all_reduce(tt_builder *b, tt_val x, int axis, tt_reduce reduce);
tt_val tt_all_reduce_each(tt_builder *b, tt_val x, int axis); // rounds_each
// From the coordinates that hold x, whole or terms of it, to all of the axis.
tt_val tt_all_reduce_everywhere(tt_builder *b, tt_val x, int axis);
tt_val tt_all_gather(tt_builder *b, tt_val x, int axis);
// Of `like` packets, merge and value_bytes are taken.
tt_val tt_all_gather_packets(tt_builder *b, tt_val x, int axis,
                             const tt_comm_params *like);
tt_val tt_reduce_scatter(tt_builder *b, tt_val x, int axis, const char *factor);
tt_val tt_all_to_all(tt_builder *b, tt_val x, int axis, const char *to);
tt_val tt_shift(tt_builder *b, tt_val x, int axis, int by);
tt_val tt_shift_only(tt_builder *b, tt_val x, int axis, int by,
                     const char *only); // NULL: all
// Of `like` only and packets are taken.
tt_val tt_shift_like(tt_builder *b, tt_val x, int axis, int by,
                     const tt_comm_params *like);
tt_val tt_halo(tt_builder *b, tt_val x, int axis, const tt_window *window);
tt_val tt_halo_add(tt_builder *b, tt_val x, int axis);
tt_val tt_move_value(tt_builder *b, tt_val x, int axis, int from, int to);
tt_val tt_take(tt_builder *b, tt_val x, int axis, const char *factor);
tt_val tt_keep_first(tt_builder *b, tt_val x, int axis);

// The cheapest operators that bring x from its placement along `axis` to `to`
// (`to.factor` indexes x's factors); x itself when it is there already. Fails
// where no operator exists: from Partial(max) to Partial(sum), say.
tt_val tt_place_convert(tt_builder *b, tt_val x, int axis, tt_place to);

// Gives dst the placement of src on every mesh axis except `axis` (-1: on all). A split
// is matched by the factor's name. Where dst has no factor of that name, it is a sum
// over the factor, and so it is partial.
void tt_place_like(tt_builder *b, tt_val dst, tt_val src, int axis);

// Gives v the placement `place` along `axis`, and that of `like` along all others. An
// expand does this for every value that it makes.
void tt_place_as(tt_builder *b, tt_val v, int axis, tt_place place,
                 tt_val like);

#endif
