// port_onnx - internal to the export: one function per operator writes its nodes.

#ifndef TT_PORT_PORT_ONNX_H
#define TT_PORT_PORT_ONNX_H

#include "graph/graph.h"
#include "store/onnx.h"

typedef struct tt_port_onnx_work {
    tt_onnx o;
    const tt_graph *graph;
    const char **name; // per value: what it is called in the file
    int32_t n_fresh;   // names given to values in between
} tt_port_onnx_work;

typedef tt_status tt_port_onnx_emit_fn(tt_port_onnx_work *w,
                                       const tt_node *node);

// The function for an operator, or NULL.
tt_port_onnx_emit_fn *tt_port_onnx_emit_of(const char *op);

// A name for a value in between, or NULL without memory.
const char *tt_port_onnx_fresh(tt_port_onnx_work *w);

// What input i, or the first output, is called; NULL: absent.
const char *tt_port_onnx_in(const tt_port_onnx_work *w, const tt_node *node,
                            int i);
const char *tt_port_onnx_out(const tt_port_onnx_work *w, const tt_node *node);

// One node with up to three inputs.
void tt_port_onnx_emit(tt_port_onnx_work *w, const char *type, const char *a,
                       const char *b, const char *out, tt_str *attributes);

#endif
