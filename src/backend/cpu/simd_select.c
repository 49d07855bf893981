// simd_select - the table of vectorised kernels for this process's instruction set.

#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"

#include <stdatomic.h>
#include <stddef.h>

extern const tt_simd tt_simd_table_base;

#ifdef TT_ISA_BASE_ONLY

static const tt_simd *const all[TT_N_ISAS] = {
    [TT_ISA_BASE] = &tt_simd_table_base,
};

#else

extern const tt_simd tt_simd_table_v3;
extern const tt_simd tt_simd_table_v4;
extern const tt_simd tt_simd_table_v4b;

static const tt_simd *const all[TT_N_ISAS] = {
    [TT_ISA_BASE] = &tt_simd_table_base,
    [TT_ISA_V3] = &tt_simd_table_v3,
    [TT_ISA_V4] = &tt_simd_table_v4,
    [TT_ISA_V4B] = &tt_simd_table_v4b,
};

#endif

const tt_simd *tt_simd_at(int i)
{
    const int level = (int)tt_isa_used() - i;
    return level >= TT_ISA_BASE ? all[level] : NULL;
}

// Asked before every kernel: the level is looked up once.
const tt_simd *tt_simd_get(void)
{
    static _Atomic(const tt_simd *) chosen;
    const tt_simd *simd = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (simd == NULL) {
        simd = tt_simd_at(0);
        atomic_store_explicit(&chosen, simd, memory_order_relaxed);
    }
    return simd;
}
