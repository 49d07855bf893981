// tensors - the named states of a graph: weights, statistics, optimiser state,
// moving averages; read and written dense, whatever layout kernels gave them.
//
// A weight's copy in the compute precision is no tensor of its own: it is a
// function of the weight and is written with it.
//
// Where ranks share a tensor, each holds its part; what is read and written here is
// always the whole, so all ranks must make the same calls.
//
// The folder state: a job's tensors, whole or in parts, to and from memory and
// files; snapshots, restoring, slices. What does not belong here: when something is
// saved and which checkpoints stay (train, store), and names that others gave to
// tensors (weights).

#ifndef TT_STATE_TENSORS_H
#define TT_STATE_TENSORS_H

#include "base/arena.h"
#include "exec/exec.h"
#include "peers/peers.h"
#include "store/safetensors.h"

#include <pthread.h>

typedef enum tt_tensor_role {
    TT_TENSOR_PARAM,  // a weight, trained or frozen
    TT_TENSOR_BUFFER, // other state of the model: batch norm's statistics
    TT_TENSOR_OPTIM,  // "fc.weight.exp_avg"
    TT_TENSOR_EMA,    // "fc.weight.ema"
} tt_tensor_role;

typedef struct tt_tensor {
    const char *name;
    tt_tensor_role role;
    tt_dtype dtype;
    int32_t ndim;
    int64_t dim[TT_MAX_DIMS];
    int64_t count, bytes; // dense
    tt_val val;
    tt_val work; // of a weight: its copy in the compute precision, or none
    tt_val of;   // of an EMA: the weight that it averages
    const tt_peers *peers; // that hold it; NULL: one process
    bool is_split;         // each holds a part, or nothing
} tt_tensor;

typedef struct tt_tensors { // weights first, then buffers, optimiser, EMA
    int64_t n;
    tt_tensor *v; // in the arena
} tt_tensors;

// Names are borrowed from the graph. `ranks` (NULL: one process) must outlive it.
tt_status tt_tensors_list(const tt_graph *graph, const tt_peers *peers,
                          tt_arena *arena, tt_tensors *out);

const tt_tensor *tt_tensors_find(const tt_tensors *all,
                                 const char *name); // or NULL

// The gradient of a weight, to be read like a tensor after a step; false: it has none.
bool tt_tensor_grad(const tt_graph *graph, const tt_tensor *weight,
                    tt_tensor *grad_out);

// Weights and buffers alone.
tt_tensors tt_tensors_model(const tt_tensors *all);

bool tt_tensor_is_model(const tt_tensor *tensor); // a weight or a buffer

// Whether ranks hold different parts of a value, or some of them nothing: it lies at
// other stages.
bool tt_tensor_is_in_parts(const tt_graph *g, tt_val v);

// Whether this rank holds a part of it.
bool tt_tensor_is_here(const tt_exec *exec, const tt_tensor *tensor);

// From and to dense memory in the tensor's own type: the whole tensor, on every
// rank.
tt_status tt_tensor_read(tt_exec *exec, const tt_tensor *tensor, void *data);
tt_status tt_tensor_write(tt_exec *exec, const tt_tensor *tensor,
                          const void *data);

// Gathers the whole tensor on rank 0; other ranks take part, and their `data` is
// not used. Where several ranks hold the same part, one copy is read: the first, or
// for `tutti verify`, which compares copies, that of rank `like`.
enum { TT_FIRST_COPY = -1 };
tt_status tt_tensor_gather(tt_exec *exec, const tt_tensor *tensor, int32_t like,
                           void *data);

bool tt_tensors_are_split(const tt_tensors *all); // one of them is in parts

// Rank 0 of those that hold the tensors, or the only one.
bool tt_tensors_are_first(const tt_tensors *all);

// "F32" for TT_F32, and back (false: no such type here).
const char *tt_tensor_file_dtype(tt_dtype dtype);
bool tt_tensor_own_dtype(const char *name, tt_dtype *dtype_out);

// Whether one in a file has this one's extents; and "[2, 3]" for a message.
bool tt_tensor_has_shape(const tt_tensor *tensor, const tt_safetensor *from);
void tt_tensor_print_shape(const int64_t *extent, int64_t n, tt_str *out);

// Converts `n` elements; equal types are copied.
void tt_tensor_convert(tt_dtype from, const void *in, tt_dtype to, void *out,
                       int64_t n);

// Fills `targets` from the states of the same names in another executor, converted
// where types differ; with use_ema a weight from its average where there is one.
// `to` NULL: this rank only takes part in reading.
tt_status tt_tensors_copy(tt_exec *from, const tt_tensors *sources, tt_exec *to,
                          const tt_tensors *targets, bool use_ema);

// ---- all of them at once -------------------------------------------------

typedef struct tt_snapshot {
    void *memory; // holds the tensors' data; reused by the next one
    int64_t bytes;
    int64_t n_model, n_optim;
    tt_safetensor *model, *optim; // EMA is among `optim`; in the arena
    bool has_thread;              // prepares the memory; see snapshot_room.c
    pthread_t thread;
    tt_backend *backend;  // for which the memory is pinned; NULL: it is not
    const tt_exec *exec;  // whose states are in it
    tt_comm_wire *lender; // of memory that other ranks see; NULL: private
} tt_snapshot;

// What a snapshot needs.
int64_t tt_tensors_bytes(const tt_tensors *all);

// Rank 0's memory, ahead of the first snapshot: a thread gets its pages and, for a
// device, pins them, so that the first one takes no longer than others. Without memory
// nothing happens, and the snapshot says so. Nothing on other ranks.
void tt_snapshot_prepare(tt_exec *exec, const tt_tensors *all,
                         tt_snapshot *snapshot);

// The lists alone, without data, unless they are made: for data that come later.
tt_status tt_snapshot_list(const tt_tensors *all, tt_arena *arena,
                           tt_snapshot *snapshot);

// Copies every tensor of the list to rank 0; other ranks take part and get nothing.
// `arena` holds the lists. If the same *snapshot is given again, its memory is used
// again. On return the states of a device may still be on their way while its steps
// go on. tt_snapshot_wait returns when all are there; any thread may call it.
tt_status tt_snapshot_begin(tt_exec *exec, const tt_tensors *all,
                            tt_arena *arena, tt_snapshot *snapshot);
tt_status tt_snapshot_wait(const tt_snapshot *snapshot);
// Both.
tt_status tt_snapshot_take(tt_exec *exec, const tt_tensors *all,
                           tt_arena *arena, tt_snapshot *snapshot);
void tt_snapshot_free(tt_snapshot *snapshot); // its memory

// For files of state/ only: makes room for `bytes`; keeps memory that is large
// enough.
tt_status tt__snapshot_room(tt_snapshot *snapshot, int64_t bytes);
// A thread gets its pages and pins them.
void tt__snapshot_warm(tt_exec *exec, tt_snapshot *snapshot);

// Writes the snapshot's own data back: for rolling back in memory.
tt_status tt_snapshot_put_back(tt_exec *exec, const tt_tensors *all,
                               const tt_snapshot *snapshot);

#endif
