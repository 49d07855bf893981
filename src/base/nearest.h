// nearest - what a misspelt name meant: the candidate with the smallest edit distance.

#ifndef TT_BASE_NEAREST_H
#define TT_BASE_NEAREST_H

#include "base/status.h"

// A search that is shown one candidate after another. Begin with {.word = ...}.
typedef struct tt_near {
    const char *word; // as it was written
    const char *best; // of the candidates so far; NULL: none is near
    int distance;     // of `best`
} tt_near;

void tt_near_try(tt_near *near, const char *candidate);

// Fails with `unknown KIND "WORD"; did you mean BEST?`. Where nothing is near,
// `otherwise` says what to do instead; NULL: nothing.
tt_status tt_near_unknown(const tt_near *near, const char *kind,
                          const char *otherwise);

// The nearest of `n` candidates, or NULL when none is near.
const char *tt_nearest(const char *name, const char *const *candidates, int n);

#endif
