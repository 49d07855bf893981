// offload, reload - copies between the device and the host's memory, in streams of
// their own beside the steps. Bound by the link: 50 GB/s each way, both at a time.

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "ops/ops.h"

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_beside *beside;
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->beside != NULL)
        s->device->api->beside.destroy(s->beside);
    tt_free(s);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const bool is_in = site->op == &tt_op_reload;
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    const tt_status status = tt__cuda_status(
        s->device->api->beside.create(s->device->cuda, is_in, &s->beside));
    if (status != TT_OK) {
        release(s);
        prepared_out->state = NULL;
    }
    return status;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const tt_operand *x = &site->in[0];
    return tt__cuda_status(s->device->api->beside.begin(
        s->device->cuda, s->beside, args->out[0], args->in[0],
        tt_operand_count(x) * tt_dtype_bytes(x->dtype)));
}

static tt_status finish(void *kernel_state, const tt_site *site,
                        const tt_args *args)
{
    const state *s = kernel_state;
    (void)site;
    (void)args;
    return tt__cuda_status(
        s->device->api->beside.finish(s->device->cuda, s->beside));
}

const tt_kernel_def tt__cuda_offload_kernels[] = {
    {TT_KERNEL(cuda, offload), .prepare = prepare, .run = run, .finish = finish,
     .release = release},
    {TT_KERNEL(cuda, reload), .prepare = prepare, .run = run, .finish = finish,
     .release = release},
    {0},
};
