// simd - the table of one instruction set.

#include "backend/cpu/simd.h"

#include "backend/cpu/simd/isa.h"

#define TT_SIMD(name) extern const tt_simd_##name TT_SYMBOL(tt_simd_##name);
#include "backend/cpu/simd/list.h"
#undef TT_SIMD
extern const tt_simd TT_SYMBOL(tt_simd_table);

#define TEXT_OF(isa) #isa
#define NAME_OF(isa) TEXT_OF(isa)

const tt_simd TT_SYMBOL(tt_simd_table) = {
    .isa = NAME_OF(TT_ISA),
#define TT_SIMD(name) .name = &TT_SYMBOL(tt_simd_##name),
#include "backend/cpu/simd/list.h"
#undef TT_SIMD
};
