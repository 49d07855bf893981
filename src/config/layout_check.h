// layout_check - whether a graph can be laid out as the settings ask, before anything is
// cut: every dimension that they name is there, and long enough.

#ifndef TT_CONFIG_LAYOUT_CHECK_H
#define TT_CONFIG_LAYOUT_CHECK_H

#include "config/distribution.h"
#include "graph/graph.h"

// `model` is what errors call the graph.
tt_status tt_where_check_layout(const tt_where *where, const tt_grid *grid,
                                const tt_graph *graph, const char *model);

// The axis along which sequences go zigzag, since attention looks back on them; "":
// none.
const char *tt_where_zigzag(const tt_where *where, const tt_graph *graph);

// Whether terms of sums over ranks are not rounded: where a last bit may send values
// elsewhere.
bool tt_where_is_wide(const tt_where *where, const tt_graph *graph);

#endif
