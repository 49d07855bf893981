// cuda - what the files of this folder share: the plug-in, the device, the kernels.
//
// Files here describe sites to the plug-in (api.h) and see no header of CUDA; what
// runs on the device is in dev/ and is built by nvcc.

#ifndef TT_BACKEND_CUDA_CUDA_H
#define TT_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/choices.h"
#include "backend/cuda/api/api.h"
#include "backend/sites.h"

#define TT_KERNELS(file) extern const tt_kernel_def tt__cuda_##file##_kernels[];
#include "backend/cuda/list.h"
#undef TT_KERNELS

extern const tt_kernel_def *const tt_cuda_kernels[]; // see tt_backend_def

typedef struct tt__cuda_layouts tt__cuda_layouts; // see layout.h

typedef struct tt__cuda_device { // tt_backend.device
    void *plugin;
    const tt_cuda_api *api;
    tt_cuda *cuda;
    tt__cuda_layouts *layouts; // NULL: none yet
    tt_choices *choices;       // what the plug-in measured
} tt__cuda_device;

static inline const tt__cuda_device *tt__cuda_of(const tt_backend *backend)
{
    return backend->device;
}

// The plug-in, from beside the program, from ../lib or from where the system looks.
tt_status tt__cuda_load(tt__cuda_device *device_out);
void tt__cuda_unload(tt__cuda_device *device);

// A message of the plug-in as a status; NULL is TT_OK.
tt_status tt__cuda_status(const char *error);

// The state of a kernel: `bytes` of it, which begin with the device.
tt_status tt__cuda_state(const tt_backend *backend, int64_t bytes,
                         tt_prepared *prepared_out);

// The prepare of kernels whose state is the device alone.
tt_kernel_prepare_fn tt__cuda_prepare;
#define TT__CUDA_KERNEL(op) TT_KERNEL(cuda, op), .prepare = tt__cuda_prepare

// Floats of 16 bits.
static inline bool tt__is_low(tt_dtype type)
{
    return type == TT_BF16 || type == TT_F16;
}

static inline const tt__cuda_device *tt__cuda_at(void *state)
{
    return *(const tt__cuda_device **)state;
}

// Calls a launcher of the plug-in.
#define TT__CUDA(state, name, args)                                            \
    tt__cuda_status(                                                           \
        tt__cuda_at(state)->api->name(tt__cuda_at(state)->cuda, (args)))

#endif
