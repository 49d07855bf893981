// stretch - larger versions of a sample: fast kernels have blocks, tails and
// thread splits that a tiny example never reaches.

#ifndef TT_CHECK_STRETCH_H
#define TT_CHECK_STRETCH_H

#include "base/arena.h"
#include "graph/op.h"

// Version k of a sample: 0 is the sample itself; further ones multiply one
// dimension name, in every input, by a factor. Returns false when there is no
// version k; `out` and its text live in the arena. A version need not be legal.
bool tt_stretch(const tt_sample *sample, int k, tt_arena *arena,
                tt_sample *out);

#endif
