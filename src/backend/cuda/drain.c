// drain - the plug-in's drain, as the executor uses it.

#include "backend/cuda/drain.h"

#include "backend/cuda/cuda.h"

static tt_status pin(tt_backend *backend, void *host, int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->drain.pin(d->cuda, host, bytes));
}

static void unpin(tt_backend *backend, void *host)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    d->api->drain.unpin(d->cuda, host);
}

static tt_status begin(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->drain.begin(d->cuda));
}

static tt_status copy(tt_backend *backend, void *host, const void *from,
                      int64_t bytes, bool in_steps)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->drain.copy(d->cuda, host, from, bytes, in_steps));
}

static tt_status end(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->drain.end(d->cuda));
}

static tt_status hold(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->drain.hold(d->cuda));
}

static tt_status wait(tt_backend *backend)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->drain.wait(d->cuda));
}

const tt_drain_def tt__cuda_drain = {
    .pin = pin,
    .unpin = unpin,
    .begin = begin,
    .copy = copy,
    .end = end,
    .hold = hold,
    .wait = wait,
};
