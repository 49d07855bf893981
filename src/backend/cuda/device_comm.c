// device_comm - NCCL, by way of the plug-in.

#include "backend/cuda/device_comm.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"

struct tt_device_comm {
    const tt__cuda_device *device;
    tt_cuda_nccl *nccl;
};

static tt_status status_of(const char *error)
{
    return error == NULL ? TT_OK : tt_fail(TT_ERR_IO, "NCCL: %s", error);
}

static tt_status version(tt_backend *backend, int *version_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    const char *error = d->api->wire.nccl_version(version_out);
    return error == NULL ? TT_OK : tt_fail(TT_ERR_UNSUPPORTED, "%s", error);
}

static tt_status make_id(tt_backend *backend,
                         unsigned char id[TT_DEVICE_COMM_ID])
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return status_of(d->api->wire.nccl_make_id(d->cuda, id));
}

static tt_status open(tt_backend *backend,
                      const unsigned char id[TT_DEVICE_COMM_ID], int32_t n,
                      int32_t me, bool is_apart, tt_device_comm **links_out)
{
    tt_device_comm *links = tt_alloc(sizeof *links);
    if (links == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for links");
    links->device = tt__cuda_of(backend);
    const tt_status status = status_of(links->device->api->wire.nccl_open(
        links->device->cuda, id, n, me, is_apart, &links->nccl));
    if (status != TT_OK) {
        tt_free(links);
        return status;
    }
    *links_out = links;
    return TT_OK;
}

static tt_status is_busy(tt_device_comm *links, bool *busy_out)
{
    return status_of(
        links->device->api->wire.nccl_is_busy(links->nccl, busy_out));
}

static tt_status run(tt_device_comm *links, const tt_device_coll *call, int n)
{
    return status_of(links->device->api->wire.nccl_run(links->nccl, call, n));
}

static tt_status note(tt_device_comm *links, int64_t event)
{
    return status_of(links->device->api->wire.nccl_note(links->nccl, event));
}

static void close(tt_device_comm *links, bool is_broken)
{
    if (links == NULL)
        return;
    links->device->api->wire.nccl_close(links->nccl, is_broken);
    tt_free(links);
}

const tt_device_comm_def tt__cuda_device_comm = {
    .name = "nccl",
    .doc =
        "GPUs, one per rank, without their hosts; other transports start it.",
    .version = version,
    .make_id = make_id,
    .open = open,
    .is_busy = is_busy,
    .run = run,
    .note = note,
    .close = close,
};
