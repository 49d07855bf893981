// isa - every file of this folder is compiled once per instruction set. The only
// symbols it exports are tables named through TT_SYMBOL, so the copies do not clash:
// TT_SYMBOL(tt_simd_norm) is tt_simd_norm_v4 under -DTT_ISA=v4.

#ifndef TT_BACKEND_CPU_SIMD_ISA_H
#define TT_BACKEND_CPU_SIMD_ISA_H

#ifndef TT_ISA
#    define TT_ISA base
#endif

#define TT_SYMBOL_PASTE(name, isa) name##_##isa
#define TT_SYMBOL_EXPAND(name, isa) TT_SYMBOL_PASTE(name, isa)
#define TT_SYMBOL(name) TT_SYMBOL_EXPAND(name, TT_ISA)

// Inner loops take the storage type as an argument and are inlined into callers where
// it is a constant. So one source serves fp32 and bf16, without a branch per element.
#define TT_INLINE static inline __attribute__((always_inline, unused))

#endif
