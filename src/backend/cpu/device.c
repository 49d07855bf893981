// device - the CPU backend: oneDNN for matrix products and convolutions, own
// vectorised kernels for the rest, ref for what is left (all of f64).

#include "backend/cpu/cpu.h"

bool tt__cpu_is_fast(tt_dtype dtype)
{
    return dtype == TT_F32 || dtype == TT_BF16;
}

void tt__operand_set_layout(tt_operand *o, int32_t layout)
{
    tt_operand_set_dense(o);
    o->layout = layout;
}

static bool has_dtype(tt_dtype dtype)
{
    return dtype != TT_F16 && dtype <= TT_U8;
}

// bf16 works everywhere. Without instructions for it, the numbers are widened to fp32
// and give the same results more slowly (dnnl_wide.h).
static bool has_fast(tt_dtype dtype)
{
    return dtype != TT_BF16 || tt__dnnl_has_bf16();
}

static int64_t layout_bytes(tt_backend *backend, int32_t layout)
{
    return tt__dnnl_layout_bytes(backend->device, layout);
}

static int32_t layout_part(tt_backend *backend, int32_t layout, int64_t entries)
{
    return tt__dnnl_layout_part(backend->device, layout, entries);
}

static uint64_t layout_hash(tt_backend *backend, int32_t layout)
{
    return tt__dnnl_layout_hash(backend->device, layout);
}

static tt_status open(tt_backend *backend)
{
    tt__dnnl *dnnl = NULL;
    TT_TRY(tt__dnnl_create(backend->options.n_threads, &dnnl));
    backend->device = dnnl;
    return TT_OK;
}

static void close(tt_backend *backend)
{
    tt__dnnl_destroy(backend->device);
}

const tt_backend_def tt_backend_cpu = {
    .name = "cpu",
    .doc = "Fast kernels for the CPU: oneDNN and own vectorised ones.",
    .kernels = tt_cpu_kernels,
    .has_dtype = has_dtype,
    .has_fast = has_fast,
    .layout_bytes = layout_bytes,
    .layout_part = layout_part,
    .layout_hash = layout_hash,
    .open = open,
    .close = close,
};
