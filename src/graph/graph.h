// graph - what is computed, never where or when: values in static single
// assignment, nodes in an order in which they may run.
//
// A graph owns one arena; nodes and values refer to each other by id. Passes never
// change their input, they copy. Immutable after build (the builder is the
// only writer). State (weights, optimiser state, statistics) is a value without
// producer; the value that replaces it says so in `updates`, shares its memory,
// and every read of the old version comes before it in node order.

#ifndef TT_GRAPH_GRAPH_H
#define TT_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "graph/op.h"
#include "graph/place.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_role {
    TT_ROLE_NODE,   // computed by a node
    TT_ROLE_INPUT,  // written by the host before each micro-batch
    TT_ROLE_SCALAR, // written by the host before each step: lr, step, skip, seed
    TT_ROLE_PARAM,  // state: a weight that is trained
    TT_ROLE_WORK,   // state: a weight's copy in the compute precision
    TT_ROLE_BUFFER, // state of the model that is not trained (BN statistics)
    TT_ROLE_OPTIM,  // state of the optimiser
    TT_ROLE_EMA,    // state: a weight's moving average, which the update keeps
    TT_ROLE_AGAIN,  // the state init.of as it is when a phase aside begins
    TT_N_ROLES,
} tt_role;
bool tt_role_is_state(tt_role role);
bool tt_role_is_update(tt_role role); // state that only the update knows

// When a node runs. Segments of a plan are (phase, stage). Phases after the update are
// aside: no part of a step. Somebody runs each of their segments after some steps; they
// know states only, which they read through leaves of their own (TT_ROLE_AGAIN).
typedef enum tt_phase {
    TT_FORWARD,
    TT_BACKWARD,    // gradients of activations
    TT_WEIGHT_GRAD, // gradients that only lead to an offer
    TT_UPDATE,
    TT_AGREE, // replicas exchange weights; the stage is the variant
    TT_LAND,  // what such an agreement has left on its way is used, steps later
    TT_MEET,  // the model is made of the replicas
    TT_SPREAD, // the replicas are made of the model
    TT_N_PHASES,
} tt_phase;
static inline bool tt_phase_is_aside(tt_phase phase)
{
    return phase > TT_UPDATE;
}
const char *tt_phase_name(tt_phase phase);

typedef enum tt_init_kind {
    TT_INIT_CONST,   // a
    TT_INIT_NORMAL,  // mean 0, deviation a
    TT_INIT_UNIFORM, // [-a, a)
    TT_INIT_COPY,    // of the state `of` (work copies, EMA)
} tt_init_kind;

typedef struct tt_init {
    tt_init_kind kind;
    double a;
    tt_val of;
} tt_init;

typedef struct tt_value {
    const char *name; // unique; of state: the name in checkpoints
    tt_type type;
    tt_role role;
    tt_init init;       // state
    int32_t node, slot; // producer and output index; -1 without
    tt_val updates;     // the state of which this is the new version
    tt_val grad;        // of a param: its finished gradient, when there is one
} tt_value;

struct tt_node {
    const tt_op_def *op;
    const void *params;
    const char
        *origin; // who asked for it: survives passes, keys random numbers
    tt_phase phase;
    int32_t stage;
    int32_t n_in, n_out;
    const tt_val *in; // TT_NONE: absent
    const tt_val *out;
};

typedef struct tt_graph_output {
    const char *name; // "loss", "count", "logits", "norm", ...
    tt_val val;
} tt_graph_output;

typedef struct tt_graph {
    tt_arena *arena;
    tt_mesh mesh;
    int32_t n_values, n_nodes, n_outputs;
    int32_t values_capacity, nodes_capacity, outputs_capacity;
    tt_value *value; // grown by the builder
    tt_node *node;
    tt_graph_output *output;
    int32_t n_name_slots; // a power of two
    int32_t *name_slot;   // by hash of the name: value id + 1; 0: free
} tt_graph;

tt_graph *tt_graph_create(void); // NULL: memory exhausted
void tt_graph_destroy(tt_graph *g);

static inline const tt_value *tt_graph_value(const tt_graph *g, tt_val v)
{
    return &g->value[v.id];
}

// The value with this name, or the output marked with it; TT_NONE without.
tt_val tt_graph_find(const tt_graph *g, const char *name);
// Makes the newest value known to it (the builder only).
tt_status tt__graph_index(tt_graph *g);
tt_val tt_graph_output_find(const tt_graph *g, const char *name);

// Checks everything a graph promises; names the first offender.
tt_status tt_graph_verify(const tt_graph *g);

// Text and back; parse(print(g)) prints to the same text. Operators are looked up
// through `find`, because graph/ does not know the list.
void tt_graph_print(const tt_graph *g, tt_str *out);
typedef const tt_op_def *tt_op_find_fn(const char *name);
tt_status tt_graph_parse(const char *text, tt_op_find_fn *find,
                         tt_graph **graph_out);

// Fills `io` for a node from global types; `in` has room for node->n_in.
void tt_node_io(const tt_graph *g, const tt_node *node, tt_type *in,
                tt_type *out, tt_op_io *io);

#endif
