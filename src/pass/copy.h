// copy - what every pass needs to build its new graph from the old one: first leaves,
// then nodes, then outputs. `kept` maps each old value to the new one.
//
// The usual pass:
//
//   tt_builder_init, and the mesh of the old graph
//   for each old value, in order
//       a leaf                       tt__copy_leaf
//       output 0 of a node           tt__copy_node with kept[] of its inputs, or
//                                    whatever the pass puts there instead
//   tt__copy_ends                    gradients and outputs, through kept[]
//   tt_builder_take
//
// A node is left out by giving kept[] of its output the value that its readers shall
// read. The widest node of the old graph says how much room inputs need.

#ifndef TT_PASS_COPY_H
#define TT_PASS_COPY_H

#include "graph/build.h"

// Sets phase, stage and origin of the nodes that follow.
tt_status tt__copy_aim(tt_builder *b, tt_phase phase, int32_t stage,
                       const char *origin);

tt_status tt__copy_leaf(tt_builder *b, const tt_graph *old, int32_t v,
                        tt_val *kept);
// Gives a new value the placements of an old one.
void tt__copy_places(tt_builder *b, const tt_graph *old, int32_t v, tt_val to);
// Copies a node, with these inputs of the new graph; sets its outputs and what these
// update.
tt_status tt__copy_node(tt_builder *b, const tt_graph *old, const tt_node *node,
                        const tt_val *in, int n_in, tt_val *kept);
// Gradients of states, and outputs.
tt_status tt__copy_ends(tt_builder *b, const tt_graph *old, const tt_val *kept);

#endif
