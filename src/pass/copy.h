// copy - what every pass does that makes a graph anew: leaves first, what the host
// reads last. `kept` has the new value of each old one.

#ifndef TT_PASS_COPY_H
#define TT_PASS_COPY_H

#include "graph/build.h"

// What the next nodes are for.
tt_status tt__copy_aim(tt_builder *b, tt_phase phase, int32_t stage,
                       const char *origin);

tt_status tt__copy_leaf(tt_builder *b, const tt_graph *old, int32_t v,
                        tt_val *kept);
// A value lies where an old one lay.
void tt__copy_places(tt_builder *b, const tt_graph *old, int32_t v, tt_val to);
// A node with these inputs, which are the new graph's; its outputs and what they update.
tt_status tt__copy_node(tt_builder *b, const tt_graph *old, const tt_node *node,
                        const tt_val *in, int n_in, tt_val *kept);
// Gradients of states, and outputs.
tt_status tt__copy_ends(tt_builder *b, const tt_graph *old, const tt_val *kept);

#endif
