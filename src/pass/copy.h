// copy - what every pass needs to build its new graph from the old one: first leaves,
// then nodes, then outputs. `kept` maps each old value to the new one.
//
// The usual pass is a tt__rewrite:
//
//   tt__rewrite_begin            the builder, `kept` and `in`
//   tt__rewrite_array, _vals     arrays of its own, which live as long as the pass
//   tt__rewrite_nodes            copies leaves and calls the pass for each node. That
//                                calls tt__copy_node with kept[] of the node's inputs, or
//                                puts something else there
//   tt__copy_ends                gradients and outputs, through kept[]
//   tt__rewrite_end              the new graph; gives everything else back
//
// A node is left out by giving kept[] of its output the value that its readers shall
// read.

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

// ---- a pass at work ------------------------------------------------------

// A pass has one as a member of its own struct.
typedef struct tt__rewrite {
    const tt_graph *old;
    tt_builder b; // its graph has the mesh of the old one
    tt_arena *arena;
    tt_val *kept; // per old value: the same in the new graph, or TT_NONE
    tt_val *in;   // room for the inputs of any old node, and `more_in`
} tt__rewrite;

tt_status tt__rewrite_begin(tt__rewrite *r, const tt_graph *old,
                            int64_t more_in);
// n zeroed members, or n times TT_NONE. NULL: the builder's status says so, which
// whoever has allocated all arrays looks at.
void *tt__rewrite_array(tt__rewrite *r, int64_t n, int64_t member_bytes);
tt_val *tt__rewrite_vals(tt__rewrite *r, int64_t n);

// Copies the leaves that are not copied yet.
tt_status tt__rewrite_leaves(tt__rewrite *r);
// In the order of the old values: copies leaves that are not copied yet, and calls
// do_node once for each node.
tt_status tt__rewrite_nodes(tt__rewrite *r, void *pass,
                            tt_status (*do_node)(void *pass, int32_t n));

// Sets in[] to what is kept of old values.
void tt__rewrite_inputs(tt__rewrite *r, const tt_val *old, int n);

// *out becomes the new graph if all went well (`status`). Always returns what `begin` took.
tt_status tt__rewrite_end(tt__rewrite *r, tt_status status, tt_graph **out);

#endif
