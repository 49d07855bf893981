// backend - opening a device and answering lowering's questions about it.

#include "backend/backend.h"

#include "backend/choose.h"
#include "backend/machine.h"
#include "backend/ref/table.h"
#include "base/alloc.h"

static int64_t layout_bytes(tt_target *target, int32_t layout)
{
    tt_backend *backend = (tt_backend *)target;
    return backend->def->layout_bytes == NULL
               ? 0
               : backend->def->layout_bytes(backend, layout);
}

static int32_t layout_part(tt_target *target, int32_t layout, int64_t entries)
{
    tt_backend *backend = (tt_backend *)target;
    return backend->def->layout_part == NULL
               ? 0
               : backend->def->layout_part(backend, layout, entries);
}

static uint64_t layout_hash(tt_target *target, int32_t layout)
{
    tt_backend *backend = (tt_backend *)target;
    return backend->def->layout_hash == NULL
               ? (uint64_t)layout
               : backend->def->layout_hash(backend, layout);
}

static bool has_dtype(tt_target *target, tt_dtype dtype)
{
    return ((tt_backend *)target)->def->has_dtype(dtype);
}

static bool wants(tt_target *target, const tt_op_def *op)
{
    const tt_kernel_def *const *own = ((tt_backend *)target)->def->kernels;
    for (; own != tt_ref_kernels && *own != NULL; own++)
        for (const tt_kernel_def *def = *own; def->name != NULL; def++)
            if (def->op == op)
                return true;
    return false;
}

static void release(tt_target *target, void *kernel)
{
    (void)target;
    tt_kernel_free(kernel);
}

tt_status tt_backend_open(const tt_backend_def *def,
                          const tt_backend_options *options,
                          tt_backend **backend_out)
{
    tt_backend *backend = tt_alloc(sizeof(*backend));
    if (backend == NULL)
        return tt_fail(TT_ERR_NOMEM, "backend %s: no memory", def->name);
    backend->def = def;
    if (options != NULL)
        backend->options = *options;
    if (backend->options.n_threads <= 0)
        backend->options.n_threads = tt_machine_cores();
    backend->target = (tt_target){.name = def->name,
                                  .memory_bytes = tt_machine_memory(),
                                  .choose = tt__backend_choose,
                                  .release = release,
                                  .layout_bytes = layout_bytes,
                                  .layout_part = layout_part,
                                  .layout_hash = layout_hash,
                                  .has_dtype = has_dtype,
                                  .wants = wants};
    if (def->open != NULL) {
        const tt_status status = def->open(backend);
        if (status != TT_OK) {
            tt_free(backend);
            return status;
        }
    }
    *backend_out = backend;
    return TT_OK;
}

void tt_backend_close(tt_backend *backend)
{
    if (backend == NULL)
        return;
    if (backend->def->close != NULL)
        backend->def->close(backend);
    tt_free(backend);
}
