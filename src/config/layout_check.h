// layout_check - whether a graph can be split as the settings ask, before anything
// is split: every dimension that they name exists and is long enough.

#ifndef TT_CONFIG_LAYOUT_CHECK_H
#define TT_CONFIG_LAYOUT_CHECK_H

#include "config/distribution.h"
#include "graph/graph.h"

// `model` is what errors call the graph.
tt_status tt_distribution_check(const tt_distribution *distribution,
                                const tt_grid *grid, const tt_graph *graph,
                                const char *model);

// The axis along which sequences are dealt out in zigzag order, to balance causal
// attention; "": none.
const char *tt_distribution_zigzag(const tt_distribution *distribution,
                                   const tt_graph *graph);

// Whether terms of sums over ranks stay in fp32 until they are added. Needed where
// a last bit may change a decision (ReLU, max, routing).
bool tt_distribution_is_wide(const tt_distribution *distribution,
                             const tt_graph *graph);

#endif
