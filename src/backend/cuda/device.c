// device - the CUDA backend as the rest of the program sees it: memory, kernels,
// queues.
//
// This side knows no CUDA. It describes sites to the plug-in (api/api.h), which has
// kernels of our own, cuBLASLt for GEMMs, and cuDNN for convolutions and attention.
// Sites that no kernel takes are done by the reference, on copies in the host's memory.
//
// All work of a device is queued in one stream, so kernels need no synchronisation
// between them, and the host waits only where it reads.

#include "backend/cuda/cuda.h"
#include "backend/cuda/device_comm.h"
#include "backend/cuda/drain.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/layout.h"
#include "backend/cuda/paper.h"
#include "backend/cuda/queue.h"
#include "backend/peak.h"
#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

tt_status tt__cuda_status(const char *error)
{
    return error == NULL ? TT_OK
                         : tt_fail(TT_ERR_IO, "the GPU failed: %s", error);
}

tt_status tt__cuda_state(const tt_backend *backend, int64_t bytes,
                         tt_prepared *prepared_out)
{
    const tt__cuda_device **state = tt_alloc(bytes);
    if (state == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a kernel");
    *state = tt__cuda_of(backend);
    prepared_out->state = state;
    return TT_OK;
}

tt_status tt__cuda_prepare(tt_backend *backend, tt_site *site,
                           tt_prepared *prepared_out)
{
    (void)site;
    return tt__cuda_state(backend, sizeof(tt__cuda_device *), prepared_out);
}

// ---- memory --------------------------------------------------------------

static tt_status memory_alloc(tt_backend *backend, int64_t bytes,
                              void **block_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    const char *error = d->api->alloc(d->cuda, bytes, block_out);
    if (error != NULL)
        return tt_fail(TT_ERR_NOMEM, "the GPU has no memory for %lld bytes: %s",
                       (long long)bytes, error);
    return TT_OK;
}

static void memory_free(tt_backend *backend, void *block)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    d->api->free(d->cuda, block);
}

static tt_status memory_fill(tt_backend *backend, void *to, int byte,
                             int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->fill(d->cuda, to, byte, bytes));
}

static tt_status memory_write(tt_backend *backend, void *to, const void *host,
                              int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->write(d->cuda, to, host, bytes));
}

static tt_status memory_read(tt_backend *backend, void *host, const void *from,
                             int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->read(d->cuda, host, from, bytes));
}

static tt_status memory_wait(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->wait(d->cuda));
}

static tt_status memory_copy(tt_backend *backend, void *to, const void *from,
                             int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->wire.queue_copy(d->cuda, false, to, from, bytes));
}

static tt_status memory_mark(tt_backend *backend, int64_t number)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->mark(d->cuda, number));
}

static tt_status memory_between(tt_backend *backend, int64_t from, int64_t to,
                                double *seconds_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->between(d->cuda, from, to, seconds_out));
}

static tt_status memory_record(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->record(d->cuda));
}

static tt_status memory_recorded(tt_backend *backend, bool keep,
                                 void **recording_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    tt_cuda_recording *recording = NULL;
    const char *error = d->api->recorded(d->cuda, keep, &recording);
    *recording_out = recording;
    return tt__cuda_status(error);
}

static tt_status memory_replay(tt_backend *backend, void *recording)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->replay(d->cuda, recording));
}

static void memory_forget(tt_backend *backend, void *recording)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    d->api->forget(d->cuda, recording);
}

static tt_status host_alloc(tt_backend *backend, int64_t bytes,
                            void **block_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    const char *error = d->api->beside.host_alloc(d->cuda, bytes, block_out);
    if (error != NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "the host has no memory for %lld bytes beside the "
                       "GPU's: %s",
                       (long long)bytes, error);
    return TT_OK;
}

static void host_free(tt_backend *backend, void *block)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    d->api->beside.host_free(d->cuda, block);
}

static const tt_memory_def memory = {
    .alloc = memory_alloc,
    .free = memory_free,
    .fill = memory_fill,
    .write = memory_write,
    .read = memory_read,
    .wait = memory_wait,
    .copy = memory_copy,
    .mark = memory_mark,
    .between = memory_between,
    .record = memory_record,
    .recorded = memory_recorded,
    .replay = memory_replay,
    .forget = memory_forget,
    .host_alloc = host_alloc,
    .host_free = host_free,
};

// ---- device --------------------------------------------------------------

static const char *find_choice(void *ctx, const char *key)
{
    return tt_choices_find(ctx, key);
}

static void keep_choice(void *ctx, const char *key, const char *value)
{
    tt_choices_keep(ctx, key, value);
}

static tt_status choose(const tt__cuda_device *d,
                        const tt_backend_options *options, int *number_out)
{
    const int n = d->api->devices();
    if (n > 0 && options->number >= n && !options->may_be_absent)
        return tt_fail(TT_ERR_ARG,
                       "device=cuda:%d: there %s %d GPU%s here, from cuda:0 on",
                       options->number, n == 1 ? "is" : "are", n,
                       n == 1 ? "" : "s");
    *number_out = options->number >= 0 ? options->number
                  : n > 0              ? options->local % n
                                       : 0;
    return TT_OK;
}

static int64_t free_bytes(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    tt_cuda_info info = {0};
    return d->api->info(d->cuda, &info) == NULL ? info.free_bytes : 0;
}

// Loads the plug-in where there is a GPU for it. Else, to plan only, takes the paper
// one.
static tt_status load(tt__cuda_device *d, tt_backend *backend)
{
    const tt_status status = tt__cuda_load(d);
    if (!backend->options.may_be_absent ||
        (status == TT_OK && d->api->devices() > 0))
        return status;
    d->api = &tt__cuda_paper;
    backend->is_absent = true;
    return TT_OK;
}

static tt_status open_device(tt__cuda_device *d, tt_backend *backend)
{
    tt_cuda_info info = {0};
    TT_TRY(load(d, backend));
    TT_TRY(tt_choices_open(backend->options.cache, "cuda", &d->choices));
    const tt_cuda_memo memo = {d->choices, find_choice, keep_choice};
    int number = 0;
    TT_TRY(choose(d, &backend->options, &number));
    const char *error = d->api->open(number, &memo, &d->cuda);
    if (error == NULL)
        error = d->api->info(d->cuda, &info);
    if (error != NULL)
        return tt_fail(TT_ERR_UNSUPPORTED, "no GPU can be used: %s", error);
    memcpy(backend->id, info.id, sizeof backend->id);
    snprintf(backend->name, sizeof backend->name, "%s", info.name);
    backend->target.memory_bytes = info.free_bytes;
    backend->target.peak_flops = tt_peak_flops(info.name);
    if (backend->target.peak_flops <= 0)
        backend->target.peak_flops = info.peak_flops;
    return TT_OK;
}

static void close_device(tt__cuda_device *d)
{
    if (d->cuda != NULL)
        d->api->close(d->cuda);
    tt__cuda_layouts_free(d->layouts);
    tt_choices_close(d->choices);
    tt__cuda_unload(d);
    tt_free(d);
}

static tt_status open(tt_backend *backend)
{
    tt__cuda_device *d = tt_alloc(sizeof(*d));
    if (d == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a device");
    const tt_status status = open_device(d, backend);
    if (status != TT_OK) {
        close_device(d);
        return status;
    }
    backend->device = d;
    return TT_OK;
}

static void close(tt_backend *backend)
{
    close_device(backend->device);
}

static int count(void)
{
    tt__cuda_device d;
    if (tt__cuda_load(&d) != TT_OK)
        return 0;
    const int n = d.api->devices();
    tt__cuda_unload(&d);
    return n;
}

static bool is_here(void)
{
    return count() > 0;
}

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

const tt_backend_def tt_backend_cuda = {
    .name = "cuda",
    .doc = "NVIDIA GPUs: cuBLASLt, cuDNN and own kernels.",
    .kernels = tt_cuda_kernels,
    .memory = &memory,
    .queue = &tt__cuda_queue,
    .device_comm = &tt__cuda_device_comm,
    .lane = &tt__cuda_lane,
    .drain = &tt__cuda_drain,
    .is_here = is_here,
    .count = count,
    .has_dtype = has_dtype,
    .layout_bytes = tt__cuda_layout_bytes,
    .free_bytes = free_bytes,
    .open = open,
    .close = close,
};
