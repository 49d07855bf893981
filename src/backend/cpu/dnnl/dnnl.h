// dnnl - a small interface to oneDNN. No other folder knows the library's types, so a
// new version of it changes these files alone.
//
// A tensor is described by its extents and either strides or a layout. A layout is a
// number from 1 on that stands for one of the library's own memory formats; equal
// formats get equal numbers. It includes extents and element type, so an operand's
// layout says everything about its memory.
//
//   tensors  -> tt__prim_conv(...)  -> tt__prim_layout: the formats it wants
//               once, at lowering      tt__prim_run: binds addresses and computes
//
// The thread count and the scratch memory are fixed when a primitive is made, so that
// running it allocates nothing.
//
// One thread at a time, except for primitives that were made for one thread: several
// of those may run at the same time.

#ifndef TT_BACKEND_CPU_DNNL_DNNL_H
#define TT_BACKEND_CPU_DNNL_DNNL_H

#include "base/status.h"
#include "graph/site.h"

typedef struct tt__dnnl tt__dnnl;

tt_status tt__dnnl_create(int n_threads, tt__dnnl **dnnl_out);
void tt__dnnl_destroy(tt__dnnl *dnnl);
int tt__dnnl_threads(const tt__dnnl *dnnl);
bool tt__dnnl_has_bf16(void); // else see dnnl_wide.h

enum {
    TT__MAX_NDIM = 12, // the library's own limit
    TT__ANY = -1       // as a layout: the library chooses
};

typedef struct tt__dnnl_tensor {
    tt_dtype dtype;
    int32_t ndim, layout; // ndim 0: absent
    int64_t dims[TT__MAX_NDIM], stride[TT__MAX_NDIM];
} tt__dnnl_tensor;

// As the operand says; `any` with the operand's extents.
tt__dnnl_tensor tt__dnnl_tensor_of(const tt_operand *o);
tt__dnnl_tensor tt__dnnl_tensor_any(const tt_operand *o);
// Splits dimension 0 into `groups` and the rest.
void tt__dnnl_tensor_group(tt__dnnl_tensor *t, int64_t groups);
// Extents and row-major strides.
tt__dnnl_tensor tt__dnnl_tensor_dense(tt_dtype dtype, int ndim,
                                      const int64_t *dims);

int64_t tt__dnnl_layout_bytes(const tt__dnnl *dnnl, int32_t layout);
// See tt_target.
int32_t tt__dnnl_layout_part(tt__dnnl *dnnl, int32_t layout, int64_t entries);
uint64_t tt__dnnl_layout_hash(const tt__dnnl *dnnl, int32_t layout);
int tt__dnnl_layout_ndim(const tt__dnnl *dnnl, int32_t layout);
int64_t tt__dnnl_layout_dim(const tt__dnnl *dnnl, int32_t layout, int d);

// The same order of elements for another element type.
tt_status tt__dnnl_layout_retype(tt__dnnl *dnnl, int32_t layout, tt_dtype dtype,
                                 int32_t *layout_out);

// How the channels of a layout [n, c, space...] are blocked: 16 for nChw16c, where 16
// channels of a point lie side by side, and all points of a block come before the next
// block. The last block may be padded with zeros. Channels last is one block of all
// channels; layout 0 (NCHW) has blocks of 1. 0: none of these.
int64_t tt__dnnl_layout_channel_block(const tt__dnnl *dnnl, int32_t layout);
// The block size that the library prefers on this CPU.
int64_t tt__dnnl_channel_block(void);
// The layout of a tensor [n, c, space...] with channels in such blocks.
tt_status tt__dnnl_layout_of_blocks(tt__dnnl *dnnl, const tt__dnnl_tensor *t,
                                    int64_t block, int32_t *layout_out);

// ---- primitives ----

typedef struct tt__prim tt__prim;

// Which tensor is which: indices into `data` of tt__prim_run.
enum { TT__A, TT__B, TT__BIAS, TT__C };          // c = a b + bias
enum { TT__X, TT__W, TT__CONV_BIAS, TT__Y };     // convolution, each way
enum { TT__POOL_X, TT__POOL_Y, TT__POOL_WHERE }; // pooling, each way
enum { TT__FROM, TT__TO };                       // reorder
enum { TT__MAX_SLOTS = 4 };

typedef struct tt__matmul_desc {
    tt__dnnl_tensor a, b, bias,
        c;          // [..., m, k], [..., k, n], [n] or absent, [..., m, n]
    bool adds;      // c += instead of c =
    bool is_serial; // for one thread
} tt__matmul_desc;
tt_status tt__prim_matmul(tt__dnnl *dnnl, const tt__matmul_desc *d,
                          tt__prim **prim_out);

typedef enum tt__conv_pass {
    TT__FORWARD,
    TT__GRAD_X,
    TT__GRAD_W
} tt__conv_pass;

enum { TT__SPACE = 3 };
typedef struct tt__conv_window {
    int n; // spatial dimensions
    int64_t kernel[TT__SPACE], stride[TT__SPACE], dilation[TT__SPACE];
    int64_t pad_lo[TT__SPACE], pad_hi[TT__SPACE];
} tt__conv_window;

typedef enum tt__conv_kind {
    TT__CONV_AUTO,
    TT__CONV_DIRECT,
    TT__CONV_WINOGRAD,
    TT__CONV_GEMM, // im2col
} tt__conv_kind;

typedef struct tt__cpu_conv_desc {
    tt__conv_pass way;
    tt__conv_kind kind;
    tt__dnnl_tensor x, w, bias, y; // w: [groups, o, c, ...] or [o, c, ...]
    tt__conv_window window;
    bool is_serial;
} tt__cpu_conv_desc;
// TT_ERR_UNSUPPORTED without a message when the library has no such thing.
tt_status tt__prim_conv(tt__dnnl *dnnl, const tt__cpu_conv_desc *d,
                        tt__prim **prim_out);

typedef enum tt__pool_kind {
    TT__POOL_MAX,
    TT__POOL_AVG,        // padding does not count
    TT__POOL_AVG_PADDED, // padding counts
} tt__pool_kind;

typedef struct tt__pool_desc {
    tt__conv_pass way; // not TT__GRAD_W
    tt__pool_kind kind;
    tt__dnnl_tensor x, y;
    tt__conv_window window;
} tt__pool_desc;
tt_status tt__prim_pool(tt__dnnl *dnnl, const tt__pool_desc *d,
                        tt__prim **prim_out);

tt_status tt__prim_reorder(tt__dnnl *dnnl, const tt__dnnl_tensor *from,
                           const tt__dnnl_tensor *to, tt__prim **prim_out);

void tt__prim_destroy(tt__prim *prim); // NULL is fine

// The layout that a tensor has for this primitive; 0: dense.
int32_t tt__prim_layout(const tt__prim *prim, int slot);
int64_t tt__prim_scratch_bytes(const tt__prim *prim);
bool tt__prim_is_serial(const tt__prim *prim);   // run by one thread
const char *tt__prim_name(const tt__prim *prim); // the library's word for it
bool tt__prim_is_slow(const tt__prim *prim);     // its plain loops
// `data`: an address per slot; NULL where the tensor is absent.
tt_status tt__prim_run(tt__prim *prim, const void *const *data, void *scratch);

#endif
