// fused - operators that do the work of several in one pass over memory.
//
// Element-wise work after a matrix product costs a pass over the result in memory. A
// kernel that does it while the result is in registers (an epilogue) saves that pass.
// No model asks for these operators. The pass `fuse` puts them in place of their parts
// where the target has kernels for them; exact mode does without.

#ifndef TT_OPS_FUSED_FUSED_H
#define TT_OPS_FUSED_FUSED_H

#include "graph/op.h"

typedef struct tt_norm_grad_params {
    bool bias; // whether dbeta is wanted too
    bool sums; // and the sums of dx, which come last
} tt_norm_grad_params;

// Inputs and outputs.
enum { TT_NG_X, TT_NG_DY, TT_NG_GAMMA, TT_NG_MEAN, TT_NG_RSTD, TT_NG_PLUS };
enum { TT_NG_DX, TT_NG_DGAMMA, TT_NG_DBETA };
enum { TT_CS_FACTOR = 2 }; // of the gradient; none: 1
enum { TT_CS_DLOGITS, TT_CS_SUM, TT_CS_COUNT, TT_CS_CORRECT };
enum { TT_MA_A, TT_MA_B, TT_MA_BIAS, TT_MA_PLUS };
enum { TT_MG_A, TT_MG_B, TT_MG_Z };
enum { TT_GB_X, TT_GB_DY, TT_GB_W, TT_GB_B };    // shapes: W, B
enum { TT_CA_PLUS, TT_CA_DY, TT_CA_W, TT_CA_X }; // shape: X
enum { TT_RB_Y, TT_RB_DY, TT_RB_B };             // shape: B
enum { TT_RB_DZ, TT_RB_DB };

#endif
