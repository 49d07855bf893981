// memory - a backend's memory, which is the host's unless the def says otherwise.
// Callers need not know which: the same calls allocate, fill and copy in both.

#include "backend/backend.h"
#include "base/alloc.h"

#include <string.h>

enum { PAGE = 4096 };

tt_status tt_memory_alloc(tt_backend *backend, int64_t bytes, void **block_out)
{
    if (backend->def->memory != NULL)
        return backend->def->memory->alloc(backend, bytes, block_out);
    void *block = tt_alloc_aligned(bytes, PAGE);
    if (block == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes",
                       (long long)bytes);
    *block_out = block;
    return TT_OK;
}

void tt_memory_free(tt_backend *backend, void *block)
{
    if (backend->def->memory != NULL)
        backend->def->memory->free(backend, block);
    else
        tt_free_aligned(block);
}

tt_status tt_memory_host_alloc(tt_backend *backend, int64_t bytes,
                               void **block_out)
{
    const tt_memory_def *memory = backend->def->memory;
    if (memory != NULL && memory->host_alloc != NULL)
        return memory->host_alloc(backend, bytes, block_out);
    *block_out = tt_alloc_aligned(bytes, PAGE);
    return *block_out != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes",
                         (long long)bytes);
}

void tt_memory_host_free(tt_backend *backend, void *block)
{
    const tt_memory_def *memory = backend->def->memory;
    if (memory != NULL && memory->host_alloc != NULL)
        memory->host_free(backend, block);
    else
        tt_free_aligned(block);
}

tt_status tt_memory_fill(tt_backend *backend, void *to, int byte, int64_t bytes)
{
    if (backend->def->memory != NULL)
        return backend->def->memory->fill(backend, to, byte, bytes);
    memset(to, byte, (size_t)bytes);
    return TT_OK;
}

// Large copies use all threads. One thread alone cannot use the memory's bandwidth, and
// fresh pages are faulted in faster by many.
static void copy_bytes(void *to, const void *from, int64_t n)
{
    enum { PIECE = 1 << 20, LARGE = 4 * PIECE };
#pragma omp parallel for schedule(static) if (n >= LARGE)
    for (int64_t i = 0; i < n; i += PIECE)
        memcpy((char *)to + i, (const char *)from + i,
               (size_t)(n - i < PIECE ? n - i : PIECE));
}

tt_status tt_memory_write(tt_backend *backend, void *to, const void *host,
                          int64_t bytes)
{
    if (backend->def->memory != NULL)
        return backend->def->memory->write(backend, to, host, bytes);
    copy_bytes(to, host, bytes);
    return TT_OK;
}

tt_status tt_memory_read(tt_backend *backend, void *host, const void *from,
                         int64_t bytes)
{
    if (backend->def->memory != NULL)
        return backend->def->memory->read(backend, host, from, bytes);
    copy_bytes(host, from, bytes);
    return TT_OK;
}

static tt_status copy_by_host(tt_backend *backend, void *to, const void *from,
                              int64_t bytes)
{
    void *host = tt_alloc(bytes + 1);
    if (host == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a copy of %lld bytes",
                       (long long)bytes);
    tt_status status = tt_memory_read(backend, host, from, bytes);
    if (status == TT_OK)
        status = tt_memory_write(backend, to, host, bytes);
    tt_free(host);
    return status;
}

tt_status tt_memory_copy(tt_backend *backend, void *to, const void *from,
                         int64_t bytes)
{
    const tt_memory_def *memory = backend->def->memory;
    if (memory != NULL && memory->copy == NULL)
        return copy_by_host(backend, to, from, bytes);
    if (memory != NULL)
        return memory->copy(backend, to, from, bytes);
    copy_bytes(to, from, bytes);
    return TT_OK;
}

tt_status tt_memory_wait(tt_backend *backend)
{
    return backend->def->memory == NULL ? TT_OK
                                        : backend->def->memory->wait(backend);
}
