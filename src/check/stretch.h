// stretch - larger versions of a sample.
//
// Fast kernels have blocks, vector tails and splits over threads. A tiny example stays
// below all of them and tests none. So each dimension in turn is multiplied by a
// factor that is odd (19), and the others stay small.

#ifndef TT_CHECK_STRETCH_H
#define TT_CHECK_STRETCH_H

#include "base/arena.h"
#include "graph/op.h"

// Version k of a sample: 0 is the sample itself, later ones multiply one dimension
// name, in every input that has it. Returns false when there is no version k. `out`
// and its texts live in the arena. A version need not be legal for the operator; the
// law checks that.
bool tt_stretch(const tt_sample *sample, int k, tt_arena *arena,
                tt_sample *out);

#endif
