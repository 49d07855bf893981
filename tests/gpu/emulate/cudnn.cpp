// cudnn - the emulated device has no cuDNN: other kernels do attention and convolution.

#include "backend/cuda/dev/dnn_conv.cuh"

size_t tt_dnn_version(void)
{
    return 0;
}

tt_dnn_menu *tt_dnn_look(tt_cuda *, const tt_cuda_conv_desc *, int)
{
    return NULL;
}

int tt_dnn_size(const tt_dnn_menu *)
{
    return 0;
}

tt_dnn_plan *tt_dnn_take(tt_dnn_menu *, int, int *)
{
    return NULL;
}

void tt_dnn_close(tt_dnn_menu *)
{
}

void tt_dnn_destroy(tt_dnn_plan *)
{
}

bool tt_dnn_is_whole(const tt_dnn_plan *)
{
    return false;
}

int64_t tt_dnn_bytes(const tt_dnn_plan *)
{
    return 0;
}

const char *tt_dnn_run(tt_dnn_plan *, const tt_cuda_conv_args *)
{
    return tt_cuda_failed_text("there is no cuDNN");
}

extern "C" const char *tt_cuda_sdpa_create(tt_cuda *,
                                           const tt_cuda_attention_args *, bool,
                                           tt_cuda_sdpa **sdpa_out)
{
    *sdpa_out = NULL;
    return NULL;
}

extern "C" void tt_cuda_sdpa_destroy(tt_cuda_sdpa *)
{
}

extern "C" int64_t tt_cuda_sdpa_scratch(const tt_cuda_sdpa *)
{
    return 0;
}

extern "C" const char *tt_cuda_sdpa_run(tt_cuda_sdpa *,
                                        const tt_cuda_attention_args *)
{
    return tt_cuda_failed_text("there is no cuDNN");
}
