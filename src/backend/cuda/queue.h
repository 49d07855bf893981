// queue - see backend/queue.h.

#ifndef TT_BACKEND_CUDA_QUEUE_H
#define TT_BACKEND_CUDA_QUEUE_H

#include "backend/queue.h"

extern const tt_queue_def tt__cuda_queue;

#endif
