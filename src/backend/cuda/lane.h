// lane - see backend/lane.h.

#ifndef TT_BACKEND_CUDA_LANE_H
#define TT_BACKEND_CUDA_LANE_H

#include "backend/lane.h"

extern const tt_lane_def tt__cuda_lane;

#endif
