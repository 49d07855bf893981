// simd - the table of one instruction set: one line per family of kernels.

#include "backend/cpu/simd.h"

#include "backend/cpu/simd/isa.h"

extern const tt_simd_attention TT_SYMBOL(tt_simd_attention);
extern const tt_simd_norm TT_SYMBOL(tt_simd_norm);
extern const tt_simd_activation TT_SYMBOL(tt_simd_activation);
extern const tt_simd_loss TT_SYMBOL(tt_simd_loss);
extern const tt_simd_embedding TT_SYMBOL(tt_simd_embedding);
extern const tt_simd_experts TT_SYMBOL(tt_simd_experts);
extern const tt_simd_elementwise TT_SYMBOL(tt_simd_elementwise);
extern const tt_simd_permute TT_SYMBOL(tt_simd_permute);
extern const tt_simd_reduce TT_SYMBOL(tt_simd_reduce);
extern const tt_simd_optimizer TT_SYMBOL(tt_simd_optimizer);
extern const tt_simd_dropout TT_SYMBOL(tt_simd_dropout);
extern const tt_simd_lstm TT_SYMBOL(tt_simd_lstm);
extern const tt_simd_channels TT_SYMBOL(tt_simd_channels);
extern const tt_simd_fold TT_SYMBOL(tt_simd_fold);
extern const tt_simd_matvec TT_SYMBOL(tt_simd_matvec);
extern const tt_simd_merge TT_SYMBOL(tt_simd_merge);
extern const tt_simd_pointwise TT_SYMBOL(tt_simd_pointwise);
extern const tt_simd_rotary TT_SYMBOL(tt_simd_rotary);
extern const tt_simd_score TT_SYMBOL(tt_simd_score);
extern const tt_simd_recurrence TT_SYMBOL(tt_simd_recurrence);
extern const tt_simd TT_SYMBOL(tt_simd_table);

#define TEXT_OF(isa) #isa
#define NAME_OF(isa) TEXT_OF(isa)

const tt_simd TT_SYMBOL(tt_simd_table) = {
    .isa = NAME_OF(TT_ISA),
    .attention = &TT_SYMBOL(tt_simd_attention),
    .norm = &TT_SYMBOL(tt_simd_norm),
    .activation = &TT_SYMBOL(tt_simd_activation),
    .loss = &TT_SYMBOL(tt_simd_loss),
    .embedding = &TT_SYMBOL(tt_simd_embedding),
    .experts = &TT_SYMBOL(tt_simd_experts),
    .elementwise = &TT_SYMBOL(tt_simd_elementwise),
    .permute = &TT_SYMBOL(tt_simd_permute),
    .reduce = &TT_SYMBOL(tt_simd_reduce),
    .optimizer = &TT_SYMBOL(tt_simd_optimizer),
    .dropout = &TT_SYMBOL(tt_simd_dropout),
    .lstm = &TT_SYMBOL(tt_simd_lstm),
    .channels = &TT_SYMBOL(tt_simd_channels),
    .fold = &TT_SYMBOL(tt_simd_fold),
    .matvec = &TT_SYMBOL(tt_simd_matvec),
    .merge = &TT_SYMBOL(tt_simd_merge),
    .pointwise = &TT_SYMBOL(tt_simd_pointwise),
    .rotary = &TT_SYMBOL(tt_simd_rotary),
    .score = &TT_SYMBOL(tt_simd_score),
    .recurrence = &TT_SYMBOL(tt_simd_recurrence),
};
