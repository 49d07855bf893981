// lane - the plug-in's lanes, as the executor uses them.

#include "backend/cuda/lane.h"

#include "backend/cuda/cuda.h"

static tt_status open(tt_backend *backend, int64_t bytes, void **lane_out)
{
    const tt__cuda_device *d = tt__cuda_of(backend);
    tt_cuda_lane *lane = NULL;
    const char *error = d->api->lane_open(d->cuda, bytes, &lane);
    *lane_out = lane;
    return tt__cuda_status(error);
}

static void close(tt_backend *backend, void *lane)
{
    tt__cuda_of(backend)->api->lane_close(lane);
}

static tt_status room(tt_backend *backend, void *lane, void **host_out)
{
    return tt__cuda_status(
        tt__cuda_of(backend)->api->lane_room(lane, host_out));
}

static tt_status send(tt_backend *backend, void *lane, int64_t bytes)
{
    return tt__cuda_status(tt__cuda_of(backend)->api->lane_send(lane, bytes));
}

static tt_status take(tt_backend *backend, void *lane, void *to, int64_t bytes)
{
    return tt__cuda_status(
        tt__cuda_of(backend)->api->lane_take(lane, to, bytes));
}

const tt_lane_def tt__cuda_lane = {
    .open = open,
    .close = close,
    .room = room,
    .send = send,
    .take = take,
};
