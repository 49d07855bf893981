// layout - which axes cut which dimensions, in all layers or in some.
//
//   "batch:data heads:tensor h.3.*/heads:none"
//
// A rule with a pattern holds for layers and weights whose name matches the pattern, or
// whose name after one of its dots does, and for all below: `h.3` means all of
// transformer.h.3. Such a rule overrides, for its dimension, the rules for all layers.
// Of several patterns that match, the last wins.

#ifndef TT_PASS_PARTITION_LAYOUT_H
#define TT_PASS_PARTITION_LAYOUT_H

#include "base/arena.h"
#include "base/str.h"
#include "graph/shape.h"

typedef struct tt_layout_rule {
    const char *layers; // NULL: all
    const char *dim, *axis;
} tt_layout_rule; // axis "none": whole

typedef struct tt_layout {
    int32_t n, capacity;
    tt_layout_rule *rule;
} tt_layout; // zero-initialise; text lies in the arena given to add

tt_status tt_layout_add(tt_layout *layout, tt_arena *arena,
                        const tt_layout_rule *rule);

// Appends the rules of a text; `key` is what errors call it.
tt_status tt_layout_parse(const char *text, const char *key, tt_arena *arena,
                          tt_layout *layout);
void tt_layout_print(const tt_layout *layout, tt_str *out);

// Whether the axis cuts that dimension in the layer (or weight) of this name.
bool tt_layout_cuts(const tt_layout *layout, const char *layer, const char *dim,
                    const char *axis);

// Whether rules of this pattern are for the layer of this name.
bool tt_layout_is_for(const char *layers, const char *name);

#endif
