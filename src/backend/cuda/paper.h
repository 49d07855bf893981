// paper - a GPU that is not here. It fills in the plug-in's table (api.h) with
// functions that answer what planning asks (which kernels there are, how much scratch
// memory they want) and do nothing. So a plan for a GPU can be made and read on a
// laptop.

#ifndef TT_BACKEND_CUDA_PAPER_H
#define TT_BACKEND_CUDA_PAPER_H

#include "backend/cuda/api/api.h"

// Scratch memory is estimated as on a GPU with compute capability 9.0: what the
// libraries of a real one ask for is at most a little more or less.
extern const tt_cuda_api tt__cuda_paper;

#endif
