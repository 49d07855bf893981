// rows - the options of the pass as a struct, and names of what it leaves.

#ifndef TT_PASS_ROWS_H
#define TT_PASS_ROWS_H

#include "graph/graph.h"

typedef struct tt_rows_params {
    int64_t micro_batches; // of a gradient: rows are kept of each
} tt_rows_params;

enum { TT_ROWS_FACTORS = 2 };

// A factor of the gradient of this state: an output; TT_NONE: it has none. The gradient is
// the first, turned around, times the second, summed over their rows.
tt_val tt_rows_find(const tt_graph *graph, const char *state, int factor);

#endif
