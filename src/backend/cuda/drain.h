// drain - see backend/drain.h.

#ifndef TT_BACKEND_CUDA_DRAIN_H
#define TT_BACKEND_CUDA_DRAIN_H

#include "backend/drain.h"

extern const tt_drain_def tt__cuda_drain;

#endif
