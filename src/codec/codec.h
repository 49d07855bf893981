// codec - what replicas send instead of a gradient, in fewer bytes.
//
// A codec is a def: a name, options, what is true of it, and functions that add nodes to
// a graph. The computing is done by operators (ops/codec) and their kernels; nothing
// here touches a number.
//
//   replica 0   x0, residual -> encode -> code 0 \            / -> decode -> sum of all
//                                                 +- joined -+
//   replica 1   x1, residual -> encode -> code 1 /            \ -> decode -> sum of all
//
// How codes are joined is the codec's to say, tensor by tensor:
//
//   added      codes are numbers; their sum over the replicas, by an ordinary all-reduce,
//              is the code of the sum (linear codecs)
//   gathered   the codes of all replicas one after another along dimension 0
//
// Who joins them, along which axis and when, is the business of exchange policies. A codec
// with two rounds (powersgd) encodes again, with the first round's joined codes.
//
// Error feedback: with a residual, x + residual is encoded, and the new residual is what
// the code did not say. It is a state of the replica, as large as x. Codecs that are not
// right on average need it, or training drifts away.
//
// The folder codec: codecs as the user sees them. Operators and the layout of codes are
// in ops/codec, who sends them is not known here.

#ifndef TT_CODEC_CODEC_H
#define TT_CODEC_CODEC_H

#include "graph/build.h"

enum { TT_CODEC_CODES = 2, TT_CODEC_STATES = 2, TT_CODEC_ROUNDS = 2 };

typedef struct tt_codec_def tt_codec_def;

typedef enum tt_codec_join {
    TT_CODEC_ADDED,
    TT_CODEC_GATHERED,
} tt_codec_join;

// A state of the codec besides the residual: one for each tensor and replica, or one for
// each tensor.
typedef struct tt_codec_state {
    const char *name; // "momentum"
    tt_dtype dtype;
    tt_shape shape;
    tt_init init;
    bool is_common; // the same in all replicas
} tt_codec_state;

// One tensor on its way through a codec.
typedef struct tt_coding {
    const tt_codec_def *def;
    const void *params;
    tt_val x;        // what this replica wants to send
    tt_val residual; // TT_NONE: without error feedback
    tt_val state[TT_CODEC_STATES];
    tt_val seed;        // i64, another one in each replica
    tt_val common_seed; // i64, the same one in all replicas
    tt_val step;        // i64
    int64_t peers;      // replicas
    bool is_merged; // codes are lists that topk_sum reads (ops/codec/merge.h)

    // Set by encode, anew in each round.
    tt_codec_join join;
    int n_codes;
    tt_val code[TT_CODEC_CODES];
    bool is_last; // no round follows

    // Set by the time that decode has returned; TT_NONE where there was none.
    tt_val residual_out;
    tt_val state_out[TT_CODEC_STATES];

    tt_val kept[2]; // the codec's own, from round to round
} tt_coding;

// Adds nodes that encode. In the first round `joined` is NULL, then it has what became
// of the round before.
typedef tt_status tt_codec_encode_fn(tt_builder *b, tt_coding *c,
                                     const tt_val *joined);
// Adds nodes that make the sum over all replicas out of the last round's joined codes.
typedef tt_status tt_codec_decode_fn(tt_builder *b, tt_coding *c,
                                     const tt_val *joined, tt_val *sum_out);
// Says which states a tensor of this type needs; room for TT_CODEC_STATES.
typedef tt_status tt_codec_states_fn(const void *params, const tt_type *x,
                                     tt_codec_state *states, int *n_out);

// How many entries a replica sends of n numbers, and bytes of one that is gathered.
typedef struct tt_codec_list {
    int64_t entries, each;
} tt_codec_list;
typedef tt_codec_list tt_codec_list_fn(const void *params, int64_t n,
                                       int64_t value_bytes);

struct tt_codec_def {
    const char *name, *doc;
    const tt_opt *options; // NULL: none
    int64_t params_bytes;
    bool is_linear;   // codes of all tensors are added
    bool is_sparse;   // most entries of what is decoded are 0
    bool is_unbiased; // without a residual the sum is right on average
    bool is_lossless; // the sum is the sum; a residual would stay 0
    bool has_signs;   // codes jump at 0, so the sign of a rounding error counts
    bool needs_feedback; // without a residual training drifts away
    // Codecs of packets name their operators, others have functions.
    const tt_op_def *encode_op, *sum_op;
    tt_codec_encode_fn *encode;
    tt_codec_decode_fn *decode;
    tt_codec_states_fn *states; // NULL: none
    tt_codec_list_fn *list; // of codes that can be merged; NULL: they cannot
};

const tt_codec_def *const *tt_codec_all(int *n);
const tt_codec_def *tt_codec_find(const char *name); // or NULL

// The functions of a def, with what all codecs share checked.
tt_status tt_codec_states(const tt_codec_def *def, const void *params,
                          const tt_type *x, tt_codec_state *states, int *n_out);
tt_status tt_codec_encode(tt_builder *b, tt_coding *c, const tt_val *joined);
tt_status tt_codec_decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                          tt_val *sum_out);

// Whether merging the codes of such a tensor on the way sends fewer bytes than gathering
// them, if so many ranks carry the replicas.
bool tt_codec_merges(const tt_codec_def *def, const void *params,
                     const tt_type *x, int64_t peers, int64_t ranks);

// The most bytes that a replica hands over for a tensor of this type, over all rounds.
// Of codes in packets fewer may be used (ops/codec/packet.h).
tt_status tt_codec_bytes(const tt_codec_def *def, const void *params,
                         const tt_type *x, int64_t peers, int64_t *bytes_out);

#endif
