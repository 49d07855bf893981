// onnx - a model file of ONNX, written field by field as protocol buffers. Weights
// are written from where they lie.

#ifndef TT_STORE_ONNX_H
#define TT_STORE_ONNX_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

typedef enum tt_onnx_type { TT_ONNX_F32 = 1, TT_ONNX_I64 = 7 } tt_onnx_type;

typedef struct tt_onnx_tensor {
    const char *name;
    tt_onnx_type type;
    int64_t ndim;
    const int64_t *dims; // of an input or output -1: the batch, any extent
    const void *data;    // NULL in inputs and outputs
    int64_t bytes;
} tt_onnx_tensor;

typedef struct tt_onnx { // zero-initialise; end with tt_onnx_fini
    tt_str nodes;        // NodeProto messages
    tt_str ends;         // inputs and outputs
    int64_t n, capacity;
    tt_onnx_tensor *tensor; // initialisers, in the arena
    tt_arena *arena;
} tt_onnx;
void tt_onnx_fini(tt_onnx *o);

// Attributes of the next node are gathered in a tt_str.
void tt_onnx_int(tt_str *attributes, const char *name, int64_t value);
void tt_onnx_float(tt_str *attributes, const char *name, double value);
void tt_onnx_ints(tt_str *attributes, const char *name, const int64_t *v,
                  int64_t n);

// Names of inputs and outputs; a NULL input ends the list. `attributes` (may be
// NULL) is cleared.
void tt_onnx_node(tt_onnx *o, const char *type, const char *const *in,
                  const char *const *out, int n_out, tt_str *attributes);

// A constant or a weight. Name, dims and data must live until it is written.
tt_status tt_onnx_add(tt_onnx *o, const tt_onnx_tensor *tensor);
// A vector of int64 in the arena; returns its name, or NULL without memory.
const char *tt_onnx_ints_tensor(tt_onnx *o, const char *name, const int64_t *v,
                                int64_t n);

void tt_onnx_input(tt_onnx *o, const tt_onnx_tensor *tensor);
void tt_onnx_output(tt_onnx *o, const tt_onnx_tensor *tensor);

// Files beyond 2 GiB are refused: protocol buffers end there.
tt_status tt_onnx_write(const tt_onnx *o, const char *name, const char *path);

#endif
