// simd - the vectorised kernels of the CPU backend, as plain functions. They know no
// sites, plans or ranks, only arrays and sizes.
//
// The folder is compiled several times, once per instruction set (base, v3, v4, v4b).
// Each copy exports one table of function pointers, and isa.h says which is used. So
// one binary runs everywhere and is fast on each machine.
//
//   simd/norm.c  -DTT_ISA=v3  ->  tt_simd_norm_v3  +
//                -DTT_ISA=v4  ->  tt_simd_norm_v4  +> tt_simd_get()->norm->forward(...)
//
// What holds for all of them:
//   - activations are fp32 or bf16 (tt_simd_type), arithmetic and statistics fp32
//   - the same bits for any number of threads (not for any instruction set)
//   - no allocation: scratch comes from the caller, whose size a
//     ..._scratch_bytes function gives
//   - any size, also 0; NaN and infinity propagate
//   - small problems run on the calling thread, others on the OpenMP threads
//
// The tables are immutable and may be used from any thread.

#ifndef TT_BACKEND_CPU_SIMD_H
#define TT_BACKEND_CPU_SIMD_H

#include "backend/cpu/simd/activation.h"
#include "backend/cpu/simd/attention/attention.h"
#include "backend/cpu/simd/attention/merge.h"
#include "backend/cpu/simd/attention/score.h"
#include "backend/cpu/simd/channels.h"
#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/dropout.h"
#include "backend/cpu/simd/elementwise.h"
#include "backend/cpu/simd/embedding.h"
#include "backend/cpu/simd/experts.h"
#include "backend/cpu/simd/fold.h"
#include "backend/cpu/simd/loss.h"
#include "backend/cpu/simd/lstm/lstm.h"
#include "backend/cpu/simd/lstm/recurrence.h"
#include "backend/cpu/simd/matvec.h"
#include "backend/cpu/simd/norm.h"
#include "backend/cpu/simd/optimizer.h"
#include "backend/cpu/simd/permute.h"
#include "backend/cpu/simd/pointwise.h"
#include "backend/cpu/simd/reduce.h"
#include "backend/cpu/simd/rotary.h"

typedef struct tt_simd {
    const char *isa; // base (SSE2), v3 (AVX2), v4 (AVX-512), v4b (and bf16)
#define TT_SIMD(name) const tt_simd_##name *name;
#include "backend/cpu/simd/list.h"
#undef TT_SIMD
} tt_simd;

// The best table that this CPU has and isa.h allows.
const tt_simd *tt_simd_get(void);

// That and those below it, best first; for tests. Null past the last.
const tt_simd *tt_simd_at(int i);

#endif
