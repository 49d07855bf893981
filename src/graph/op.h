// op - what an operator is: everything about it except how it is computed.
//
// An operator's file answers four questions and gives examples: the types of its
// outputs (infer), its gradient as new nodes (grad), its legal placements
// (shard), its cost. Attributes are an option table over a params struct; they
// never hold an extent of a dimension that can be split, because kernels run on
// local shapes.

#ifndef TT_GRAPH_OP_H
#define TT_GRAPH_OP_H

#include "base/settings/opt.h"
#include "base/status.h"
#include "graph/place.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_op_def tt_op_def;
typedef struct tt_builder tt_builder;
typedef struct tt_node tt_node;

// A value of a graph; negative: none.
typedef struct tt_val {
    int32_t id;
} tt_val;
static const tt_val TT_NONE = {-1};
static inline bool tt_is(tt_val v)
{
    return v.id >= 0;
}

// A node seen from its operator: types only. `out` is filled by infer.
typedef struct tt_op_io {
    const void *params;
    int n_in, n_out;
    const tt_type *in; // an absent optional input has dtype TT_N_DTYPES
    tt_type *out;
    const tt_op_def *op;
    const tt_mesh *mesh; // on which in and out are placed; NULL: on none
} tt_op_io;

static inline bool tt_io_has(const tt_op_io *io, int i)
{
    return i < io->n_in && io->in[i].dtype != TT_N_DTYPES;
}

enum { TT_MAX_OUT = 8 };

// Sets io->n_out and io->out (room for TT_MAX_OUT, zeroed; placements are not
// its business), or fails with a sentence that starts with the operator's name.
typedef tt_status tt_op_infer_fn(tt_op_io *io);

// Emits nodes that compute the gradients of those inputs for which need[i], given
// the gradients of the outputs (dout[i] may be TT_NONE: nothing flows back from
// there; at least one is there). Writes din[i]; TT_NONE there means zero.
typedef tt_status tt_op_grad_fn(tt_builder *b, const tt_node *node,
                                const tt_val *dout, const bool *need,
                                tt_val *din);

// Work is the number of scalar operations (Ben-Nun & Hoefler), depth the longest
// chain of them; flops counts what a GEMM counts (multiply and add are two).
// Bytes: what must move between memory and cores at least once. Wire and
// messages: sent by this rank (collectives only).
typedef struct tt_cost {
    double flops, bytes, work, depth;
    double wire_bytes, messages;
} tt_cost;

// Where a part lies inside a whole, so that lowering need not copy. For TT_OP_VIEW:
// output i inside input 0; for TT_OP_CONCAT: input i inside output 0. Operands of
// `site` have local shapes; the whole is plain and its strides are set. Writes
// the part's strides and its first element's offset in elements; false when no
// strides express it. Helpers are in ops/shape/view.h.
typedef struct tt_site tt_site;
typedef bool tt_op_view_fn(const tt_site *site, int i, int64_t *stride_out,
                           int64_t *offset_out);

// `io` has local shapes; `axis_size` is the group's size (collectives only).
typedef void tt_op_cost_fn(const tt_op_io *io, int axis_size, tt_cost *cost);

// One legal way to place the operands along one mesh axis. When `expand` is
// null the same operator runs on the local parts; otherwise it emits what runs
// instead (with communication inside).
typedef struct tt_sig tt_sig;

// Emits the node's work for the placements of `sig` along mesh axis `axis`.
// `in` are the inputs, placed as sig->in says; writes the outputs, which must be
// placed as sig->out says.
typedef tt_status tt_op_expand_fn(tt_builder *b, const tt_node *node,
                                  const tt_sig *sig, int axis, const tt_val *in,
                                  tt_val *out);

// How a signature joins the parts of a split sequence. The user chooses between the last
// two; they are not compared by cost.
typedef enum tt_way {
    TT_WAY_ANY,
    TT_WAY_RING,     // blocks go round
    TT_WAY_EXCHANGE, // another dimension is split instead
} tt_way;

enum { TT_SIG_IN = 16, TT_MAX_SIGS = 24 };
struct tt_sig {
    tt_place in[TT_SIG_IN]; // inputs past the last entry are as the last one
    tt_place out[TT_MAX_OUT];
    tt_op_expand_fn *expand;
    double sent_bytes; // by a rank inside of expand; 0: not counted
    tt_way way;
    bool bends; // may go zigzag though its splits have different extents
};

typedef struct tt_sigs {
    int n;
    tt_sig sig[TT_MAX_SIGS];
} tt_sigs;

// Appends every signature except "all replicated", which is always legal.
// `axis_size` is the size of the axis: splits that leave a rank empty are wrong.
typedef void tt_op_shard_fn(const tt_op_io *io, int axis_size, tt_sigs *sigs);

// An example for the laws. Inputs as text: kind, then a shape. Kinds:
//   f   any floats (about -1..1)     f+  positive (0.2 .. 1.5)
//   f!  distinct and away from 0 (for kinks: relu, max pooling)
//   i<7 int32 below 7                u<7 uint8 below 7
//   q   like f, in e4m3; r in e5m2, b in bf16
//   m   like f, but f32 at least (statistics, losses, optimiser state); m+ m!
//   =2  the constant 2 (float)       m=2 likewise; I=2 int64, i=2, u=2
//   c3  codes of 3 replicas, of what the next input is like (operators X_sum)
//   -   absent optional input
typedef struct tt_sample {
    const char *params;
    const char *in[12]; // ends at the first NULL
    double flops;       // what cost must say, counted by hand
} tt_sample;

enum tt_op_flags {
    TT_OP_VIEW = 1,        // output is a view of input 0: no work if strides do
    TT_OP_ELEMENTWISE = 2, // out[i] depends on in[*][i] only; any equal layouts
    TT_OP_COLLECTIVE = 4,  // talks to the ranks along params' axis
    TT_OP_ACCUMULATE = 8,  // sums its inputs, and over micro-batches
    TT_OP_ALIAS = 16,      // output 0 is input 0: fetch, agree
    TT_OP_INPLACE = 32,    // output 0 may overwrite input 0 when it dies there
    TT_OP_CONCAT = 64,  // inputs lie side by side in the output: producers may
                        // write them there
    TT_OP_SILENT = 128, // of collectives: sends nothing, each rank has it all
    // Turns a last bit into a large difference: a ReLU at zero, the choice of a maximum
    // or of an expert.
    TT_OP_JUMPS = 256,
    // Adds its inputs up: one that lies elsewhere is a zero here.
    TT_OP_SUMS = 512,
};

struct tt_op_def {
    const char *name, *doc;
    const tt_opt *options; // NULL: none
    int64_t params_bytes;
    uint32_t flags;
    uint32_t shape_only; // bit i: of input i only the shape is read
    uint32_t no_grad;    // bit i: no gradient flows through output i
    tt_op_infer_fn *infer;
    tt_op_grad_fn *grad;   // NULL: not differentiable
    tt_op_shard_fn *shard; // NULL: replicated only
    tt_op_cost_fn *cost;
    double flops_each; // per element of output 0, for tt_cost_each
    // What the members of a family of operators differ in. The functions that they share
    // read it (ops/codec/packet.h); NULL: nothing.
    const void *family;
    tt_op_view_fn *view; // TT_OP_VIEW and TT_OP_CONCAT; NULL: always copies
    bool is_single; // computes in fp32 in all types; the laws allow for that
    // An operator from outside brings its only kernel; NULL: backends have some.
    const struct tt_kernel_def *kernel;
    const tt_sample *samples; // ends with an entry whose in[0] is NULL
};

// Talks to other ranks: it has no kernel, flights carry it out.
static inline bool tt_op_is_collective(const tt_op_def *op)
{
    return (op->flags & TT_OP_COLLECTIVE) != 0;
}

// Helpers for shard functions.
tt_sig *tt_sigs_add(tt_sigs *sigs); // zeroed: all replicated; NULL when full
// Whether it splits an operand along a factor of this name.
bool tt_sig_splits(const tt_op_io *io, const tt_sig *sig, const char *name);
// Makes all its splits go zigzag. False: they would not match, because the factors have
// different extents, or one has a window.
bool tt_sig_bend(const tt_op_io *io, tt_sig *sig);
// How many entries of factor f of this type the rank with the fewest has.
int64_t tt_io_extent(const tt_op_io *io, const tt_type *type, int f);
// Whether factor f of this type can be split over `axis_size` ranks.
bool tt_can_split(const tt_type *type, int f, int axis_size);

#endif
