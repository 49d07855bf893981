// isa - see the header. A lock guards the level, because any thread may be the first
// that chooses a kernel.

#include "backend/cpu/isa.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

const char *const tt_isa_name[TT_N_ISAS] = {"auto", "base", "v3", "v4", "v4b"};
const char *const tt_isa_doc[TT_N_ISAS] = {"", "the plainest", "AVX2",
                                           "AVX-512", "AVX-512 with bf16"};

int tt_isa_find(const char *name)
{
    for (int i = 0; i < TT_N_ISAS; i++)
        if (strcmp(tt_isa_name[i], name) == 0)
            return i;
    return -1;
}

#ifdef TT_ISA_BASE_ONLY

tt_isa tt_isa_here(void)
{
    return TT_ISA_BASE;
}

const char *tt_isa_word(void)
{
#    ifdef __aarch64__
    return "aarch64";
#    else
    return "other";
#    endif
}

#else

// The levels of the x86-64 psABI, by the extensions that compilers use at each.
static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}

static bool has_v4(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

tt_isa tt_isa_here(void)
{
    if (!has_v3())
        return TT_ISA_BASE;
    if (!has_v4())
        return TT_ISA_V3;
    return __builtin_cpu_supports("avx512bf16") ? TT_ISA_V4B : TT_ISA_V4;
}

const char *tt_isa_word(void)
{
    return tt_isa_name[tt_isa_used()];
}

#endif

static struct {
    pthread_mutex_t lock;
    tt_isa limit, used; // AUTO: none, not fixed yet
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

tt_status tt_isa_limit(tt_isa most)
{
    tt_isa used = TT_ISA_AUTO;
    if (most == TT_ISA_AUTO)
        return TT_OK;
    pthread_mutex_lock(&state.lock);
    if (state.used > most)
        used = state.used;
    else if (state.limit == TT_ISA_AUTO || most < state.limit)
        state.limit = most;
    pthread_mutex_unlock(&state.lock);
    return used == TT_ISA_AUTO
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "isa=%s: this process computes with %s already, and "
                         "that stays; set it before anything is computed",
                         tt_isa_name[most], tt_isa_name[used]);
}

// With the lock held.
static tt_isa find_most(void)
{
    const tt_isa here = tt_isa_here();
    if (state.used != TT_ISA_AUTO)
        return state.used;
    return state.limit != TT_ISA_AUTO && state.limit < here ? state.limit
                                                            : here;
}

tt_isa tt_isa_most(void)
{
    pthread_mutex_lock(&state.lock);
    const tt_isa most = find_most();
    pthread_mutex_unlock(&state.lock);
    return most;
}

tt_isa tt_isa_used(void)
{
    pthread_mutex_lock(&state.lock);
    const tt_isa used = state.used = find_most();
    pthread_mutex_unlock(&state.lock);
    return used;
}
