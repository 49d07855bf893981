// dnnl - engine, formats and primitives of oneDNN; what they compute is described
// in dnnl_create.c.

#include "backend/cpu/dnnl/dnnl_inner.h"
#include "backend/cpu/isa.h"
#include "base/alloc.h"
#include "base/rng.h"

#include <assert.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

tt_status tt__dnnl_fail(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return TT_OK;
    if (status == dnnl_out_of_memory)
        return tt_fail(TT_ERR_NOMEM, "oneDNN: no memory for %s", what);
    if (status == dnnl_unimplemented)
        return TT_ERR_UNSUPPORTED;
    return tt_fail(TT_ERR_STATE, "oneDNN: %s failed with status %d", what,
                   (int)status);
}

// The highest instruction set that the library may use at a level. It accepts a limit
// only before it was asked about one for the first time, so every such question goes
// through effective_isa.
static int isa_of(tt_isa level)
{
    static const dnnl_cpu_isa_t most[TT_N_ISAS] = {
        [TT_ISA_BASE] = dnnl_cpu_isa_sse41,
        [TT_ISA_V3] = dnnl_cpu_isa_avx2,
        [TT_ISA_V4] = dnnl_cpu_isa_avx512_core,
        [TT_ISA_V4B] = dnnl_cpu_isa_avx512_core_bf16,
    };
    return (int)most[level];
}

#ifdef TT_ISA_BASE_ONLY

static int effective_isa(void) // no x86: there is nothing to limit
{
    return 0;
}

#else

static void set_limit(void)
{
    (void)dnnl_set_max_cpu_isa((dnnl_cpu_isa_t)isa_of(tt_isa_used()));
}

static int effective_isa(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_limit);
    return (int)dnnl_get_effective_cpu_isa();
}

#endif

// A program that used the library before us may have made it too late for our limit. At
// the highest level that does not matter: only AMX could then be used in addition.
static tt_status check_isa(void)
{
    const tt_isa level = tt_isa_used();
    const int beyond = effective_isa() & ~isa_of(level);
    return beyond == 0 || level == TT_ISA_V4B
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "isa=%s: oneDNN was used in this process before with "
                         "more; open a session first",
                         tt_isa_name[level]);
}

tt_status tt__dnnl_create(int n_threads, tt__dnnl **dnnl_out)
{
    TT_TRY(check_isa());
    tt__dnnl *dnnl = tt_alloc(sizeof(*dnnl));
    if (dnnl == NULL)
        return tt_fail(TT_ERR_NOMEM, "oneDNN: no memory");
    dnnl->n_threads = n_threads;
    omp_set_num_threads(n_threads);
    dnnl_status_t status = dnnl_engine_create(&dnnl->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&dnnl->stream, dnnl->engine,
                                    dnnl_stream_default_flags);
    if (status != dnnl_success) {
        tt__dnnl_destroy(dnnl);
        return tt__dnnl_fail(status, "opening the CPU");
    }
    *dnnl_out = dnnl;
    return TT_OK;
}

void tt__dnnl_destroy(tt__dnnl *dnnl)
{
    if (dnnl == NULL)
        return;
    if (dnnl->stream != NULL)
        (void)dnnl_stream_destroy(dnnl->stream);
    if (dnnl->engine != NULL)
        (void)dnnl_engine_destroy(dnnl->engine);
    tt_free(dnnl->layout);
    tt_free(dnnl);
}

int tt__dnnl_threads(const tt__dnnl *dnnl)
{
    return dnnl->n_threads;
}

bool tt__dnnl_has_bf16(void)
{
    const int wanted = (int)dnnl_cpu_isa_avx512_core_bf16;
    return (effective_isa() & wanted) == wanted;
}

// ---- tensors ----

tt__dnnl_tensor tt__dnnl_tensor_of(const tt_operand *o)
{
    tt__dnnl_tensor t = tt__dnnl_tensor_any(o);
    t.layout = o->layout;
    for (int d = 0; d < t.ndim; d++)
        t.stride[d] = o->stride[d];
    return t;
}

tt__dnnl_tensor tt__dnnl_tensor_any(const tt_operand *o)
{
    tt__dnnl_tensor t = {
        .dtype = o->dtype, .ndim = o->local.shape.ndim, .layout = TT__ANY};
    for (int d = 0; d < t.ndim; d++)
        t.dims[d] = tt_operand_dim(o, d);
    return t;
}

tt__dnnl_tensor tt__dnnl_tensor_dense(tt_dtype dtype, int ndim,
                                      const int64_t *dims)
{
    tt__dnnl_tensor t = {.dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        t.dims[d] = dims[d];
        t.stride[d] = stride;
        stride *= dims[d];
    }
    return t;
}

void tt__dnnl_tensor_group(tt__dnnl_tensor *t, int64_t groups)
{
    assert(t->ndim < TT__MAX_NDIM && t->dims[0] % groups == 0);
    for (int d = t->ndim; d > 0; d--) {
        t->dims[d] = t->dims[d - 1];
        t->stride[d] = t->stride[d - 1];
    }
    t->ndim++;
    t->dims[1] /= groups;
    t->dims[0] = groups;
    t->stride[0] = t->dims[1] * t->stride[1];
}

static dnnl_data_type_t type_of(tt_dtype dtype)
{
    static const dnnl_data_type_t types[TT_N_DTYPES] = {
        [TT_F32] = dnnl_f32,
        [TT_BF16] = dnnl_bf16,
        [TT_I32] = dnnl_s32,
        [TT_U8] = dnnl_u8,
    };
    return types[dtype];
}

dnnl_memory_desc_t tt__dnnl_md(const tt__dnnl *dnnl, const tt__dnnl_tensor *t)
{
    dnnl_memory_desc_t md = {0};
    const bool is_wide = tt__is_widened(t->dtype);
    const dnnl_data_type_t type = is_wide ? dnnl_f32 : type_of(t->dtype);
    tt__dnnl_tensor floats;
    if (t->ndim == 0)
        return md;
    if (t->layout > 0) {
        md = dnnl->layout[t->layout - 1];
        md.data_type = is_wide ? type : md.data_type;
        return md;
    }
    if (t->layout == 0 && is_wide) {
        (void)tt__wide_strided(t, &floats);
        t = &floats;
    }
    const dnnl_status_t status =
        t->layout == TT__ANY
            ? dnnl_memory_desc_init_by_tag(&md, t->ndim, t->dims, type,
                                           dnnl_format_tag_any)
            : dnnl_memory_desc_init_by_strides(&md, t->ndim, t->dims, type,
                                               t->stride);
    assert(status == dnnl_success);
    (void)status;
    return md;
}

// ---- layouts ----

static bool is_dense(const dnnl_memory_desc_t *md)
{
    dnnl_memory_desc_t dense;
    int64_t stride[DNNL_MAX_NDIMS], n = 1;
    for (int d = md->ndims - 1; d >= 0; d--) {
        stride[d] = n;
        n *= md->dims[d];
    }
    return dnnl_memory_desc_init_by_strides(&dense, md->ndims, md->dims,
                                            md->data_type,
                                            stride) == dnnl_success &&
           dnnl_memory_desc_equal(&dense, md) != 0;
}

static tt_status grow(tt__dnnl *dnnl)
{
    const int64_t size = sizeof(*dnnl->layout);
    const int32_t n = dnnl->capacity == 0 ? 32 : 2 * dnnl->capacity;
    if (dnnl->n_layouts < dnnl->capacity)
        return TT_OK;
    void *grown = tt_realloc(dnnl->layout, dnnl->capacity * size, n * size);
    if (grown == NULL)
        return tt_fail(TT_ERR_NOMEM, "oneDNN: no memory for a layout");
    dnnl->layout = grown;
    dnnl->capacity = n;
    return TT_OK;
}

tt_status tt__dnnl_intern(tt__dnnl *dnnl, const dnnl_memory_desc_t *md,
                          int32_t *layout_out)
{
    *layout_out = 0;
    if (md->ndims == 0 || is_dense(md))
        return TT_OK;
    for (int32_t i = 0; i < dnnl->n_layouts; i++)
        if (dnnl_memory_desc_equal(&dnnl->layout[i], md) != 0) {
            *layout_out = i + 1;
            return TT_OK;
        }
    TT_TRY(grow(dnnl));
    dnnl->layout[dnnl->n_layouts] = *md;
    *layout_out = ++dnnl->n_layouts;
    return TT_OK;
}

int64_t tt__dnnl_layout_bytes(const tt__dnnl *dnnl, int32_t layout)
{
    return (int64_t)dnnl_memory_desc_get_size(&dnnl->layout[layout - 1]);
}

// Whether cutting dim 0 into blocks of `entries` cuts memory into contiguous pieces.
// Then no dim is padded, no other dim is further out, and no block of the format is
// cut.
static bool is_cut_by(const dnnl_memory_desc_t *md, int64_t entries)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t block = 1;
    if (md->format_kind != dnnl_blocked || md->extra.flags != 0 ||
        md->offset0 != 0)
        return false;
    for (int i = 0; i < b->inner_nblks; i++)
        block *= b->inner_idxs[i] == 0 ? b->inner_blks[i] : 1;
    for (int d = 0; d < md->ndims; d++)
        if (md->dims[d] != md->padded_dims[d] || b->strides[d] > b->strides[0])
            return false;
    return entries % block == 0;
}

int32_t tt__dnnl_layout_part(tt__dnnl *dnnl, int32_t layout, int64_t entries)
{
    dnnl_memory_desc_t md = dnnl->layout[layout - 1];
    int32_t part = 0;
    if (!is_cut_by(&md, entries))
        return 0;
    md.dims[0] = md.padded_dims[0] = entries;
    // When there is no memory to remember it by, the layout counts as not there.
    return tt__dnnl_intern(dnnl, &md, &part) == TT_OK ? part : 0;
}

uint64_t tt__dnnl_layout_hash(const tt__dnnl *dnnl, int32_t layout)
{
    const dnnl_memory_desc_t *md = &dnnl->layout[layout - 1];
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t word[3 * DNNL_MAX_NDIMS + 1] = {md->data_type};
    for (int d = 0; d < md->ndims; d++) {
        word[1 + 3 * d] = md->dims[d];
        word[2 + 3 * d] = b->strides[d];
    }
    for (int i = 0; i < b->inner_nblks; i++)
        word[3 + 3 * i] = b->inner_idxs[i] * INT64_C(1000) + b->inner_blks[i];
    return tt_hash(word, sizeof(word));
}

int tt__dnnl_layout_ndim(const tt__dnnl *dnnl, int32_t layout)
{
    return dnnl->layout[layout - 1].ndims;
}

int64_t tt__dnnl_layout_dim(const tt__dnnl *dnnl, int32_t layout, int d)
{
    return dnnl->layout[layout - 1].dims[d];
}

tt_status tt__dnnl_layout_retype(tt__dnnl *dnnl, int32_t layout, tt_dtype dtype,
                                 int32_t *layout_out)
{
    *layout_out = 0;
    if (layout == 0)
        return TT_OK;
    dnnl_memory_desc_t md = dnnl->layout[layout - 1];
    md.data_type = type_of(dtype);
    return tt__dnnl_intern(dnnl, &md, layout_out);
}

// The format [n, c / block, space..., block].
static dnnl_memory_desc_t blocked(const tt__dnnl_tensor *t, int64_t block)
{
    static const dnnl_format_tag_t tags[][2] = {
        {dnnl_nCw8c, dnnl_nCw16c},
        {dnnl_nChw8c, dnnl_nChw16c},
        {dnnl_nCdhw8c, dnnl_nCdhw16c},
    };
    static const dnnl_format_tag_t last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
    dnnl_memory_desc_t md = {0};
    const int space = t->ndim - 3;
    if (space < 0 || space > 2)
        return md;
    dnnl_format_tag_t tag = dnnl_format_tag_undef;
    if (block == 8 || block == 16)
        tag = tags[space][block == 16];
    else if (block == t->dims[1])
        tag = last[space];
    if (tag == dnnl_format_tag_undef ||
        dnnl_memory_desc_init_by_tag(&md, t->ndim, t->dims, type_of(t->dtype),
                                     tag) != dnnl_success)
        md = (dnnl_memory_desc_t){0};
    return md;
}

int64_t tt__dnnl_channel_block(void)
{
    const int wide = (int)dnnl_cpu_isa_avx512_core;
    return (effective_isa() & wide) == wide ? 16 : 8;
}

tt_status tt__dnnl_layout_of_blocks(tt__dnnl *dnnl, const tt__dnnl_tensor *t,
                                    int64_t block, int32_t *layout_out)
{
    *layout_out = 0;
    if (block == 1)
        return TT_OK;
    const dnnl_memory_desc_t md = blocked(t, block);
    return tt__dnnl_intern(dnnl, &md, layout_out);
}

int64_t tt__dnnl_layout_channel_block(const tt__dnnl *dnnl, int32_t layout)
{
    if (layout == 0)
        return 1;
    const dnnl_memory_desc_t *md = &dnnl->layout[layout - 1];
    tt__dnnl_tensor t = {.ndim = md->ndims};
    for (int dtype = 0; dtype < TT_N_DTYPES; dtype++)
        if (type_of((tt_dtype)dtype) == md->data_type)
            t.dtype = (tt_dtype)dtype;
    for (int d = 0; d < md->ndims; d++)
        t.dims[d] = md->dims[d];
    const int64_t blocks[] = {16, 8, t.dims[1]};
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t same = blocked(&t, blocks[i]);
        if (same.ndims != 0 && dnnl_memory_desc_equal(&same, md) != 0)
            return blocks[i];
    }
    return 0;
}

// ---- primitives ----

static tt_status make_memory(tt__prim *prim, int arg,
                             const dnnl_memory_desc_t *md)
{
    dnnl_memory_t memory = NULL;
    TT_TRY(tt__dnnl_fail(
        dnnl_memory_create(&memory, md, prim->dnnl->engine, DNNL_MEMORY_NONE),
        "a tensor"));
    prim->arg[prim->n_args++] = (dnnl_exec_arg_t){arg, memory};
    return TT_OK;
}

static bool is_output(int arg)
{
    return arg == DNNL_ARG_DST || arg == DNNL_ARG_DIFF_SRC ||
           arg == DNNL_ARG_DIFF_WEIGHTS;
}

// A bf16 tensor that the library sees as floats in the format `md`. The caller's
// elements are in the same order.
static void bind_wide(tt__prim *prim, int i, const tt__dnnl_tensor *t,
                      dnnl_memory_desc_t *md)
{
    tt__dnnl_tensor floats;
    prim->wide[i] = t->layout == 0
                        ? tt__wide_strided(t, &floats)
                        : tt__wide_flat((int64_t)dnnl_memory_desc_get_size(md) /
                                        tt_dtype_bytes(TT_F32));
    md->data_type = dnnl_bf16;
}

static tt_status bind_slots(tt__prim *prim, const_dnnl_primitive_desc_t pd,
                            const tt__slots *slots)
{
    const tt__slot *slot = slots->slot;
    for (int i = 0; i < prim->n_slots; i++) {
        prim->arg_of[i] = -1;
        if (slot[i].arg == 0)
            continue;
        const dnnl_memory_desc_t *md =
            dnnl_primitive_desc_query_md(pd, slot[i].query, slot[i].index);
        if (md == NULL)
            return tt_fail(TT_ERR_STATE, "oneDNN: a tensor has no format");
        if (md->ndims == 0)
            continue;
        const tt__dnnl_tensor *t = slots->tensor[i];
        dnnl_memory_desc_t outside = *md;
        if (t != NULL && tt__is_widened(t->dtype))
            bind_wide(prim, i, t, &outside);
        TT_TRY(tt__dnnl_intern(prim->dnnl, &outside, &prim->layout[i]));
        prim->is_written[i] = is_output(slot[i].arg);
        prim->arg_of[i] = prim->n_args;
        TT_TRY(make_memory(prim, slot[i].arg, md));
    }
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    prim->own_scratch = (int64_t)dnnl_memory_desc_get_size(scratch);
    prim->scratch_bytes = (prim->own_scratch + 63) / 64 * 64;
    for (int i = 0; i < prim->n_slots; i++)
        prim->scratch_bytes += tt__wide_bytes(&prim->wide[i]);
    return make_memory(prim, DNNL_ARG_SCRATCHPAD, scratch);
}

tt_status tt__prim_make(tt__dnnl *dnnl, const_dnnl_primitive_desc_t pd,
                        const tt__slots *slots, tt__prim **prim_out)
{
    tt__prim *prim = tt_alloc(sizeof(*prim));
    if (prim == NULL)
        return tt_fail(TT_ERR_NOMEM, "oneDNN: no memory for a primitive");
    prim->dnnl = dnnl;
    prim->n_slots = slots->n;
    tt_status status = tt__dnnl_fail(
        dnnl_primitive_create(&prim->primitive, pd), "a primitive");
    if (status == TT_OK)
        status = tt__dnnl_fail(
            dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0,
                                      (void *)&prim->name),
            "a primitive's name");
    if (status == TT_OK)
        status = bind_slots(prim, pd, slots);
    if (status != TT_OK) {
        tt__prim_destroy(prim);
        return status;
    }
    *prim_out = prim;
    return TT_OK;
}

void tt__prim_destroy(tt__prim *prim)
{
    if (prim == NULL)
        return;
    for (int i = 0; i < prim->n_args; i++)
        (void)dnnl_memory_destroy(prim->arg[i].memory);
    if (prim->primitive != NULL)
        (void)dnnl_primitive_destroy(prim->primitive);
    tt_free(prim);
}

int32_t tt__prim_layout(const tt__prim *prim, int slot)
{
    return prim->layout[slot];
}

bool tt__prim_is_serial(const tt__prim *prim)
{
    return prim->is_serial;
}

int64_t tt__prim_scratch_bytes(const tt__prim *prim)
{
    return prim->scratch_bytes;
}

const char *tt__prim_name(const tt__prim *prim)
{
    return prim->name;
}

bool tt__prim_is_slow(const tt__prim *prim)
{
    return strncmp(prim->name, "ref", 3) == 0 ||
           strncmp(prim->name, "simple:any", 10) == 0;
}

// The library wants writable addresses of inputs too; it only reads them.
static void *writable(const void *data)
{
    union {
        const void *in;
        void *out;
    } at = {.in = data};
    return at.out;
}

// The addresses that the library gets. For a widened slot that is its floats, which lie
// after the library's own scratch.
static void place(const tt__prim *prim, const void *const *data, char *scratch,
                  void *at[TT__MAX_SLOTS])
{
    char *floats = scratch + (prim->own_scratch + 63) / 64 * 64;
    for (int i = 0; i < prim->n_slots; i++) {
        at[i] = writable(data[i]);
        if (prim->wide[i].count > 0 && prim->arg_of[i] >= 0) {
            at[i] = floats;
            floats += tt__wide_bytes(&prim->wide[i]);
        }
    }
}

// Converts the widened slots: inputs to floats before a run, results to bf16 after it.
static void convert(const tt__prim *prim, const void *const *data,
                    void *const at[TT__MAX_SLOTS], bool rounds)
{
    for (int i = 0; i < prim->n_slots; i++) {
        if (prim->wide[i].count == 0 || prim->arg_of[i] < 0)
            continue;
        if (rounds && prim->is_written[i])
            tt__wide_write(&prim->wide[i], at[i], writable(data[i]));
        else if (!rounds && (prim->adds || !prim->is_written[i]))
            tt__wide_read(&prim->wide[i], data[i], at[i]);
    }
}

tt_status tt__prim_run(tt__prim *prim, const void *const *data, void *scratch)
{
    void *at[TT__MAX_SLOTS] = {0};
    dnnl_status_t status = dnnl_success;
    if (!prim->is_serial && omp_get_max_threads() != prim->dnnl->n_threads)
        omp_set_num_threads(prim->dnnl->n_threads);
    place(prim, data, scratch, at);
    convert(prim, data, at, false);
    for (int i = 0; i < prim->n_slots && status == dnnl_success; i++)
        if (prim->arg_of[i] >= 0)
            status = dnnl_memory_set_data_handle(
                prim->arg[prim->arg_of[i]].memory, at[i]);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(prim->arg[prim->n_args - 1].memory,
                                             scratch);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(prim->primitive, prim->dnnl->stream,
                                        prim->n_args, prim->arg);
    if (status == dnnl_success)
        convert(prim, data, at, true);
    return tt__dnnl_fail(status, prim->name);
}
