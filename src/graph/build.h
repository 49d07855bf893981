// build - the one way to make a graph. Errors are sticky: after the first
// failure every call returns TT_NONE and tt_builder_status says what happened, so
// that a model reads like a formula.

#ifndef TT_GRAPH_BUILD_H
#define TT_GRAPH_BUILD_H

#include "graph/graph.h"

enum { TT_SCOPE_BYTES = 256 };

// The operators that building and differentiation emit by themselves; given by
// the caller because graph/ does not see ops/.
typedef struct tt_grad_ops {
    const tt_op_def *add, *ones_like, *offer, *fetch, *cast, *match;
} tt_grad_ops;

struct tt_builder {
    tt_graph *graph;
    const tt_grad_ops *ops;
    tt_status status;
    tt_dtype dtype;  // of activations and of the weights that kernels read
    tt_dtype master; // of stored weights and optimiser state
    bool is_training;
    bool reads_only;    // weights are never updated: stored as they are read
    bool no_masters;    // updated as kernels read them, without masters
    int64_t norm_group; // samples that batch norm takes together; 0: all
    // Terms of a weight that is read in several places are summed over micro-batches
    // each by itself, and added at the end: in the same order wherever they lie.
    bool adds_terms_last;
    tt_phase phase;
    int32_t stage;
    char scope[TT_SCOPE_BYTES]; // "transformer.h.0.attn"
    const char *origin;         // of new nodes; NULL: the scope
    double state_elements;      // so far
};

// Memory of `b` is the caller's; the graph is owned by the builder until taken.
// Precision starts as f32 for everything; set dtype and master before building.
tt_status tt_builder_init(tt_builder *b, const tt_grad_ops *ops);
void tt_builder_fini(tt_builder *b); // destroys a graph that was not taken

// The verified graph, now the caller's, or the first error.
tt_status tt_builder_take(tt_builder *b, tt_graph **graph_out);

tt_status tt_builder_status(const tt_builder *b);
tt_val tt_builder_fail(tt_builder *b, tt_status status); // sticky; TT_NONE

// Scopes: push returns the old length, to be given to pop.
__attribute__((format(printf, 2, 3))) int tt_scope_push(tt_builder *b,
                                                        const char *fmt, ...);
void tt_scope_pop(tt_builder *b, int length);

// A value's type; after a failure (v none) that of a scalar, so that models
// need not look.
const tt_type *tt_type_of(const tt_builder *b, tt_val v);
int64_t tt_dim_of(const tt_builder *b, tt_val v, int d);

// Leaves. Names are the full names: `name` after the scope and a dot.
tt_val tt_input(tt_builder *b, const char *name, tt_dtype dtype,
                const char *shape);
tt_val tt_scalar(tt_builder *b, const char *name,
                 tt_dtype dtype); // found or made
tt_val tt_state(tt_builder *b, tt_role role, const char *name, tt_dtype dtype,
                const tt_shape *shape, tt_init init);

// A trained weight, read through `fetch`: in the compute precision when it has
// two dimensions or more (then a work copy is kept in addition to the master), in the
// master precision otherwise. The shape is a format for tt_shape text:
// "embed:%lld ff:%lld" with long long arguments.
__attribute__((format(printf, 4, 5))) tt_val
tt_param(tt_builder *b, const char *name, tt_init init, const char *shape, ...);

// Appends a node. `params` is copied (NULL: the defaults). out has room for
// TT_MAX_OUT and may be NULL; the first output is returned.
tt_val tt_call(tt_builder *b, const tt_op_def *op, const void *params,
               const tt_val *in, int n_in, tt_val *out);

// The same with options as text: "stride=%lld activation=relu".
__attribute__((format(printf, 5, 6))) tt_val
tt_callf(tt_builder *b, const tt_op_def *op, const tt_val *in, int n_in,
         const char *options, ...);

// All outputs of the node that made v: room for TT_MAX_OUT, TT_NONE after the last.
// After a failure (v none) all are TT_NONE.
void tt_outputs_of(const tt_builder *b, tt_val v, tt_val *out);

// Says that `v` is the new version of `state`.
void tt_update(tt_builder *b, tt_val state, tt_val v);

void tt_output(tt_builder *b, const char *name, tt_val v);

// Placement of a value along one axis (passes only).
void tt_place_set(tt_builder *b, tt_val v, int axis, tt_place place);

// Copies one value (leaf) of another graph: same name, type, role, init.
tt_val tt_leaf_copy(tt_builder *b, const tt_graph *from, tt_val v);

#endif
