// pass - a strategy: graph in, new graph out. A pass sees no device, no peer and
// no clock; it never changes its input, and the graph is verified after it.

#ifndef TT_PASS_PASS_H
#define TT_PASS_PASS_H

#include "graph/build.h"

typedef tt_status tt_pass_apply_fn(const tt_graph *in, const void *params,
                                   tt_graph **out);

typedef struct tt_pass_def {
    const char *name, *doc;
    const tt_opt *options;
    int64_t params_bytes;
    tt_pass_apply_fn *apply;
    // Texts of options ("" are the defaults) with which the pass keeps what a model
    // computes: the law `pass` applies each to every small model. The first must suit
    // the passes that come later. NULL ends the list.
    const char *const *samples;
    const char *tested_by; // of a pass without samples: what has it instead
} tt_pass_def;

// In the order of list.h, which is that of a chain.
const tt_pass_def *const *tt_pass_all(int *n);
const tt_pass_def *tt_pass_find(const char *name); // NULL: unknown

// Applies a pass and verifies what it made.
tt_status tt_pass_apply(const tt_pass_def *def, const void *params,
                        const tt_graph *in, tt_graph **out);

#endif
