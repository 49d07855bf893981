// device_comm - see backend/device_comm.h.

#ifndef TT_BACKEND_CUDA_DEVICE_COMM_H
#define TT_BACKEND_CUDA_DEVICE_COMM_H

#include "backend/device_comm.h"

extern const tt_device_comm_def tt__cuda_device_comm;

#endif
