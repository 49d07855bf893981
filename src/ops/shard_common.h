// shard_common - what the sharding signatures of operators share.
//
// A signature says how all operands of a node are placed along one mesh axis. For an
// element-wise operator, a split of one operand implies a split of the others along the
// corresponding factor, its twin. Factors are twins when their dims correspond (aligned
// at the last dim, as in broadcasting) and both dims have the same factors; names may
// differ. Where a factor has no twin, no signature is made.

#ifndef TT_OPS_SHARD_COMMON_H
#define TT_OPS_SHARD_COMMON_H

#include "graph/op.h"

enum {
    TT_TWIN_BROADCAST = -1, // the dim is missing or has extent 1: replicated
    TT_TWIN_NONE = -2,      // the dims have different factors
};

// The factor of `other` that corresponds to factor f of `shape`, or one of the
// above. `_at`: in dim `dim` of `other` (negative: it has none).
int tt_shard_twin(const tt_shape *shape, int f, const tt_shape *other);
int tt_shard_twin_at(const tt_shape *shape, int f, const tt_shape *other,
                     int dim);

// Places operand `type` as the twin of factor f of `shape` asks; false: cannot.
bool tt_shard_place(const tt_shape *shape, int f, const tt_type *type,
                    tt_place *place_out);

// One signature per factor of output 0 that can be split: every input and output
// is split along its twin, or replicated where it broadcasts. For operators
// whose out[i] depends on in[*][i] only.
void tt_shard_elementwise(const tt_op_io *io, int axis_size, tt_sigs *sigs);

// Inputs in the mask are partial, the others replicated; every output is partial.
// For operators that are linear in these inputs together.
void tt_shard_partial(const tt_op_io *io, uint32_t inputs, tt_reduce reduce,
                      tt_sigs *sigs);

// Number of inputs for which a signature has entries.
static inline int tt_shard_n_in(const tt_op_io *io)
{
    return io->n_in < TT_SIG_IN ? io->n_in : TT_SIG_IN;
}

#endif
