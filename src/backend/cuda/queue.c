// queue - the plug-in's second stream, as a wire uses it.

#include "backend/cuda/queue.h"

#include "backend/cuda/cuda.h"

static tt_status events(tt_backend *backend, int64_t n)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->wire.queue_events(d->cuda, n));
}

static tt_status pin(tt_backend *backend, void *host, int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->wire.queue_pin(d->cuda, host, bytes));
}

static tt_status note(tt_backend *backend, tt_queue queue, int64_t event)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->wire.queue_note(d->cuda, (int)queue, event));
}

static tt_status follow(tt_backend *backend, tt_queue queue, int64_t event)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->wire.queue_follow(d->cuda, (int)queue, event));
}

static tt_status is_over(tt_backend *backend, int64_t event, bool *over_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->wire.queue_is_over(d->cuda, event, over_out));
}

static tt_status copy(tt_backend *backend, tt_queue queue, void *to,
                      const void *from, int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->wire.queue_copy(d->cuda, (int)queue, to, from, bytes));
}

static tt_status fill(tt_backend *backend, tt_queue queue, void *to, int byte,
                      int64_t bytes)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(
        d->api->wire.queue_fill(d->cuda, (int)queue, to, byte, bytes));
}

static tt_status move(tt_backend *backend, tt_queue queue, const tt_move *m)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    return tt__cuda_status(d->api->wire.queue_move(d->cuda, (int)queue, m));
}

const tt_queue_def tt__cuda_queue = {
    .events = events,
    .pin = pin,
    .note = note,
    .follow = follow,
    .is_over = is_over,
    .copy = copy,
    .fill = fill,
    .move = move,
};
