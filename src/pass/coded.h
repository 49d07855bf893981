// coded - a value of each replica on its way to the sum over all replicas, as codes.
//
//   x  O or P(sum) / axis -> own -> encode -> code O/axis -> all_reduce, or stack and
//      residual, state ----------------^         -> all_gather -> decode -> sum
//
// A pass that exchanges something makes a tt__coded_by, and for each value
//
//   tt__coded_begin    states and seeds, encodes, joins
//   tt__coded_again    the second round of a codec that has two; else nothing
//   tt__coded_end      decodes; the sum is placed as x is along other axes, and the
//                      same in all replicas
//
// Values that are begun before the first is ended travel while others are encoded.
// States are new leaves of the graph: what replicas keep for themselves has a first dim
// `replica`, split along the axis. Phase, stage and origin of the nodes are the caller's
// (tt__copy_aim).

#ifndef TT_PASS_CODED_H
#define TT_PASS_CODED_H

#include "codec/codec.h"

// How lists of entries are joined. It does not change the sum.
typedef enum tt_sparse_way {
    TT_SPARSE_AUTO, // as sends fewer bytes
    TT_SPARSE_GATHER,
    TT_SPARSE_MERGE, // on the way (ops/codec/merge.h)
} tt_sparse_way;

// What all coded values of a pass share.
typedef struct tt__coded_by {
    tt_builder *b; // its graph has the mesh
    const tt_codec_def *codec;
    const void *params; // of the codec
    bool feedback;      // keep residuals
    // What a code does not say is in x the next time: without residuals, but codecs that are
    // right on average send numbers as small as with them.
    bool is_kept;
    int axis;         // of the replicas
    int64_t replicas; // along it
    bool is_alone;    // codes are decoded one by one, never added up
    int sparse;       // tt_sparse_way
    int64_t ranks;    // that carry the replicas
} tt__coded_by;

typedef struct tt__coded {
    tt_val x;
    tt_type like;
    tt_coding c;
    tt_val residual, state[TT_CODEC_STATES]; // the stacked states; or TT_NONE
    int n_states;
    tt_val joined[TT_CODEC_CODES];
} tt__coded;

// x: along the axis terms of a sum, or each replica's own; along other axes whole or
// split. `like` is its type with the placement that its states shall have along other axes.
// `name` is the first part of the states' names, and the key of random numbers.
tt_status tt__coded_begin(const tt__coded_by *by, tt__coded *p, tt_val x,
                          const tt_type *like, const char *name);
tt_status tt__coded_again(const tt__coded_by *by, tt__coded *p);
tt_status tt__coded_end(const tt__coded_by *by, tt__coded *p, tt_val *sum_out);

// ---- codes that are decoded one by one -----------------------------------

// For neighbours: what a replica's code stands for, by itself and by whoever gets it. All
// rounds are the replica's own; it needs the codes of all of them.
typedef struct tt__coded_near {
    tt__coded p;
    tt_coding first; // after the first round
    tt_val code[TT_CODEC_ROUNDS][TT_CODEC_CODES];
    int n_codes[TT_CODEC_ROUNDS], n_rounds;
} tt__coded_near;

tt_status tt__coded_near_begin(const tt__coded_by *by, tt__coded_near *near,
                               tt_val x, const tt_type *like, const char *name);
// What the replica's own code stands for; its states are new then.
tt_status tt__coded_near_own(const tt__coded_by *by, tt__coded_near *near,
                             tt_val *own_out);
// What another's stands for, whose codes these are.
tt_status tt__coded_near_of(const tt__coded_by *by, const tt__coded_near *near,
                            tt_val code[TT_CODEC_ROUNDS][TT_CODEC_CODES],
                            tt_val *out);

// ---- shared by coded.c and coded_near.c ----------------------------------

// Nodes from `first` on run on what each rank has.
void tt__coded_place(const tt__coded_by *by, int32_t first);
// States, seeds and the value as the rank has it, before the first round.
tt_status tt__coded_prepare(const tt__coded_by *by, tt__coded *p, tt_val x,
                            const tt_type *like, const char *name);
// New versions of the states that have one.
void tt__coded_settle(const tt__coded_by *by, tt__coded *p);

#endif
