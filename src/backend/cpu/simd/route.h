// route - the router's part of the experts' table. Internal.

#ifndef TT_BACKEND_CPU_SIMD_ROUTE_H
#define TT_BACKEND_CPU_SIMD_ROUTE_H

#include "backend/cpu/simd/experts.h"
#include "backend/cpu/simd/isa.h"

void TT_SYMBOL(tt__experts_route)(const tt_simd_route_args *args);
void TT_SYMBOL(tt__route_grad)(const tt_simd_route_args *args);
int64_t TT_SYMBOL(tt__route_scratch_bytes)(int64_t experts);

#endif
