// fp8 - matrix products of operands in 8 bits (e4m3, e5m2).
//
// 8 bits have little range, so every operand has a scale, its unit: the value is `unit`
// times what is stored. Finding the largest element before packing would cost a pass
// over the operand. So units come from the largest elements of earlier steps (delayed
// scaling), which packing finds on its way. The units of all operands are one vector,
// with an entry per site.
//
//   step N     x -> fp8_pack(x, units) -> rows, turned, peak      -> matmul_fp8
//   update N   peaks -> history -> fp8_units -> units of step N+1

#ifndef TT_OPS_CODEC_FP8_H
#define TT_OPS_CODEC_FP8_H

#include "graph/build.h"

typedef struct tt_fp8_pack_params {
    int to;       // 0: e4m3, 1: e5m2
    bool is_gelu; // of gelu(x), tanh form
    int64_t site;
} tt_fp8_pack_params;

// Inputs of fp8_pack, and its outputs.
enum { TT_Q_X, TT_Q_UNITS };
enum { TT_Q_ROWS, TT_Q_TURNED, TT_Q_PEAK, TT_Q_N_OUT };

// Inputs of fp8_pack_grad, and its outputs; of b only the shape is read.
enum { TT_QG_X, TT_QG_UNITS, TT_QG_Z, TT_QG_B, TT_QG_N };
enum { TT_QG_SUMS, TT_QG_ROWS, TT_QG_TURNED, TT_QG_PEAK, TT_QG_N_OUT };

typedef struct tt_matmul_fp8_params {
    int64_t a_site, b_site;
    bool is_wide; // the result is f32, else bf16
} tt_matmul_fp8_params;

// Inputs; of `like`, the shape of the result, only the shape is read.
enum {
    TT_M8_A,
    TT_M8_B,
    TT_M8_UNITS,
    TT_M8_BIAS,
    TT_M8_LIKE,
    TT_M8_PLUS,
    TT_M8_N,
};

// Inputs of fp8_units: history [steps, sites], units, peaks of this step, skip.
enum { TT_U8S_HISTORY, TT_U8S_UNITS, TT_U8S_PEAKS, TT_U8S_SKIP, TT_U8S_N };

#endif
