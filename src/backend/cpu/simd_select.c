// simd_select - which of the compiled instruction sets this CPU has.

#include "backend/cpu/simd.h"

#include <stdbool.h>
#include <stddef.h>

extern const tt_simd tt_simd_table_base;

#ifdef TT_ISA_BASE_ONLY

static bool always(void)
{
    return true;
}

static const struct {
    const tt_simd *table;
    bool (*can_run)(void);
} all[] = {{&tt_simd_table_base, always}};

#else

extern const tt_simd tt_simd_table_v3;
extern const tt_simd tt_simd_table_v4;
extern const tt_simd tt_simd_table_v4b;

static bool always(void)
{
    return true;
}

// The levels of the x86-64 psABI, by the extensions that compilers use at each.
static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_v4b(void)
{
    return has_v4() && __builtin_cpu_supports("avx512bf16");
}

static const struct {
    const tt_simd *table;
    bool (*can_run)(void);
} all[] = {
    {&tt_simd_table_v4b, has_v4b},
    {&tt_simd_table_v4, has_v4},
    {&tt_simd_table_v3, has_v3},
    {&tt_simd_table_base, always},
};

#endif

enum { N_TABLES = sizeof(all) / sizeof(all[0]) };

const tt_simd *tt_simd_at(int i)
{
    for (int k = 0; k < N_TABLES; k++)
        if (all[k].can_run() && i-- == 0)
            return all[k].table;
    return NULL;
}

const tt_simd *tt_simd_get(void)
{
    return tt_simd_at(0);
}
